"""Parts with more than one port on a side: Component (any shape) and BidiFlow (two directions)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from streamactors.dsl.flow import Flow
from streamactors.dsl.part import Part, module_of, not_used
from streamactors.dsl.typevars import Mat
from streamactors.engine.blueprint.modules import Module, Wired
from streamactors.engine.stage import NotUsed

I1 = TypeVar("I1")
O1 = TypeVar("O1")
I2 = TypeVar("I2")
O2 = TypeVar("O2")
X1 = TypeVar("X1")
X2 = TypeVar("X2")


class Component(Part[Any]):
    """A reusable piece of graph with any ports. `GraphDSL.from_ports` makes one, `GraphDSL.add` puts it into a graph."""

    __slots__ = ()


class BidiFlow(Part[Mat], Generic[I1, O1, I2, O2, Mat]):
    """Two flows in opposite directions, as a codec has: I1 to O1 on the way out, I2 to O2 on the way back."""

    __slots__ = ()
    ports = (2, 2)

    @staticmethod
    def from_flows(there: Flow[I1, O1, Any], back: Flow[I2, O2, Any]) -> BidiFlow[I1, O1, I2, O2, NotUsed]:
        """Return the two flows side by side."""
        parts = (module_of("BidiFlow.from_flows", there, (1, 1)), module_of("BidiFlow.from_flows", back, (1, 1)))
        return BidiFlow(Wired(parts, (), ((0, 0), (1, 0)), ((0, 0), (1, 0)), not_used))

    @staticmethod
    def from_functions(there: Callable[[I1], O1], back: Callable[[I2], O2]) -> BidiFlow[I1, O1, I2, O2, NotUsed]:
        """Return a map in each direction, for example encode and decode."""
        return BidiFlow.from_flows(Flow.map(there), Flow.map(back))

    def atop(self, other: BidiFlow[O1, X1, X2, I2, Any]) -> BidiFlow[I1, X1, X2, O2, Mat]:
        """Return this part above `other`: out through both, back through both."""
        below = module_of("atop", other, (2, 2))
        return BidiFlow(
            _two(self.module, below, (((0, 0), (1, 0)), ((1, 1), (0, 1))), ((0, 0), (1, 1)), ((1, 0), (0, 1)))
        )

    def join(self, flow: Flow[O1, I2, Any]) -> Flow[I1, O2, Mat]:
        """Return the flow that goes out through this, through `flow`, and back through this."""
        turn = module_of("join", flow, (1, 1))
        return Flow(_two(self.module, turn, (((0, 0), (1, 0)), ((1, 0), (0, 1))), ((0, 0),), ((0, 1),)))

    def reversed(self) -> BidiFlow[I2, O2, I1, O1, Mat]:
        """Return this part with its two directions exchanged."""
        return BidiFlow(Wired((self.module,), (), ((0, 1), (0, 0)), ((0, 1), (0, 0)), _first))


def _two(
    top: Module, other: Module, wires: Any, inlets: tuple[tuple[int, int], ...], outlets: tuple[tuple[int, int], ...]
) -> Wired:
    return Wired((top, other), wires, inlets, outlets, _first)


def _first(values: list[Any]) -> Any:
    return values[0]
