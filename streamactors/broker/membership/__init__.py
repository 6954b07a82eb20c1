"""The broker as a member of a cluster whose controllers are other processes.

`lifecycle_state` decides when to register, send heartbeats and stop; `Lifecycle` carries that out and talks to the active
controller. The `Member` follows the metadata through `quorum.Observer`. A broker that is one of the controllers has it already."""
