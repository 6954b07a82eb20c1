"""Islands: the stages between two async boundaries, run in one actor.

`materializer.py` starts a run (`run.py`) of a plan. `island.py` is the actor, `interpreter.py` its event loop, `connection.py` a connection inside an
island, `boundary.py` a connection between two islands. `pace.py` bounds how long a slice of user calls may take."""
