"""A part of a graph, continued by windows, tables or a step with a state: what the operators of operators/windows.py begin with."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from streamactors.dsl.operators.base import Ops
from streamactors.durations import Duration
from streamactors.engine.planning.plan import plan_of
from streamactors.windows.stage.stage import WindowStage
from streamactors.windows.topology.chain import Chain, Records, callable_key, ended
from streamactors.windows.topology.graces import graces_of
from streamactors.windows.topology.grouped import GroupedStream
from streamactors.windows.topology.stream import TopologyStream


def records_of(part: Ops[Any, Any]) -> Records:
    """Return the stream of Records that begins a chain downstream of a part."""
    return Records(_Continued(part))


def with_step(
    part: Ops[Any, Any],
    operator: str,
    step: Callable[[TopologyStream], TopologyStream],
    *,
    changelog: bool,
    max_task_idle: Duration | None = 0,
) -> Any:
    """Return the part, continued by one step of a topology."""
    return ended(step(records_of(part).reading(operator, changelog, max_task_idle)))


def keyed_by(part: Ops[Any, Any], fn: Callable[[Any], Any], *, changelog: bool) -> GroupedStream[Any, Any]:
    """Group the Records of a part by a new key, through a topic where a source of topics can make one."""
    callable_key(fn)
    sources = _partitioned_sources(part)
    if not sources:
        return records_of(part).key_by(fn, changelog=changelog)
    through = partial(sources[-1].repartitioned, fn, bounded=sources[0].until_end)
    return Records(_Continued(part, through)).group_by_key(changelog=changelog)


class _Continued:
    """Continues a part downstream of a finished chain. `through`: makes the topic, named after a node, that gives equal keys one partition."""

    def __init__(self, part: Ops[Any, Any], through: Callable[..., Any] | None = None) -> None:
        self._part = part
        self._through = through

    def __call__(self, chain: Chain, results: TopologyStream) -> Any:
        part: Any = self._part
        if self._through is not None:
            part = part.via(self._through(node=chain.first_state.name, graces=graces_of(chain.nodes)))
        stage = WindowStage(chain.tasks(results.node))
        return part._via(stage) if chain.late is None else part._fan_out(stage, chain.late)


def _partitioned_sources(part: Ops[Any, Any]) -> list[Any]:
    """Return the sources of a part, in its order, that partition their rows by key and can repartition them by another."""
    if part.module.shape.inlets:
        return []
    return [node.stage for node in plan_of(part.module).nodes if hasattr(node.stage, "repartitioned")]
