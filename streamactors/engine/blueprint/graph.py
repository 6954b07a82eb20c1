"""A flattened graph: nodes and edges between their ports."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

from streamactors.engine.attributes import Attributes
from streamactors.engine.stage import GraphStage

PortOf: TypeAlias = tuple[int, int]  # (node, port)
Edge: TypeAlias = tuple[PortOf, PortOf]  # from an outlet to an inlet
NO_NODE = -1  # in a mat program: a stage that was fused away and materializes nothing


@dataclass(slots=True)
class StageNode:
    """A stage in the plan."""

    stage: GraphStage
    attributes: Attributes
    island: int = 0

    @property
    def label(self) -> str:
        """The name shown in errors and pictures."""
        return self.attributes.name or self.stage.label


@dataclass(slots=True)
class Flat:
    """A flattened module: `inlets` and `outlets` are the open ports, `mat` computes the materialized value."""

    nodes: list[StageNode]
    edges: list[Edge]
    inlets: list[PortOf]
    outlets: list[PortOf]
    mat: list[tuple[str, Any]]
