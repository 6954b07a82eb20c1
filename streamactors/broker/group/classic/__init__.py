"""The classic group protocol: a leader among the members assigns the partitions.

`classic_state.py` is the pure state machine, `step(group, event, now_ms)`. Its rules are in `classic_join.py`, `classic_rebalance.py` and
`classic_commit.py`, its values in `classic_group.py` and `classic_events.py`. Another protocol (KIP-848) needs a package beside this one, and changes where the classic machine is used today: in every file of `broker/group/`
but `offset_record.py`, and in the handlers of the API keys 11 to 16. `docs/architecture.md` lists what else it needs."""
