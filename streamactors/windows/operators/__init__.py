"""The operators of one task: a list of rows in, a list of rows out. No clock, no thread, no marks.

`topology/` wires them into tasks. `operator.py` has their base classes,
`aggregate.py` the row loop of all aggregations. The operators of windows are in `windowed/`, those of joins and tables in `joins/` and `tables/`."""
