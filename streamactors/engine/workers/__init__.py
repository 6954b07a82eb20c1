"""Islands in worker processes: the stages between `async_boundary(process=True)` and the next boundary.

`regions.py` finds these stages when a run is planned. In this process `halves.py` has the stages before and after them; `remote_island.py` starts the
process, sends chunks and marks, and starts it again after a crash. In the worker process `engine/materializing/child_island.py` runs the stages between two halves
of its own. `wire.py` has the frames that the two sides exchange."""
