"""The face of the simulation: what a test says about a pipeline, and the runs that try it.

`simulation.py` is what a test calls. It has topics (`sent.py`, `seen.py`), stores outside (`outside.py`), instances (`deployment.py`) and checks
(`checks.py`, `invariants.py`). `run.py` runs a test's body once by one seed."""
