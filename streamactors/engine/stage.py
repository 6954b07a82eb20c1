"""GraphStage: the blueprint of one stage. Immutable and reusable; every run asks it for a fresh logic."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from streamactors.engine.attributes import Attributes
from streamactors.engine.element.graph_stage_logic import GraphStageLogic, element_logic
from streamactors.engine.island.connection import Connection
from streamactors.engine.logic import FlowLogic, Logic
from streamactors.engine.marks.marks import OPAQUE, Handling
from streamactors.engine.stage_traits import StageTraits
from streamactors.engine.suggestions import FUTURE_NAMES, Suggestions
from streamactors.engine.user_code import shortened
from streamactors.errors import BuildError

In = TypeVar("In")
Out = TypeVar("Out")
if TYPE_CHECKING:
    from typing_extensions import TypeVar as TypeVarWithDefault

    Element = TypeVarWithDefault("Element", bound=Any, default=Any)
else:
    Element = TypeVar("Element")
"""The type of the elements of `Flow.map(f)`, `Sink.foreach(f)` or `Merge(2)`. It is Any where neither the arguments nor the place of the
call give it. The bound lets a lambda use any operator on such an element."""


class NotUsed(Suggestions):
    """The materialized value of a stage that has none; there is one instance, NOT_USED."""

    __slots__ = ()
    _suggestions = dict.fromkeys(
        FUTURE_NAMES,
        "to() keeps the source's materialized value, and this source has none; run_with(sink), or to_mat(sink, Keep.right).run(), returns "
        "the future of the sink",
    )

    def __repr__(self) -> str:
        return "NotUsed"


NOT_USED: Final = NotUsed()


@dataclass(frozen=True, slots=True)
class Shape:
    """The names of a stage's ports, in order."""

    inlets: tuple[str, ...]
    outlets: tuple[str, ...]


SOURCE = Shape((), ("out",))
FLOW = Shape(("in",), ("out",))
SINK = Shape(("in",), ())


def fan_in(n: int) -> Shape:
    """Return the shape of n inlets and one outlet."""
    return Shape(tuple(f"in_({i})" for i in range(n)), ("out",))


def fan_out(n: int) -> Shape:
    """Return the shape of one inlet and n outlets."""
    return Shape(("in",), tuple(f"out({i})" for i in range(n)))


class GraphStage:
    """Base of every stage.

    A subclass sets `shape` (and `handling`, when marks may pass) and returns from `create` a fresh Logic with the value to
    materialize. The declarations `passes`, `exact` and `remembers` of `handling` are read when a run is built."""

    shape: Shape = FLOW
    name: str = ""
    handling: Handling = OPAQUE
    traits: StageTraits = StageTraits()
    """What else the stage declares: `traits = StageTraits(emits_marks=True)` names what differs from the defaults."""

    def create(self, attributes: Attributes) -> tuple[Logic, Any]:
        """Return a fresh logic and the materialized value. Override this, or `logic` when there is no such value."""
        logic: Any = self.logic()
        if isinstance(logic, Logic):
            return logic, NOT_USED
        if isinstance(logic, GraphStageLogic):
            return element_logic(logic), NOT_USED
        raise BuildError(
            f"{type(self).__name__}.logic() must return a GraphStageLogic or a ChunkLogic, got {type(logic).__name__} "
            f"{shortened(logic, 60)}"
            + ("; ChunkLogic(function) is the logic of one function" if callable(logic) else "")
        )

    def logic(self) -> Logic | GraphStageLogic:
        """Return a fresh logic, of either kind."""
        raise NotImplementedError(f"{type(self).__name__} defines neither create() nor logic()")  # pragma: no cover

    @property
    def label(self) -> str:
        """The stage's name in errors and pictures."""
        return self.name or _snake(type(self).__name__)


def remembers(stage: GraphStage) -> bool:
    """Return whether what leaves the stage, or the operators fused into it, depends on earlier elements."""
    steps = stage.traits.steps
    if steps is not None and steps.remembers:
        return True
    return bool(stage.shape.inlets) and bool(stage.shape.outlets) and stage.handling.remembers


class Stage(GraphStage, Generic[In, Out]):
    """A stage with one inlet and one outlet."""

    shape = FLOW


class Junction(GraphStage, Generic[In, Out]):
    """A stage with several inlets of one type, or several outlets of one type: `Merge(2)`, or `Merge[int](2)` for a type checker."""


@cache
def _snake(name: str) -> str:
    return "".join("_" + c.lower() if c.isupper() and i else c.lower() for i, c in enumerate(name))


class ChunkLogic(FlowLogic):
    """A chunk stage made of one function: `on_chunk(elements)` returns a list of at most as many results.

    No chunk is longer than downstream's demand. After an empty result the stage asks upstream again."""

    def __init__(
        self,
        on_chunk: Callable[[list[Any]], list[Any]],
        *,
        on_end: Callable[[], Iterable[Any]] | None = None,
    ) -> None:
        self._on_chunk = on_chunk
        self._on_end = on_end
        self._tail: list[Any] | None = None

    def on_pull(self, out: Connection) -> None:
        if self._tail is not None:
            self._drain()
        else:
            self.in_.want(out.asked)

    def on_push(self, in_: Connection) -> None:
        out = self.out
        results = self._on_chunk(in_.grab(out.asked))
        if type(results) is not list:
            raise self._no_list("on_chunk", results)
        if results:
            out.push(results)
        due = in_.due
        in_.want(out.asked if due * 2 <= out.asked else due)

    def on_complete(self, in_: Connection) -> None:
        if self._on_end is None:
            self.complete_stage()
        else:
            tail = self._on_end()
            if not isinstance(tail, Iterable):
                raise self._no_list("on_end", tail)
            self._tail = list(tail)
            self._drain()

    def _no_list(self, function: str, returned: object) -> TypeError:
        return TypeError(
            f"{self.name}: {function} must return a list of results, [] for none, got {type(returned).__name__} {shortened(returned, 60)}"
        )

    def _drain(self) -> None:
        tail = self._tail
        assert tail is not None
        n = self.out.asked
        if tail and n:
            self.out.push(tail[:n])
            self._tail = tail = tail[n:]
        if not tail:
            self.complete_stage()
