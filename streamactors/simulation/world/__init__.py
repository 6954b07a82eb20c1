"""The world of a simulation: one scheduler, virtual time, dice and a trace.

`face.py` is what other rooms see of it, `simulated.py` a run. The run calls `scheduler.py`, which runs each `task.py` on a greenlet. `patches.py`
replaces what would reach the operating system by `locks.py`, `threads.py`, `times.py`, `chance.py`, `polls.py` and `turns.py`; `refusals.py`
refuses what has no replacement. `disks.py` and `defaults.py` keep what an instance has for itself."""
