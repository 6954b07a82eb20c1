"""Blueprints: immutable graphs. The DSL makes modules (`modules.py`); the plan of a run flattens them into a graph (`graph.py`)."""
