"""The per-element way to write a stage.

Users subclass `GraphStageLogic`. `element_logic.py` drives it from chunks; `ports.py` holds the state of its ports."""

from streamactors.engine.element.graph_stage_logic import GraphStageLogic as GraphStageLogic
