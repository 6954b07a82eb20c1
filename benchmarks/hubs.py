"""Hubs and substreams beside asyncio queues, a dict loop, and the grouping folds of aiostream, Bytewax and streamz, by CPU seconds."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from benchmarks._rows import Row, pairs, row
from streamactors import ActorSystem, BroadcastHub, Keep, MergeHub, Sink, Source

PARTNERS = 100
PER_PRODUCER = 1_000
BROADCAST = 5_000
KEYS = 1_000
ELEMENTS = 1_000_000
FEWER = 100_000
"""Elements for libraries that need more than a microsecond for each."""


def hubs(system: ActorSystem) -> list[Row]:
    """Return the rows of MergeHub and BroadcastHub."""

    def merge_hub() -> None:
        (sink, control), count = MergeHub.source_with_draining().to_mat(Sink.count(), Keep.both).run(system)
        for ended in [Source.range(PER_PRODUCER).run_with(sink, system) for _ in range(PARTNERS)]:
            ended.result(60)
        control.drain_and_complete()
        assert count.result(60) == PARTNERS * PER_PRODUCER

    def merge_queue() -> None:
        async def main() -> None:
            queue: asyncio.Queue[Any] = asyncio.Queue(256)

            async def feed() -> None:
                for i in range(PER_PRODUCER):
                    await queue.put(i)

            async def drain() -> None:
                for _ in range(PARTNERS * PER_PRODUCER):
                    await queue.get()

            await asyncio.gather(drain(), *(feed() for _ in range(PARTNERS)))

        asyncio.run(main())

    def broadcast_hub() -> None:
        source = Source.range(BROADCAST).run_with(BroadcastHub.sink(start_after=PARTNERS), system)
        for count in [source.run_with(Sink.count(), system) for _ in range(PARTNERS)]:
            assert count.result(60) == BROADCAST

    def broadcast_queues() -> None:
        async def main() -> None:
            queues: list[asyncio.Queue[Any]] = [asyncio.Queue(1_024) for _ in range(PARTNERS)]

            async def feed() -> None:
                for i in range(BROADCAST):
                    for queue in queues:
                        await queue.put(i)

            async def drain(queue: asyncio.Queue[Any]) -> None:
                for _ in range(BROADCAST):
                    await queue.get()

            await asyncio.gather(feed(), *map(drain, queues))

        asyncio.run(main())

    cases: list[tuple[str, Callable[[], None], str, Callable[[], None], str]] = [
        (f"MergeHub from {PARTNERS} streams of {PER_PRODUCER:,}", merge_hub, "an asyncio queue", merge_queue, "ahead"),
        (
            f"BroadcastHub of {BROADCAST:,} elements to {PARTNERS} streams",
            broadcast_hub,
            "asyncio queues",
            broadcast_queues,
            "ahead",
        ),
    ]
    rows = []
    for name, ours, peer_name, peer, target in cases:
        mine, theirs, ratios = pairs(ours, peer, 5)
        rows.append(row(f"{name}, beside {peer_name}", mine * 1e3, "ms", f"{theirs * 1e3:.1f} ms", ratios, target))
    return rows


def key(x: int) -> int:
    return x % KEYS


def add(total: int, x: int) -> int:
    return total + x


def dict_loop() -> None:
    totals: dict[int, int] = {}
    for x in range(ELEMENTS):
        k = key(x)
        totals[k] = add(totals.get(k, 0), x)
    assert len(totals) == KEYS


def task_per_key() -> None:
    async def main() -> None:
        queues: dict[int, asyncio.Queue[Any]] = {}
        tasks = []

        async def fold(queue: asyncio.Queue[Any]) -> int:
            total = 0
            while (x := await queue.get()) is not None:
                total = add(total, x)
            return total

        for x in range(ELEMENTS):
            k = key(x)
            queue = queues.get(k)
            if queue is None:
                queue = queues[k] = asyncio.Queue(16)
                tasks.append(asyncio.create_task(fold(queue)))
            await queue.put(x)
        for queue in queues.values():
            await queue.put(None)
        await asyncio.gather(*tasks)

    asyncio.run(main())


def into_dict(totals: dict[int, int], x: int) -> dict[int, int]:
    k = key(x)
    totals[k] = add(totals.get(k, 0), x)
    return totals


def with_aiostream() -> None:
    """aiostream has no grouping operator: its fold keeps a dict."""
    from aiostream import pipe, stream

    async def main() -> None:
        totals: Any = await (stream.range(FEWER) | pipe.reduce(into_dict, initializer={}))
        assert len(totals) == KEYS

    asyncio.run(main())


def with_streamz() -> None:
    """streamz has no grouping operator outside of its data frames: its fold keeps a dict."""
    from streamz import Stream

    found: list[dict[int, int]] = []
    source = Stream()
    source.accumulate(into_dict, start={}).sink(found.append)
    for x in range(FEWER):
        source.emit(x)
    assert len(found[-1]) == KEYS


def with_bytewax() -> None:
    from bytewax import operators as op
    from bytewax.dataflow import Dataflow
    from bytewax.testing import TestingSink, TestingSource, run_main

    out: list[Any] = []
    flow = Dataflow("bench")
    elements = op.input("in", flow, TestingSource(range(FEWER), batch_size=1_000))
    keyed = op.key_on("key", elements, lambda x: str(key(x)))
    op.output("out", op.fold_final("fold", keyed, lambda: 0, add), TestingSink(out))
    run_main(flow)
    assert len(out) == KEYS


def substreams(system: ActorSystem) -> list[Row]:
    """Return the rows of group_by with a fold in each substream, beside what does the same."""
    folded = Source.range(ELEMENTS).group_by(key, KEYS).fold(0, add).merge_substreams()
    graph = folded.to_mat(Sink.count(), Keep.right)

    def ours() -> None:
        assert graph.run(system).result(60) == KEYS

    name = f"{ELEMENTS:,} elements into {KEYS:,} substreams with fold"
    rows = []
    peers: list[tuple[str, Callable[[], None], int, str]] = [
        ("a dict loop", dict_loop, ELEMENTS, "ratio >= 0.25"),
        ("an asyncio task and queue per key", task_per_key, ELEMENTS, "ahead"),
        ("aiostream", with_aiostream, FEWER, "ratio >= 5"),
        ("Bytewax", with_bytewax, FEWER, "ahead"),
        ("streamz", with_streamz, FEWER, "ratio >= 5"),
    ]
    for peer_name, peer, n, target in peers:
        try:
            peer()
        except ImportError:
            rows.append(
                row(f"{name}, beside {peer_name}", "not measured:", f"{peer_name} is not installed", "", None, target)
            )
            continue
        mine, theirs, ratios = pairs(ours, peer, 5)
        rate, their_rate = ELEMENTS / mine / 1e6, n / theirs / 1e6
        found = [ratio * ELEMENTS / n for ratio in ratios]
        rows.append(row(f"{name}, beside {peer_name}", rate, "M elements/CPU-s", f"{their_rate:.2f} M", found, target))
    return rows


def run() -> list[Row]:
    """Return the rows of both."""
    with ActorSystem("hubs") as system:
        return [*hubs(system), *substreams(system)]
