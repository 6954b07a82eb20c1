"""Operators that turn one element into one, and predicates: map, filter, filter_not, collect. They are fused (engine/fusing)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from streamactors.engine.attributes import Attributes
from streamactors.engine.fusing.flow import FusedFlow
from streamactors.engine.fusing.loop import Op
from streamactors.engine.logic import Logic
from streamactors.engine.marks.marks import EXACT, Handling
from streamactors.engine.stage import In, Out, Stage
from streamactors.stages.checks import plain_function


class Fusable(Stage[In, Out]):
    """A stage that is one step of a generated loop."""

    kind: ClassVar[str]
    handling: Handling = EXACT

    def __init__(self, fn: Callable[..., Any] | None) -> None:
        self.fn = fn

    def op(self, attributes: Attributes) -> Op:
        """Return this stage as a step of a loop."""
        return Op(self.kind, self.fn, self.label, attributes)

    def create(self, attributes: Attributes) -> tuple[Logic, Any]:
        return FusedFlow((self.op(attributes),), self.handling, attributes).create(attributes)


class Map(Fusable[In, Out]):
    """The stage of `Source.map` and `Source.collect_while`."""

    kind = "map"

    def __init__(self, fn: Callable[[Any], Any]) -> None:
        super().__init__(plain_function("map", fn, "map_async"))


class Filter(Fusable[In, In]):
    """The stage of `Source.filter`, `Source.collect_type` and `Source.flatten_optional`."""

    kind = "filter"

    def __init__(self, predicate: Callable[[Any], Any] | None) -> None:
        super().__init__(None if predicate is None else plain_function("filter", predicate))


class FilterNot(Fusable[In, In]):
    """The stage of `Source.filter_not`."""

    kind = "filter_not"

    def __init__(self, predicate: Callable[[Any], Any] | None) -> None:
        super().__init__(None if predicate is None else plain_function("filter_not", predicate))


class Collect(Fusable[In, Out]):
    """Apply a partial function: an element for which it returns None is dropped."""

    kind = "collect"

    def __init__(self, fn: Callable[[Any], Any]) -> None:
        super().__init__(plain_function("collect", fn, "map_async"))
