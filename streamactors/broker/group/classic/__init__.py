"""The classic group protocol: a leader among the members assigns the partitions.

`classic_state.py` is the pure state machine, `step(group, event, now_ms)`. Its rules are in `classic_join.py`, `classic_rebalance.py` and
`classic_commit.py`, its values in `classic_group.py` and `classic_events.py`. `classic_kind.py` runs it for a shard."""
