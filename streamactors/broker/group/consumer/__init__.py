"""The consumer group protocol (KIP-848): the coordinator assigns the partitions, and each member follows at its own pace.

`consumer_kind.py` runs the groups of a shard. It asks the pure machine in `consumer_state.py`, whose parts are `reconcile.py`, `target.py`,
`subscriptions.py` and `regexes.py`, for a `Decision`: a list of records (`consumer_record.py`). Their fold (`consumer_fold.py`) is the new group, so the state is
always what a new coordinator would read. `classic_members.py` and `migration.py` are for members of the classic protocol."""
