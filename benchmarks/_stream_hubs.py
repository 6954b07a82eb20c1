"""Hubs and substreams beside asyncio queues and a plain dict loop."""

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


def hubs(system: ActorSystem) -> list[Row]:
    """Return the rows of MergeHub, BroadcastHub and group_by."""

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

    grouped = (
        Source.range(ELEMENTS)
        .group_by(lambda x: x % KEYS, KEYS)
        .fold(0, lambda total, x: total + x)
        .merge_substreams()
        .to_mat(Sink.count(), Keep.right)
    )

    def substreams() -> None:
        assert grouped.run(system).result(60) == KEYS

    def dict_loop() -> None:
        def key(x: int) -> int:
            return x % KEYS

        def add(total: int, x: int) -> int:
            return total + x

        totals: dict[int, int] = {}
        for x in range(ELEMENTS):
            k = key(x)
            totals[k] = add(totals.get(k, 0), x)
        assert len(totals) == KEYS

    def tasks_per_key() -> None:
        async def main() -> None:
            queues: dict[int, asyncio.Queue[Any]] = {}
            tasks = []

            async def fold(queue: asyncio.Queue[Any]) -> int:
                total = 0
                while (x := await queue.get()) is not None:
                    total += x
                return total

            for x in range(ELEMENTS):
                queue = queues.get(x % KEYS)
                if queue is None:
                    queue = queues[x % KEYS] = asyncio.Queue(16)
                    tasks.append(asyncio.create_task(fold(queue)))
                await queue.put(x)
            for queue in queues.values():
                await queue.put(None)
            await asyncio.gather(*tasks)

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
        (f"{ELEMENTS:,} elements into {KEYS:,} substreams with fold", substreams, "a dict loop", dict_loop, ">= 0.25"),
        (
            f"{ELEMENTS:,} elements into {KEYS:,} substreams with fold",
            substreams,
            "a task per key",
            tasks_per_key,
            "ahead",
        ),
    ]
    rows = []
    for name, ours, peer_name, peer, target in cases:
        mine, theirs, ratios = pairs(ours, peer, 3)
        rows.append(row(f"{name}, beside {peer_name}", mine * 1e3, "ms", f"{theirs * 1e3:.1f} ms", ratios, target))
    return rows
