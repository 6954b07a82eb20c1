"""Stream graphs: elements through operators, beside plain loops, RxPY, aiostream, Bytewax and async generators.

CPU seconds of the process (not wall time) where a ratio to a loop is asked, each repetition right beside its peer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import reactivex
import reactivex.operators as rx

from benchmarks._rows import Row, first, pairs, row, second, third
from benchmarks._stream_junctions import junctions
from benchmarks._stream_latency import latency, slices
from streamactors import ActorSystem, Flow, Keep, Sink, Source
from streamactors.engine.element.graph_stage_logic import GraphStageLogic
from streamactors.engine.stage import Stage

N = 1_000_000


def plain_loop() -> int:
    f, g, h = (lambda x: x + 1), (lambda x: x % 2 == 0), (lambda x: x * 3)
    n = 0
    for x in range(N):
        x = f(x)
        if g(x):
            h(x)
            n += 1
    return n


def plain_loop_with_scan() -> int:
    f, g, add = (lambda x: x + 1), (lambda x: x % 2 == 0), (lambda acc, x: acc + x)
    n = acc = 0
    for x in range(N):
        acc = add(acc, f(x))
        if g(acc):
            n += 1
    return n


def against_a_loop(system: ActorSystem) -> list[Row]:
    rows = []
    f, g, h = (lambda x: x + 1), (lambda x: x % 2 == 0), (lambda x: x * 3)
    fused = Source.range(0, N).map(f).filter(g).map(h).to_mat(Sink.count(), Keep.right)
    cut = Source.range(0, N).map(f).filter(g).async_boundary().map(h).to_mat(Sink.count(), Keep.right)
    scan = Source.range(0, N).map(f).scan(0, lambda acc, x: acc + x).filter(g).to_mat(Sink.count(), Keep.right)
    for name, graph, peer, target in (
        ("1 M ints: map, filter, map, count", fused, plain_loop, "ratio >= 0.9"),
        ("the same with a scan in between (unfused)", scan, plain_loop_with_scan, "ratio >= 0.75"),
        ("the same through an async boundary", cut, plain_loop, "ratio >= 0.65, >= 4 M elements/s"),
    ):
        mine, theirs, ratios = pairs(lambda graph=graph: graph.run(system).result(60), peer)
        rows.append(
            row(name, N / mine / 1e6, "M elements/CPU-s", f"plain loop {N / theirs / 1e6:.1f} M", ratios, target)
        )
    return rows


def marks(system: ActorSystem) -> list[Row]:
    """What following the elements costs: chunks of 500 with a mark behind each, beside the same without."""
    rows = []

    def graphs(boundary: bool) -> tuple[Any, Any]:
        made = []
        for replay in (False, True):
            source: Any = Source.range(0, N)
            if replay:
                source = source.with_replay(on_done=lambda position: None)
            source = source.max_chunk(500).map(first).filter(second)
            source = source.async_boundary() if boundary else source
            made.append(source.map(third).to_mat(Sink.ignore(), Keep.right))
        return made[0], made[1]

    for boundary, target in ((False, "ratio >= 0.91"), (True, "ratio >= 0.8")):
        without, followed = graphs(boundary)
        mine, theirs, ratios = pairs(
            lambda graph=followed: graph.run(system).result(60), lambda graph=without: graph.run(system).result(60)
        )
        name = f"chunks of 500 with a mark behind each, {'through a boundary' if boundary else 'in one island'}"
        rows.append(
            row(name, N / mine / 1e6, "M elements/CPU-s", f"without marks {N / theirs / 1e6:.1f} M", ratios, target)
        )
    return rows


def against_libraries(system: ActorSystem) -> list[Row]:
    n = 200_000
    graph = Source.range(0, n).map(first).filter(second).map(third).to_mat(Sink.count(), Keep.right)

    def ours() -> None:
        graph.run(system).result(60)

    def with_rx() -> None:
        reactivex.from_iterable(range(n)).pipe(rx.map(first), rx.filter(second), rx.map(third), rx.count()).run()

    def with_generators() -> None:
        async def main() -> int:
            async def source() -> Any:
                for x in range(n):
                    yield x

            async def mapped(upstream: Any, fn: Any) -> Any:
                async for x in upstream:
                    yield fn(x)

            async def kept(upstream: Any) -> Any:
                async for x in upstream:
                    if second(x):
                        yield x

            count = 0
            async for _ in mapped(kept(mapped(source(), first)), third):
                count += 1
            return count

        asyncio.run(main())

    peers: list[tuple[str, Callable[[], Any]]] = [("RxPY", with_rx), ("async generators", with_generators)]
    try:
        from aiostream import pipe, stream

        def with_aiostream() -> None:
            async def main() -> None:
                await (stream.range(n) | pipe.map(first) | pipe.filter(second) | pipe.map(third) | pipe.reduce(max))

            asyncio.run(main())

        peers.append(("aiostream", with_aiostream))
    except ImportError:
        pass
    try:
        from bytewax import operators as op
        from bytewax.dataflow import Dataflow
        from bytewax.testing import TestingSink, TestingSource, run_main

        def with_bytewax() -> None:
            out: list[int] = []
            flow = Dataflow("bench")
            s = op.input("in", flow, TestingSource(range(n), batch_size=1_000))
            s = op.map("a", s, first)
            s = op.filter("b", s, second)
            s = op.map("c", s, third)
            op.output("out", s, TestingSink(out))
            run_main(flow)

        peers.append(("Bytewax", with_bytewax))
    except ImportError:
        pass
    rows = []
    for name, peer in peers:
        mine, theirs, ratios = pairs(ours, peer, 3)
        rows.append(
            row(
                f"200 k ints: map, filter, map, beside {name}",
                n / mine / 1e6,
                "M elements/CPU-s",
                f"{n / theirs / 1e6:.2f} M",
                ratios,
                "ahead",
            )
        )
    return rows


class PlusOne(Stage[int, int]):
    """The same as map(first), written per element."""

    def logic(self) -> GraphStageLogic:
        return _PlusOneLogic()


class _PlusOneLogic(GraphStageLogic):
    def on_push(self, inlet: Any) -> None:
        self.push(self.outlets[0], first(self.grab(inlet)))

    def on_pull(self, outlet: Any) -> None:
        self.pull(self.inlets[0])


def per_element(system: ActorSystem) -> list[Row]:
    n = 300_000

    def loop() -> None:
        for x in range(n):
            first(x)

    custom = Source.range(0, n).via(PlusOne()).to_mat(Sink.count(), Keep.right)
    mine, theirs, _ratios = pairs(lambda: custom.run(system).result(60), loop, 5)
    piped = (
        Source.range(0, n)
        .via(Flow.rx(rx.map(first), rx.filter(second), rx.map(third)))
        .to_mat(Sink.count(), Keep.right)
    )
    alone, _, _ = pairs(lambda: piped.run(system).result(60), loop, 5)
    return [
        row(
            "custom per-element stage, over the plain call",
            (mine - theirs) / n * 1e9,
            "ns",
            f"plain call {theirs / n * 1e9:.0f} ns",
            None,
            "<= 250 ns",
        ),
        row("Flow.rx(map, filter, map), per element", alone / n * 1e9, "ns", "", None, "<= 400 ns"),
    ]


def run() -> list[Row]:
    """Return the rows of every part."""
    with ActorSystem("bench") as system:
        parts = (against_a_loop, marks, against_libraries, per_element, latency, slices, junctions)
        return [row for part in parts for row in part(system)]


if __name__ == "__main__":
    for line in run():
        print(line)
