"""Fusing: adjacent map, filter and scan stages become one stage with one generated loop.

`chains.py` finds the chains of stages in a flattened graph, `loop.py` generates the loop of a chain. `flow.py` and `source.py` are the
stages that run it: without and with the source before the chain."""
