"""What a GraphDSL hands out: placed parts and their ports, wired with `>>` (or `<<`, the other way round)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from streamactors.dsl.compose import Wirable
from streamactors.engine.blueprint import Module
from streamactors.engine.user_code import shortened
from streamactors.errors import BuildError

if TYPE_CHECKING:
    from streamactors.dsl.graph_dsl import GraphDSL


class _Shift(Wirable):
    """Something that may stand beside `>>`. The rules are GraphDSL.wire's."""

    __slots__ = ()
    graph: GraphDSL

    def __rshift__(self, target: Any) -> Placed:
        """Wire this into `target`; return the target's part, so that chains go on."""
        return self.graph.wire(self, target)

    def __rrshift__(self, source: Any) -> Placed:
        return self.graph.wire(source, self)

    def __lshift__(self, source: Any) -> Placed:
        """Wire `source` into this; return the source's part."""
        placed = self.graph.place(source)
        self.graph.wire(placed if not isinstance(source, OutPort) else source, self)
        return placed


class Placed(_Shift):
    """A part in a graph. Where one port is meant, it stands for its first port that is not connected yet."""

    __slots__ = ("graph", "index", "module", "name")

    def __init__(self, graph: GraphDSL, index: int, module: Module, name: str) -> None:
        self.graph = graph
        self.index = index
        self.module = module
        self.name = name

    def in_(self, port: int | str = 0) -> InPort:
        """Return an inlet, by number or, in a component, by name."""
        return InPort(self, self._number("inlet", self.module.shape.inlets, port))

    def out(self, port: int | str = 0) -> OutPort:
        """Return an outlet, by number or, in a component, by name."""
        return OutPort(self, self._number("outlet", self.module.shape.outlets, port))

    @property
    def inlets(self) -> list[InPort]:
        """All inlets."""
        return [InPort(self, i) for i in range(len(self.module.shape.inlets))]

    @property
    def outlets(self) -> list[OutPort]:
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


class _Port(_Shift):
    """One port of a placed part."""

    __slots__ = ("number", "part")

    def __init__(self, part: Placed, number: int) -> None:
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


class InPort(_Port):
    """An inlet of a placed part."""

    __slots__ = ()

    def __str__(self) -> str:
        return f"{self.part.name}.{self.part.module.shape.inlets[self.number]}"


class OutPort(_Port):
    """An outlet of a placed part."""

    __slots__ = ()

    def __str__(self) -> str:
        return f"{self.part.name}.{self.part.module.shape.outlets[self.number]}"
