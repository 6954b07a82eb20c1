"""Islands: the stages between two async boundaries, run in one actor.

`run.py` is one run of a plan. `island.py` is the actor, `interpreter.py` its event loop, and `connection.py` a connection inside an island;
`engine/boundary.py` connects two islands. `pace.py` bounds how long a slice of user calls may take."""
