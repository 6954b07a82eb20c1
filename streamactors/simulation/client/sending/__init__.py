"""How a producer's records get into the cluster.

`sender.py` sends what `waiting.py` collects for each partition; `partitioner.py` chooses partitions. `reports.py` holds the delivery reports until a poll.
`identity.py` is the producer id of an idempotent producer, and `transaction.py` what a transaction adds."""
