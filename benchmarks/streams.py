"""Stream graphs: elements through operators, beside plain loops, RxPY, aiostream, Bytewax and async generators.

CPU seconds of the process (not wall time) where a ratio to a loop is asked, each repetition right beside its peer."""

from __future__ import annotations

import asyncio
import itertools
import queue
import statistics
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import reactivex
import reactivex.operators as rx

from streamactors import ActorSystem, Broadcast, Flow, GraphDSL, Keep, Merge, Sink, Source, Zip
from streamactors.engine.element import GraphStageLogic
from streamactors.engine.stage import Stage

N = 1_000_000
REPEAT = 7
Row = dict[str, Any]


def first(x: int) -> int:
    return x + 1


def second(x: int) -> bool:
    return x % 2 == 0


def third(x: int) -> int:
    return x * 3


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


def cpu(fn: Callable[[], Any]) -> float:
    began = time.process_time()
    fn()
    return time.process_time() - began


def pairs(ours: Callable[[], Any], peer: Callable[[], Any], repeat: int = REPEAT) -> tuple[float, float, list[float]]:
    """Return (best of ours, best of the peer, ratios peer/ours), measured alternately, in CPU seconds."""
    mine, theirs = [], []
    for _ in range(repeat):
        theirs.append(cpu(peer))
        mine.append(cpu(ours))
    return min(mine), min(theirs), [b / a for a, b in zip(mine, theirs, strict=True)]


def row(name: str, value: float | str, unit: str, peer: str, ratios: list[float] | None, target: str) -> Row:
    return {
        "name": name,
        "value": round(value, 1) if isinstance(value, float) else value,
        "unit": unit,
        "peer": peer,
        "ratio": round(statistics.median(ratios), 2) if ratios else None,
        "spread": f"{min(ratios):.2f}-{max(ratios):.2f}" if ratios else "",
        "target": target,
    }


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


def _quantiles(times: list[float]) -> str:
    ordered = sorted(times)
    return f"p50 {ordered[len(ordered) // 2] * 1e6:.0f} µs, p99 {ordered[int(len(ordered) * 0.99)] * 1e6:.0f} µs"


def _hand_overs(count: int) -> float:
    """Return how often a second a thread can hand a future to another and wait for its result: the floor of `run().result()`."""
    to_do: queue.SimpleQueue[Future[int]] = queue.SimpleQueue()

    def serve() -> None:
        for _ in range(count):
            to_do.get().set_result(1)

    threading.Thread(target=serve, daemon=True).start()
    began = time.perf_counter()
    for _ in range(count):
        future: Future[int] = Future()
        to_do.put(future)
        future.result(10)
    return count / (time.perf_counter() - began)


def _per_second(count: int, do: Callable[[int], object]) -> float:
    began = time.perf_counter()
    do(count)
    return count / (time.perf_counter() - began)


def latency(system: ActorSystem) -> list[Row]:
    one = Source.single(1).async_boundary().to_mat(Sink.head(), Keep.right)
    times = []
    for _ in range(2_000):
        began = time.perf_counter()
        one.run(system).result(10)
        times.append(time.perf_counter() - began)
    small = Source.range(0, 1).map(first).to_mat(Sink.count(), Keep.right)
    # In rounds, and not alternately: the system keeps two threads on one core or on two for a while, and a new thread changes that,
    # which changes either figure several-fold.
    one_by_one = [_per_second(1_000, lambda n: [small.run(system).result(10) for _ in range(n)]) for _ in range(5)]
    floor = [_hand_overs(1_000) for _ in range(5)]

    def all_at_once(count: int) -> None:
        for future in [small.run(system) for _ in range(count)]:
            future.result(60)

    together = [_per_second(2_000, all_at_once) for _ in range(5)]
    ratios = [ours / bare for ours, bare in zip(one_by_one, floor, strict=True)]
    return [
        row("one element: source, boundary, sink, future", _quantiles(times), "", "", None, "p50 <= 100 µs"),
        row(
            "streams of one element, run and awaited one by one",
            round(statistics.median(one_by_one)),
            "per second",
            f"a future handed to a bare thread and awaited: {statistics.median(floor):,.0f}",
            ratios,
            ">= 20,000",
        ),
        row("the same, started together", round(statistics.median(together)), "per second", "", None, ">= 20,000"),
        row(
            "an element through a boundary beside a computing map",
            _beside_a_computing_map(system),
            "",
            "",
            None,
            "reported",
        ),
    ]


def _beside_a_computing_map(system: ActorSystem) -> str:
    stop = threading.Event()

    def compute(x: int) -> int:
        return sum(i * i for i in range(2_000))

    busy = Source.repeat(1).map(compute).take_while(lambda _: not stop.is_set()).run_with(Sink.ignore(), system)
    sent: dict[int, float] = {}
    times: list[float] = []

    def stamp(i: int) -> int:
        sent[i] = time.perf_counter()
        return i

    def arrived(i: int) -> None:
        times.append(time.perf_counter() - sent[i])

    done = (
        Source.tick(0, 2, None)
        .zip_with_index()
        .take(800)
        .map(lambda pair: stamp(pair[1]))
        .async_boundary()
        .run_with(Sink.foreach(arrived), system)
    )
    done.result(60)
    stop.set()
    busy.result(10)
    return _quantiles(times)


