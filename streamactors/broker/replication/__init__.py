"""The partitions that the broker hosts, and the Produce and Fetch requests that wait for them.

Handlers find a `HostedPartition` in the `PartitionTable`, append to it and read it (`reading.py`); `DelayedFetch` and `PendingProduce` wait for it.
As a leader it counts its followers in `leader_state.py` and proposes changes of the ISR (`isr_publisher.py`). `Replicas` has a
`ReplicaFetcher` for each leader that this broker follows; its rules are in `follower_state.py`."""
