"""The runtime of group, transaction and share coordinators, whose state is stored in an internal topic.

`Coordinators` makes one `CoordinatorActor` for each partition that this broker leads. The actor has the partition read, passes
messages to its shard (`group/`, `transaction/` or `share/state/`), refuses requests it cannot serve, and reads the partition again after a
failure. The shard writes through `CoordinatorLog`."""
