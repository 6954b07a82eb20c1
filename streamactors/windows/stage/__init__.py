"""The stage that runs windows in a graph: tasks per partition, the order of rows, marks and cuts.

`window_logic.py` takes rows and marks. `turns.py` holds rows that must wait for rows of another input (`head_time.py`, `inputs.py`,
`ordered_inputs.py`); `partition_tasks.py` gives a row to its task. `keeper.py` stops at marks and has the state written; `store_reads.py` answers
readers of the stores. The tasks themselves are in `operators/` and `topology/`."""
