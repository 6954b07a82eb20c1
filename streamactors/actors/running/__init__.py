"""A running actor: its creation, its turns, its failures under its parent's strategy, and its end.

`RunningActor` is the actor in the tree; `thespian_interface.py` is the part of it that Thespian's `Actor` calls."""
