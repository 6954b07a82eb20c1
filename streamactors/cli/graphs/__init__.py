"""Commands about a graph, MODULE:GRAPH: `run`, `graph`, `check`; and about the state of one: `query`, `state`.

`run.py` starts a graph in this process through `kafka/controls/supervised.py`, or N processes through `members.py`."""
