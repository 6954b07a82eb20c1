"""Trying a test's body by many seeds: under pytest, by a call, and from the command line.

`seeds.py` runs seeds, in `workers.py`'s processes where asked; `report.py` says what a failing seed shows. `pytest_plugin.py` and `simulate.py` call
them."""
