"""The stages that an operator is made of: those that its example adds when it runs."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from streamactors.dsl.flow import Flow, OnFlowAndItsClass
from streamactors.engine.blueprint.modules import Attributed, Joined, MatMapped, Module, StageModule, Wired
from streamactors.engine.stage import GraphStage
from streamactors.stages.bases.passing import Identity

_WRAPPED = (classmethod, staticmethod, OnFlowAndItsClass)


@contextmanager
def recorded(owner: type, name: str) -> Iterator[list[GraphStage]]:
    """Record in a list what each call of a method adds to the blueprint of its part."""
    method = inspect.getattr_static(owner, name)
    function: Callable[..., Any] = getattr(method, "__func__", method)
    stages: list[GraphStage] = []

    @functools.wraps(function)
    def recording(*arguments: Any, **named: Any) -> Any:
        result = function(*arguments, **named)
        given = {id(stage) for argument in arguments for stage in _stages(argument)}
        stages.extend(stage for stage in _stages(result) if id(stage) not in given)
        return result

    replaced = [(owner, method)]
    if isinstance(on_flow := vars(Flow).get(name), OnFlowAndItsClass):
        replaced.append((Flow, on_flow))
    for cls, kept in replaced:
        setattr(cls, name, type(kept)(recording) if isinstance(kept, _WRAPPED) else recording)
    try:
        yield stages
    finally:
        for cls, kept in replaced:
            setattr(cls, name, kept)


def _stages(part: Any) -> list[GraphStage]:
    """Return the stages of a part, from upstream to downstream. The identity is none."""
    return [stage for stage in _of(getattr(part, "module", None)) if not isinstance(stage, Identity)]


def _of(module: Module | None) -> Iterator[GraphStage]:
    match module:
        case StageModule():
            yield module.stage
        case Attributed() | MatMapped():
            yield from _of(module.inner)
        case Joined():
            yield from _of(module.left)
            yield from _of(module.right)
        case Wired():
            for inner in module.parts:
                yield from _of(inner)
