"""The base of the mix-ins that construct sources and sinks."""

from __future__ import annotations

from typing import Any

from streamactors.engine.blueprint.modules import Module, StageModule
from streamactors.engine.stage import GraphStage


class Constructors:
    """Constructors of a part from one stage."""

    __slots__ = ()

    @classmethod
    def _of(cls: Any, blueprint: GraphStage | Module) -> Any:
        """Return the part of a stage, or of several."""
        return cls(StageModule(blueprint) if isinstance(blueprint, GraphStage) else blueprint)
