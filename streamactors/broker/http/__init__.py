"""Pages over HTTP: metrics for Prometheus and readiness, of a broker and of a running graph.

`endpoint_address.py` says where pages are served and who may read them, `endpoint.py` serves them. `broker_metrics.py` computes a broker's metrics on
request."""
