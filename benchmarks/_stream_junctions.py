"""Diamonds, merges and flattening, beside async generators and aiostream."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from benchmarks._rows import Row, pairs, row
from streamactors import ActorSystem, Broadcast, GraphDSL, Keep, Merge, Sink, Source, Zip


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
