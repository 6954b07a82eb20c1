"""A part of a graph, continued by windows or tables: what group_by_key, key_by and to_table begin with."""

from __future__ import annotations

from typing import Any, cast

from streamactors.dsl.operators.base import Ops
from streamactors.engine.blueprint.plan import plan_of
from streamactors.windows import fluent
from streamactors.windows.definitions.blueprint import Blueprint
from streamactors.windows.operators.task_factory import compile
from streamactors.windows.stage.stage import WindowStage


class Continued(fluent.WindowOps[Any, Any]):
    """A part, to be continued behind a finished blueprint."""

    def __init__(self, part: Ops[Any, Any]) -> None:
        self._part = part

    def via_windows(self, blueprint: Blueprint) -> Any:
        part = self._part
        sources = _partitioned_sources(part) if blueprint.changes_keys else []
        if sources:
            blueprint, key_of = blueprint.with_keys_given()
            through: Any = sources[-1].repartitioned(key_of, blueprint.nodes[0], sources[0].until_end)
            part = cast("Any", part).via(through)
        stage = WindowStage(compile(blueprint))
        if blueprint.late is None:
            return part._via(stage)
        return part._fan_out(stage, blueprint.late)


def _partitioned_sources(part: Ops[Any, Any]) -> list[Any]:
    """Return the sources of a part, in its order, that partition their rows by key and can repartition them by another."""
    if part.module.shape.inlets:
        return []
    return [node.stage for node in plan_of(part.module).nodes if hasattr(node.stage, "repartitioned")]
