"""Blueprints: immutable descriptions of graphs. Any number of runs share one; each run makes its own logics.

    StageModule             one stage
    Joined(left, right)     left's only outlet feeds right's only inlet; kept as a tree, so composing is O(1)
    Wired(parts, wires)     the result of GraphDSL: any parts, any wires, some ports left open
    Attributed, MatMapped   a module with attributes around it, or with its materialized value mapped

`engine/planning/plan.py` turns a module into the plan that the materializer starts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from streamactors.engine.attributes import NONE, Attributes
from streamactors.engine.stage import GraphStage, Shape

Combine: TypeAlias = Callable[[Any, Any], Any]
Port: TypeAlias = tuple[int, int]  # (part, port of that part)


def keep_left(left: Any, right: Any) -> Any:
    """Materialize the left part's value."""
    return left


def keep_right(left: Any, right: Any) -> Any:
    """Materialize the right part's value."""
    return right


def keep_both(left: Any, right: Any) -> tuple[Any, Any]:
    """Materialize a pair of both values."""
    return (left, right)


class Module:
    """Base of the blueprints. `shape` names the ports that are open."""

    __slots__ = ("plan", "shape")

    shape: Shape
    plan: Any  # filled by plan_of at the first run

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.plan = None


class StageModule(Module):
    """One stage."""

    __slots__ = ("attributes", "stage")

    def __init__(self, stage: GraphStage, attributes: Attributes = NONE) -> None:
        super().__init__(stage.shape)
        self.stage = stage
        self.attributes = attributes


class Joined(Module):
    """`left` feeds `right`; the materialized value is `combine(left's, right's)`."""

    __slots__ = ("combine", "left", "right")

    def __init__(self, left: Module, right: Module, combine: Combine) -> None:
        super().__init__(Shape(left.shape.inlets, right.shape.outlets))
        self.left = left
        self.right = right
        self.combine = combine


class Wired(Module):
    """Parts and the wires between them. `combine` gets the list of the parts' materialized values."""

    __slots__ = ("combine", "inlets", "outlets", "parts", "wires")

    def __init__(
        self,
        parts: tuple[Module, ...],
        wires: tuple[tuple[Port, Port], ...],
        inlets: tuple[Port, ...],
        outlets: tuple[Port, ...],
        combine: Callable[[list[Any]], Any],
    ) -> None:
        super().__init__(
            Shape(
                tuple(parts[part].shape.inlets[port] for part, port in inlets),
                tuple(parts[part].shape.outlets[port] for part, port in outlets),
            )
        )
        self.parts = parts
        self.wires = wires
        self.inlets = inlets
        self.outlets = outlets
        self.combine = combine


class Attributed(Module):
    """A module with attributes that reach every stage inside."""

    __slots__ = ("attributes", "inner")

    def __init__(self, inner: Module, attributes: Attributes) -> None:
        super().__init__(inner.shape)
        self.inner = inner
        self.attributes = attributes


class MatMapped(Module):
    """A module whose materialized value goes through `fn`."""

    __slots__ = ("fn", "inner")

    def __init__(self, inner: Module, fn: Callable[[Any], Any]) -> None:
        super().__init__(inner.shape)
        self.inner = inner
        self.fn = fn


class AsyncBoundary(GraphStage):
    """A place where the graph is cut: the stages downstream of it run in another actor. The plan replaces it by its two halves."""

    name = "async_boundary"

    def __init__(self, buffer: int | None = None, process: bool = False) -> None:
        self.buffer = buffer
        self.process = process  # the stages downstream of it run in a worker process (engine/workers/)
