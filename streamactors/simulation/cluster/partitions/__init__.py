"""Partitions of a simulated cluster.

`partition.py` has the leader, the replicas and the parked requests of one partition. It owns a `log.py`, which holds `batch.py`s and the
broker's ProducerState. `cleaning.py` removes what retention and compaction remove."""
