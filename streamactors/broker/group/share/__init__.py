"""Share groups at the group coordinator (KIP-932): members, epochs, assignments, and which share partitions are initialised.

`ShareKind` runs the pure rules of `share_rules` for a shard. A decision is a list of records, and the group is their fold (`share_fold`), so a
new coordinator that reads the log has the same group. What becomes of the records of a topic is decided in `broker/share/`."""
