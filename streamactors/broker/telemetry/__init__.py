"""Metrics of clients (KIP-714): which ones a broker asks for, and those that clients have pushed.

`telemetry.py` serves the two requests, for which it keeps the subscriptions (`subscriptions.py`) and one entry for each client
(`client_instance.py`). `otlp.py` reads a push, and `pushed_metrics.py` keeps it for /metrics of the broker."""
