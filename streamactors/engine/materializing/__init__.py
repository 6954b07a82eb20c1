"""Materializing: a plan becomes a run.

`materializer.py` starts a run, or an inner graph inside a stage. `restarted_run.py` starts a run again after an abort. `child_island.py` runs a
part of a graph in a worker process."""
