"""Consumer groups: handlers call `Groups`, which passes each request to the coordinator of the group's partition.

The coordinator's `GroupShard` steps the pure machine in `classic_state.py` for members, and `offset_requests.py` for offsets.
Both write to `__consumer_offsets`; `group_record.py` and `offset_record.py` are the formats, `group_loading.py` reads them."""
