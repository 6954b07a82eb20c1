"""The story of a failing seed: the shortest case that breaks the same check, told in words.

`tell.py` makes it. It calls `shrink.py`, which leaves strikes and records out, `timeline.py`, which draws what happened, and `mistake.py`, which names the
kind of mistake where events tell it. `simcase.py` keeps a case in a file."""
