"""A node whose quorum has other nodes.

`controller_channels` is the way to the active controller: commands and answers are objects, and `controller_wire` has their form for a controller in another
process. `lifecycle_state` decides when this broker registers, sends heartbeats and leaves, and `Lifecycle` carries that out. A broker that is not a
controller follows the metadata as a `Member`, through `quorum.Observer`."""
