"""The handles that a GraphDSL returns: placed parts and their ports, connected with `>>` (or `<<`, the other way round)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, Never, TypeVar, overload

from streamactors.dsl.compose import Wirable
from streamactors.dsl.typevars import U
from streamactors.engine.blueprint.modules import Module
from streamactors.engine.user_code import shortened
from streamactors.errors import BuildError

if TYPE_CHECKING:
    from typing_extensions import TypeVar as TypeVarWithDefault

    from streamactors.dsl.flow import Flow
    from streamactors.dsl.graph.graph_dsl import GraphDSL
    from streamactors.dsl.part import Part
    from streamactors.dsl.sink import Sink
    from streamactors.engine.stage import GraphStage, Junction, Stage

    In = TypeVarWithDefault("In", contravariant=True, default=Any)
    Out = TypeVarWithDefault("Out", covariant=True, default=Any)
else:
    In, Out = TypeVar("In", contravariant=True), TypeVar("Out", covariant=True)
"""What a placed part takes and emits. Any for a part whose ports have several types."""


class _Shift(Wirable, Generic[In, Out]):
    """An operand of `>>`. GraphDSL.wire has the rules."""

    __slots__ = ()
    graph: GraphDSL

    @overload
    def __rshift__(
        self, target: Placed[Out, U] | InPort[Out, U] | Flow[Out, U, Any] | Stage[Any, U] | Junction[Any, U]
    ) -> Placed[Out, U]: ...

    @overload
    def __rshift__(self, target: Sink[Out, Any]) -> Placed[Out, Never]: ...

    @overload
    def __rshift__(self, target: GraphStage) -> Placed: ...

    def __rshift__(self, target: Any) -> Placed[Any, Any]:
        """Connect this to `target`; return the target's part, so that `>>` can be chained."""
        return self.graph.wire(self, target)

    def __rrshift__(self, source: Part[Any] | GraphStage) -> Placed[In, Out]:
        return self.graph.wire(source, self)

    def __lshift__(self, source: Any) -> Placed:
        """Connect `source` to this; return the source's part."""
        placed = self.graph.place(source)
        self.graph.wire(placed if not isinstance(source, OutPort) else source, self)
        return placed


class Placed(_Shift[In, Out]):
    """A part in a graph. As an operand of `>>` it means its first port that is not connected yet."""

    __slots__ = ("graph", "index", "module", "name")

    def __init__(self, graph: GraphDSL, index: int, module: Module, name: str) -> None:
        self.graph = graph
        self.index = index
        self.module = module
        self.name = name

    def in_(self, port: int | str = 0) -> InPort[In, Out]:
        """Return an inlet, by number or, in a component, by name."""
        return InPort(self, self._number("inlet", self.module.shape.inlets, port))

    def out(self, port: int | str = 0) -> OutPort[In, Out]:
        """Return an outlet, by number or, in a component, by name."""
        return OutPort(self, self._number("outlet", self.module.shape.outlets, port))

    @property
    def inlets(self) -> list[InPort[In, Out]]:
        """All inlets."""
        return [InPort(self, i) for i in range(len(self.module.shape.inlets))]

    @property
    def outlets(self) -> list[OutPort[In, Out]]:
        """All outlets."""
        return [OutPort(self, i) for i in range(len(self.module.shape.outlets))]

    def _number(self, kind: str, names: tuple[str, ...], port: int | str) -> int:
        if isinstance(port, str):
            if port in names:
                return names.index(port)
        elif isinstance(port, int) and not isinstance(port, bool) and 0 <= port < len(names):
            return port
        have = f"{len(names)} {kind}{'s' if len(names) != 1 else ''}" + (f": {', '.join(names)}" if names else "")
        raise BuildError(f"{self.name} has no {kind} {shortened(port, 40)}; it has {have}")

    def __repr__(self) -> str:
        return f"<{self.name} in a graph>"


class _Port(_Shift[In, Out]):
    """One port of a placed part."""

    __slots__ = ("number", "part")

    def __init__(self, part: Placed[In, Out], number: int) -> None:
        self.part = part
        self.number = number

    @property
    def graph(self) -> GraphDSL:  # type: ignore[override]
        return self.part.graph

    @property
    def key(self) -> tuple[int, int]:
        """(index of the part, number of the port)."""
        return (self.part.index, self.number)

    def __repr__(self) -> str:
        return f"<port {self}>"


class InPort(_Port[In, Out]):
    """An inlet of a placed part."""

    __slots__ = ()

    def __str__(self) -> str:
        return f"{self.part.name}.{self.part.module.shape.inlets[self.number]}"


class OutPort(_Port[In, Out]):
    """An outlet of a placed part."""

    __slots__ = ()

    def __str__(self) -> str:
        return f"{self.part.name}.{self.part.module.shape.outlets[self.number]}"
