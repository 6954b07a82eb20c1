"""The state of a task: stores, their bytes, and their changelog.

`stores.py` is the interface that operators use, with the stores in memory; `disk/` has the same stores on disk. `row_store.py`, `session_store.py`,
`ordered_store.py` and `grouped_store.py` keep rows of joins, sessions, ranges and groups. `store_log.py` collects what has changed;
`changelogs.py` is how a windowed stage has it written and read, `reads.py` what a reader from outside may ask."""
