"""A simulated Apache Kafka cluster: state in memory that changes by steps, without threads, clocks or random numbers of its own.

`cluster.py` is what clients and faults call. It passes requests to `partitions/` (logs, high watermarks, leaders), `coordination/` (the
broker's own coordinators of groups and transactions) and `topics.py` (topics, their settings and the metadata image). `weather.py` decides what
becomes of each request on its way."""