def slices(system: ActorSystem) -> list[Row]:
    def run(fn: Callable[[int], Any], n: int) -> list[float]:
        arrivals: list[float] = []
        began = time.perf_counter()
        graph = Source.from_iterable(list(range(n))).map(fn).map(lambda x: x)
        graph.run_with(Sink.foreach(lambda _: arrivals.append(time.perf_counter())), system).result(120)
        return [arrivals[0] - began, *(b - a for a, b in itertools.pairwise(arrivals))]

    import random

    chance = random.Random(3)
    steady = run(lambda _: time.sleep(0.01), 200)
    slow_now = [chance.random() < 0.05 for _ in range(1_000)]
    done_at: dict[int, float] = {}

    def sometimes(i: int) -> int:
        if slow_now[i]:
            time.sleep(0.01)
        done_at[i] = time.perf_counter()
        return i

    waits: list[float] = []
    Source.from_iterable(list(range(1_000))).map(sometimes).map(lambda x: x).run_with(
        Sink.foreach(lambda i: waits.append(time.perf_counter() - done_at[i])), system
    ).result(60)
    late: list[float] = []

    def fast_then_slow(i: int) -> int:
        if i >= 20_000:
            time.sleep(0.01)
        done_at[i] = time.perf_counter()
        return i

    Source.from_iterable(list(range(20_100))).map(fast_then_slow).map(lambda x: x).run_with(
        Sink.foreach(lambda i: late.append(time.perf_counter() - done_at[i])), system
    ).result(60)
    return [
        row(
            "10 ms calls on a list: first, and longest gap",
            f"{steady[0] * 1e3:.1f}, {max(steady[1:]) * 1e3:.1f} ms",
            "",
            "",
            None,
            "<= 25 ms",
        ),
        row(
            "one call in 20 takes 10 ms: longest wait after one's own call",
            max(waits) * 1e3,
            "ms",
            "",
            None,
            "<= 30 ms",
        ),
        row("10 ms calls after 20,000 fast ones: longest wait", max(late) * 1e3, "ms", "", None, "<= 50 ms"),
    ]


def junctions(system: ActorSystem) -> list[Row]:
    rows = []
    n = 10_000
    with GraphDSL() as g:
        source, fan, join = g.add(Source.range(0, n)), g.add(Broadcast(2)), g.add(Zip())
        sink = g.add(Sink.count(), keep=True)
        source >> fan
        fan.out(0) >> join.in_(0)
        fan.out(1) >> join.in_(1)
        join >> sink
    diamond = g.to_runnable()
    with GraphDSL() as g:
        join = g.add(Merge(10))
        for i in range(10):
            g.add(Source.range(0, 1_000)) >> join.in_(i)
        sink = g.add(Sink.count(), keep=True)
        join >> sink
    merge = g.to_runnable()
    flat = Source.range(0, 1_000).flat_map_merge(16, lambda i: Source.range(0, 10)).to_mat(Sink.count(), Keep.right)

    def result(graph: Any) -> Any:
        value = graph.run(system)
        return (value[0] if isinstance(value, (tuple, list)) else value).result(60)

    async def numbers(k: int) -> Any:
        for i in range(k):
            yield i

    def generators_diamond() -> None:
        async def main() -> None:
            left, right = numbers(n), numbers(n)
            async for x in left:
                (x, await anext(right))

        asyncio.run(main())

    def generators_merge() -> None:
        async def main() -> None:
            queue: asyncio.Queue[Any] = asyncio.Queue(16)

            async def feed() -> None:
                async for x in numbers(1_000):
                    await queue.put(x)
                await queue.put(None)

            tasks = [asyncio.create_task(feed()) for _ in range(10)]
            ended = 0
            while ended < 10:
                if await queue.get() is None:
                    ended += 1
            await asyncio.gather(*tasks)

        asyncio.run(main())

    cases: list[tuple[str, Any, list[tuple[str, Callable[[], None]]]]] = [
        ("10 k elements through Broadcast(2) and Zip", diamond, [("async generators", generators_diamond)]),
        ("Merge of 10 × 1 k elements", merge, [("async generators", generators_merge)]),
        ("flat_map_merge of 1,000 sources of 10", flat, []),
    ]
    try:
        from aiostream import pipe, stream

        def run_aio(make: Callable[[], Any]) -> Callable[[], None]:
            async def main() -> None:
                async with make().stream() as streamer:
                    async for _ in streamer:
                        pass

            return lambda: asyncio.run(main())

        cases[0][2].append(("aiostream", run_aio(lambda: stream.zip(stream.range(n), stream.range(n)))))
        cases[1][2].append(("aiostream", run_aio(lambda: stream.merge(*(stream.range(1_000) for _ in range(10))))))
        cases[2][2].append(
            (
                "aiostream",
                run_aio(lambda: stream.range(1_000) | pipe.flatmap(lambda i: stream.range(10), task_limit=16)),
            )
        )
    except ImportError:
        pass
    for name, graph, peers in cases:
        for peer_name, peer in peers:
            mine, theirs, ratios = pairs(lambda graph=graph: result(graph), peer, 5)
            rows.append(row(f"{name}, beside {peer_name}", mine * 1e3, "ms", f"{theirs * 1e3:.1f} ms", ratios, "ahead"))
    return rows


def run() -> list[Row]:
    """Return the rows of every part."""
    with ActorSystem("bench") as system:
        parts = (against_a_loop, marks, against_libraries, per_element, latency, slices, junctions)
        return [row for part in parts for row in part(system)]


if __name__ == "__main__":
    for line in run():
        print(line)
