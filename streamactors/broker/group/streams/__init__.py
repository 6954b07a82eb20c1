"""Streams groups (KIP-1071): the coordinator assigns the tasks of a Kafka Streams application, and has its internal topics created.

`streams_group.py` has the values; `streams_record.py` stores them, `streams_fold.py` applies records to them. `topology_setup.py` decides the
internal topics and the number of tasks, `sticky.py` the target assignment, `reconcile.py` the next step of one member towards it."""
