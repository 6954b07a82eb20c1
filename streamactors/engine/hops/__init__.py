"""Hops: how long records need from one place to the next, measured by stamps that travel between the elements.

A source puts a stamp after some of its chunks (`stamp.py`). Connections note when it enters and leaves them, sinks report it done, and the run's
ledger (`ledger.py`) adds the times of each whole journey to one sketch per hop (`sketch.py`). `held.py` is for stages that hold position marks for long.
`engine/latency.py` is what users read. Elements carry nothing, so a run that is not measured pays nothing."""
