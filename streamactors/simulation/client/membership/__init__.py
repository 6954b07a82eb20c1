"""A consumer's place in its group.

`member.py` is what the consumer knows of it. `classic_member.py` runs the classic protocol, with `assignors.py` for the leader and `wire.py` for what
members embed in their requests. `consumer_member.py` runs KIP-848's. `rebalances.py` runs the callbacks of a rebalance inside a poll."""
