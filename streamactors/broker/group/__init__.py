"""Groups of every kind: handlers call `Groups`, which passes each request to the coordinator of the group's partition.

The coordinator's `GroupShard` has one map of groups. The packages `classic/`, `consumer/`, `share/` and `streams/` have a pure machine each, and a
`GroupKind` that runs it; `offset_requests.py` serves offsets. All write to `__consumer_offsets`: `record_folds.py` names the records of groups, and `group_loading.py`
reads them."""
