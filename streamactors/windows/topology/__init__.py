"""Topologies: streams and tables of one input (`chain.py`: what a Source has) or of several topics (`topics.py`) in one task. The fluent classes
(`stream.py`, `grouped.py`, `table.py`) add nodes to a `Topology` (`model.py`). `task_factory.py` makes tasks of it: `plan.py` wires the operators of one
task, and `window_task.py` runs rows through them, depth first, or in whole chunks where that makes no difference. `queues.py` holds rows on their
way through repartition topics. The operators are in `joins/`, `tables/` and `operators/`."""
