"""The broker as a member of a cluster whose controllers are other processes.

`lifecycle_state` decides when to register, send heartbeats and stop; `Member` carries that out and talks to the active
controller; the metadata comes through `quorum.Observer`."""
