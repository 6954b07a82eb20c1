"""Blueprints: immutable graphs, their attributes, and the plan that a run is built from.

The DSL makes modules (`modules.py`). A run flattens them (`graph.py`, `plan.py`). `picture.py` draws them as Mermaid."""
