"""The source stages over Kafka topics. Each pushes records from a feed to its outlet through a lane.

`source_*` emits all partitions, `partitioned_*` hands out a `sub_source` per partition. `lane.py` asks, cuts, runs fused steps, pushes and
marks for all of them. `consumer_link.py` starts the consumer actor of `reading`. The facades hand in what
committing, transactions, changelogs and repartitioning do for a source (`kafka/state/source_services.py`). `share_group/` has the source of a share group, which has
a member and connections of its own."""
