"""Values as a schema wants them, or an error: nothing is guessed, rounded or left out.

`columns.py` makes Arrow columns of Python's values, with the leaves of `leaves.py`; `arrow_data.py` fits Arrow data. A value that is refused
in a tuple is refused in Arrow data too. `Rows` (spark/rows.py) calls both; `misfit.py` is their error."""
