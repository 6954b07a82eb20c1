"""Topologies: streams and tables of several topics in one task. The fluent classes (`stream.py`, `grouped.py`, `table.py`) add
nodes to a `Topology` (`model.py`); `plan.py` makes the operators of one task from it; `topology_task.py` runs rows through them, depth
first; `queues.py` holds rows on their way through repartition topics. The operators are in `joins/`, `tables/` and `operators/`."""
