"""GraphDSL: graphs with junctions, cycles and open ports, wired with `>>` in any order.

    with GraphDSL() as g:
        numbers, fan, join = g.add(Source.range(0, 10)), g.add(Broadcast(2)), g.add(Merge(2))
        numbers >> fan
        fan.out(0) >> Flow.map(lambda x: x * 10) >> join.in_(0)
        fan.out(1) >> join.in_(1)
        join >> Sink.ignore()
    g.to_runnable().run()

A mistake raises BuildError at its line; the error names the port. Ports that are not connected are reported when the graph is finished."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Never, NoReturn, overload

from streamactors.dsl.compose import building
from streamactors.dsl.flow import Flow
from streamactors.dsl.graph.component import BidiFlow, Component
from streamactors.dsl.graph.ports import InPort, OutPort, Placed
from streamactors.dsl.part import Part, labels, module_of
from streamactors.dsl.runnable import RunnableGraph
from streamactors.dsl.sink import Sink
from streamactors.dsl.source import Source
from streamactors.dsl.typevars import T, U
from streamactors.engine.blueprint.modules import Module, StageModule, Wired
from streamactors.engine.stage import GraphStage, Junction, Shape, Stage
from streamactors.engine.user_code import shortened
from streamactors.errors import BuildError
from streamactors.stages.sources.materialized import MaterializedValue


class GraphDSL:
    """A graph being built. The results of `to_runnable`, `to_flow` and so on are immutable; building may continue afterwards."""

    def __init__(self) -> None:
        self._parts: list[Placed] = []
        self._kept: list[int] = []
        self._names: Counter[str] = Counter()
        self._wires: dict[tuple[int, int], tuple[OutPort, InPort]] = {}  # by outlet
        self._fed: dict[tuple[int, int], OutPort] = {}  # by inlet
        self._values: list[int] = []  # parts that emit the graph's materialized value

    def __enter__(self) -> GraphDSL:
        self._token = building.set(True)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        building.reset(self._token)

    # ── parts and wires ───────────────────────────────────────────────────────────────────────────────────────────

    @overload
    def add(self, part: Source[U, Any], keep: bool = False) -> Placed[Never, U]: ...

    @overload
    def add(self, part: Flow[T, U, Any] | Stage[T, U] | Junction[T, U], keep: bool = False) -> Placed[T, U]: ...

    @overload
    def add(self, part: Sink[T, Any], keep: bool = False) -> Placed[T, Never]: ...

    @overload
    def add(self, part: Part[Any] | GraphStage, keep: bool = False) -> Placed: ...

    def add(self, part: Part[Any] | GraphStage, keep: bool = False) -> Placed[Any, Any]:
        """Put a part (a Source, Flow, Sink, junction, component, stage of your own) into the graph; return its handle.

        `keep`: its materialized value becomes part of the graph's. The same blueprint may be added several times."""
        if isinstance(part, (Placed, InPort, OutPort)):
            raise BuildError(f"{part} is in a graph already; add the Source, Flow, Sink or junction itself")
        module = module_of("add", part, None)
        label = labels(module, 60)
        self._names[label] += 1
        name = label if self._names[label] == 1 else f"{label}#{self._names[label]}"
        placed = Placed(self, len(self._parts), module, name)
        self._parts.append(placed)
        if keep:
            self._kept.append(placed.index)
        return placed

    @property
    def materialized_value(self) -> OutPort:
        """An outlet that emits the result of `run()`, once per run. Each use is a source of its own."""
        placed = self.add(MaterializedValue())
        self._values.append(placed.index)
        return placed.out()

    def wire(self, source: Any, target: Any) -> Placed:
        """Connect an outlet and an inlet, as `source >> target` does; a part that is not in the graph yet is added."""
        for end in (source, target):
            if isinstance(end, (Placed, InPort, OutPort)) and end.graph is not self:
                name = end.name if isinstance(end, Placed) else str(end)
                raise BuildError(f"{name} belongs to another GraphDSL; add its part to this one")
        if isinstance(source, InPort):
            raise BuildError(f"{source} is an inlet; >> goes from an outlet to an inlet")
        if isinstance(target, OutPort):
            raise BuildError(f"{target} is an outlet; >> goes from an outlet to an inlet")
        for end in (source, target):
            if not isinstance(end, (Placed, InPort, OutPort, Part, GraphStage)):
                raise BuildError(
                    f">> expects a port or a part of a graph beside it, got {type(end).__name__} {shortened(end, 60)}"
                )
        source_module, target_module = _module(source), _module(target)
        if not source_module.shape.outlets:
            raise BuildError(f"{_name(source)} has no outlet; >> goes from an outlet to an inlet")
        if not target_module.shape.inlets:
            raise BuildError(f"{_name(target)} has no inlet; >> goes from an outlet to an inlet")
        if isinstance(target, (Placed, InPort)):  # check before adding, so that a refused connection adds no part
            self._free_inlet(target)
        outlet = self._free_outlet(source if isinstance(source, Placed | OutPort) else self.add(source))
        inlet = self._free_inlet(target if isinstance(target, (Placed, InPort)) else self.add(target))
        self._wires[outlet.key] = (outlet, inlet)
        self._fed[inlet.key] = outlet
        return inlet.part

    def place(self, part: Any) -> Placed:
        """Return the handle of `part`, added now if it is not in the graph yet."""
        if isinstance(part, Placed):
            return part
        return part.part if isinstance(part, (InPort, OutPort)) else self.add(part)

    def _free_inlet(self, end: Placed | InPort) -> InPort:
        """Return the inlet `end`, or the first free inlet of the part `end`. Raises BuildError when none is free."""
        ports = end.inlets if isinstance(end, Placed) else [end]
        free = [port for port in ports if port.key not in self._fed]
        if not free:
            self._refuse(end, [f"{port}, to {self._fed[port.key]}" for port in ports], "inlet")
        return free[0]

    def _free_outlet(self, end: Placed | OutPort) -> OutPort:
        """As `_free_inlet`, for outlets."""
        ports = end.outlets if isinstance(end, Placed) else [end]
        free = [port for port in ports if port.key not in self._wires]
        if not free:
            self._refuse(end, [f"{port}, to {self._wires[port.key][1]}" for port in ports], "outlet")
        return free[0]

    def _refuse(self, end: Placed | InPort | OutPort, connected: list[str], kind: str) -> NoReturn:
        if isinstance(end, Placed) and len(connected) > 1:
            raise BuildError(f"every {kind} of {end.name} is connected already: {'; '.join(connected)}")
        raise BuildError(f"port {connected[0].replace(', to', ' is connected already, to', 1)}")

    # ── results ───────────────────────────────────────────────────────────────────────────────────────────────────

    def to_runnable(self) -> RunnableGraph[Any]:
        """Return the closed graph. Its `run()` returns a tuple of the kept materialized values, in the order of adding, or None
        if none was kept."""
        return RunnableGraph(self._wired([], []))

    def to_source(self, outlet: OutPort[Any, U] | Placed[Any, U] | None = None) -> Source[U, Any]:
        """Return the graph as a Source with this outlet, by default the only open one."""
        return Source(self._wired([], [self._one_outlet(outlet)]))

    def to_sink(self, inlet: InPort[T, Any] | Placed[T, Any] | None = None) -> Sink[T, Any]:
        """Return the graph as a Sink with this inlet, by default the only open one."""
        return Sink(self._wired([self._one_inlet(inlet)], []))

    def to_flow(
        self,
        inlet: InPort[T, Any] | Placed[T, Any] | None = None,
        outlet: OutPort[Any, U] | Placed[Any, U] | None = None,
    ) -> Flow[T, U, Any]:
        """Return the graph as a Flow between these ports, by default the only open ones."""
        return Flow(self._wired([self._one_inlet(inlet)], [self._one_outlet(outlet)]))

    def to_bidi(self, in1: InPort, out1: OutPort, in2: InPort, out2: OutPort) -> BidiFlow[Any, Any, Any, Any, Any]:
        """Return the graph as a BidiFlow: in1 to out1 is one direction, in2 to out2 the other."""
        return BidiFlow(self._wired([in1, in2], [out1, out2]))

    def from_ports(
        self,
        inlets: Mapping[str, InPort] | Iterable[InPort] | None = None,
        outlets: Mapping[str, OutPort] | Iterable[OutPort] | None = None,
    ) -> Component:
        """Return the graph as a component of any shape, to be added to other graphs.

        Given mappings, the ports have names there: `placed.in_("orders")`. By default all open ports, in the order of adding."""
        inlets = self._open_inlets() if inlets is None else inlets
        outlets = self._open_outlets() if outlets is None else outlets
        ins = list(inlets.values() if isinstance(inlets, Mapping) else inlets)
        outs = list(outlets.values() if isinstance(outlets, Mapping) else outlets)
        module = self._wired(ins, outs)
        module.shape = Shape(
            tuple(inlets) if isinstance(inlets, Mapping) else tuple(f"in_({i})" for i in range(len(ins))),
            tuple(outlets) if isinstance(outlets, Mapping) else tuple(f"out({i})" for i in range(len(outs))),
        )
        return Component(module)

    # ── checks ────────────────────────────────────────────────────────────────────────────────────────────────────

    def _open_inlets(self) -> list[InPort]:
        return [inlet for part in self._parts for inlet in part.inlets if inlet.key not in self._fed]

    def _open_outlets(self) -> list[OutPort]:
        return [outlet for part in self._parts for outlet in part.outlets if outlet.key not in self._wires]

    def _one_inlet(self, port: Any) -> InPort:
        if isinstance(port, Placed):
            return self._free_inlet(port)
        chosen: InPort = port if port is not None else _only("inlet", self._open_inlets())
        return chosen

    def _one_outlet(self, port: Any) -> OutPort:
        if isinstance(port, Placed):
            return self._free_outlet(port)
        chosen: OutPort = port if port is not None else _only("outlet", self._open_outlets())
        return chosen

    def _wired(self, inlets: list[InPort], outlets: list[OutPort]) -> Wired:
        if not self._parts:
            raise BuildError("the graph is empty; add parts with g.add(…) or wire them with >>")
        shown_in = self._own_ports(inlets, InPort, "an inlet", self._fed)
        shown_out = self._own_ports(outlets, OutPort, "an outlet", self._wires)
        unconnected = [
            *(str(port) for port in self._open_inlets() if port.key not in shown_in),
            *(str(port) for port in self._open_outlets() if port.key not in shown_out),
        ]
        if unconnected:
            one = len(unconnected) == 1
            raise BuildError(
                f"port{'' if one else 's'} {', '.join(unconnected)} {'is' if one else 'are'} not connected; "
                "wire with >>, feed an inlet from Source.empty(), end an outlet in Sink.ignore()"
            )
        return Wired(
            tuple(part.module for part in self._parts),
            tuple((outlet.key, inlet.key) for outlet, inlet in self._wires.values()),
            tuple(shown_in),
            tuple(shown_out),
            _combine(tuple(self._kept), tuple(self._values)),
        )

    def _own_ports(
        self, ports: Sequence[Any], kind: type, what: str, connected: Container[tuple[int, int]]
    ) -> list[tuple[int, int]]:
        keys: list[tuple[int, int]] = []
        for port in ports:
            if not isinstance(port, kind):
                raise BuildError(f"expected {what} of this graph, got {type(port).__name__} {shortened(port, 60)}")
            if port.graph is not self:  # type: ignore[attr-defined]
                raise BuildError(f"port {port} belongs to another GraphDSL")
            if port.key in connected:  # type: ignore[attr-defined]
                raise BuildError(f"port {port} is connected inside the graph and cannot be a port of it")
            if port.key in keys:  # type: ignore[attr-defined]
                raise BuildError(f"port {port} is given twice")
            keys.append(port.key)  # type: ignore[attr-defined]
        return keys


def _combine(kept: tuple[int, ...], receivers: tuple[int, ...]) -> Callable[[list[Any]], Any]:
    def combine(values: list[Any]) -> Any:
        result = tuple(values[i] for i in kept) if kept else None
        for i in receivers:
            values[i](result)
        return result

    return combine


def _only(kind: str, ports: list[Any]) -> Any:
    if len(ports) != 1:
        names = ", ".join(map(str, ports)) or "none"
        raise BuildError(f"the graph must have one open {kind}, or say which; open are: {names}")
    return ports[0]


def _module(end: Any) -> Module:
    if isinstance(end, (InPort, OutPort)):
        return end.part.module
    return StageModule(end) if isinstance(end, GraphStage) else end.module


def _name(end: Any) -> str:
    if isinstance(end, Placed):
        return end.name
    return str(end) if isinstance(end, (InPort, OutPort)) else labels(_module(end), 60)
