"""Share groups (KIP-932): consumers of one group share the records of a partition, and each record is acknowledged on its own.

`partition/` holds the pure state of one partition of a group, on the broker that leads the partition. `state/` is the share coordinator,
which stores that state in `__share_group_state`."""
