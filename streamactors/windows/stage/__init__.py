"""The stage that runs windows in a graph: tasks per partition, the order of rows, marks and cuts.

`stage_state.py` decides, with `turns.py` (rows that wait for rows of another input: `head_time.py`, `inputs.py`, `ordered_inputs.py`), `stops.py` (when
entries are written, which marks pass) and `restores.py`; all of them are pure. `window_logic.py` turns calls of the engine into events, and effects into
calls: `partition_tasks.py` gives a row to its task, `results.py` keeps results until downstream asks, `keeper.py` is the stage as its changelog sees it,
`store_reads.py` answers readers of the stores. The tasks themselves are in `operators/` and `topology/`."""
