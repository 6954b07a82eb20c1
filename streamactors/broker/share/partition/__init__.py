"""The records of one share partition: which may be delivered, which are locked by a member, and which are done. Pure.

`share_partition` holds batches of `in_flight`; `acquiring`, `acknowledging` and `releasing` change them. Each change that must survive is a
`Change`: its owner stores it with the share coordinator and then calls `finish`."""
