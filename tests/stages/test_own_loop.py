"""map_async and foreach_async on the user's own asyncio loop: what was made there (locks, connections) works in the calls."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from streamactors import ActorSystem, Flow, Sink, Source
from streamactors.errors import AbruptTermination, BuildError


class Client:
    """A line protocol over one connection, which the calls share under a lock: as a client made in a web framework's lifespan."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._lock = asyncio.Lock()

    async def twice(self, n: int) -> int:
        async with self._lock:
            self._writer.write(b"%d\n" % n)
            await self._writer.drain()
            return int(await self._reader.readline())

    def close(self) -> None:
        self._writer.close()


@asynccontextmanager
async def lifespan(*, answers: bool = True) -> AsyncIterator[Client]:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            if not answers:
                continue
            writer.write(b"%d\n" % (2 * int(line)))
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    client = Client(*await asyncio.open_connection(*server.sockets[0].getsockname()))
    yield client
    client.close()
    server.close()


FLOWS: dict[str, Any] = {
    "map_async": lambda client, loop: Flow.map_async(4, client.twice, loop=loop),
    "map_async_unordered": lambda client, loop: Flow.map_async_unordered(4, client.twice, loop=loop),
    "map_async_partitioned": lambda client, loop: Flow.map_async_partitioned(
        4, lambda n: n % 3, client.twice, loop=loop
    ),
    "a plain function": lambda client, loop: Flow.map_async(4, lambda n: client.twice(n), loop=loop),
}


@pytest.mark.parametrize("kind", FLOWS)
def test_a_client_and_a_lock_of_a_lifespan_work_in_the_calls(actor_system: ActorSystem, kind: str) -> None:
    async def main() -> list[int]:
        async with lifespan() as client:
            flow = FLOWS[kind](client, asyncio.get_running_loop())
            found: list[int] = await Source.range(0, 50).via(flow).run_with(Sink.to_list(), actor_system)
            return found

    assert sorted(asyncio.run(main())) == [2 * n for n in range(50)]


def test_without_loop_the_same_client_fails(actor_system: ActorSystem) -> None:
    """Why `loop=` is there: the calls run on the system's loop, and the connection belongs to another.

    The error comes when a call waits for its answer. On a busy machine each of 50 answers was there before its call looked for it."""

    async def main() -> Any:
        async with lifespan(answers=False) as client:
            return await Source.range(0, 50).map_async(4, client.twice).run_with(Sink.to_list(), actor_system)

    with pytest.raises(RuntimeError, match=r"different (event )?loop"):
        asyncio.run(main())


def test_foreach_async_runs_on_the_given_loop(actor_system: ActorSystem) -> None:
    seen: list[bool] = []

    async def main() -> None:
        mine = asyncio.get_running_loop()

        async def see(n: int) -> None:
            seen.append(asyncio.get_running_loop() is mine)

        await Source.range(0, 10).run_with(Sink.foreach_async(2, see, loop=mine), actor_system)

    asyncio.run(main())
    assert seen == [True] * 10


def test_results_keep_their_order_and_an_error_fails_the_stream(actor_system: ActorSystem) -> None:
    async def main() -> None:
        mine = asyncio.get_running_loop()
        gates = [asyncio.Event() for _ in range(4)]

        async def reversed_end(n: int) -> int:
            if n < 3:
                await gates[n + 1].wait()
            gates[n].set()
            return n

        source = Source.range(0, 4)
        assert await source.map_async(4, reversed_end, loop=mine).run_with(Sink.to_list(), actor_system) == [0, 1, 2, 3]

        async def fails(n: int) -> int:
            raise LookupError(n)

        with pytest.raises(LookupError):
            await source.map_async(1, fails, loop=mine).run_with(Sink.to_list(), actor_system)

    asyncio.run(main())


def test_a_cancelled_stream_cancels_its_calls_on_the_loop(actor_system: ActorSystem) -> None:
    async def main() -> None:
        begun, cancelled = asyncio.Event(), asyncio.Event()

        async def waits(n: int) -> None:
            begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                cancelled.set()

        flow = Source.range(0, 4).map_async(1, waits, loop=asyncio.get_running_loop())
        done = flow.run_with(Sink.ignore(), actor_system)
        await begun.wait()
        done.cancel()
        await asyncio.wait_for(cancelled.wait(), 10)

    asyncio.run(main())


def test_a_loop_that_ends_before_the_stream_fails_it_instead_of_holding_it(actor_system: ActorSystem) -> None:
    """The future of a call on a closed loop never ends: the stream stood forever."""
    runs: list[Any] = []

    async def main() -> None:
        flow = Source.cycle([1]).map_async(2, asyncio.sleep, loop=asyncio.get_running_loop())
        runs.append(flow.run_with(Sink.ignore(), actor_system))

    asyncio.run(main())
    with pytest.raises((AbruptTermination, asyncio.CancelledError)) as raised:
        runs[0].result(20)
    if isinstance(raised.value, AbruptTermination):
        assert "let the stream end before its loop does" in str(raised.value)


def test_a_source_on_a_loop_that_ends_before_the_stream_fails_it_instead_of_holding_it(
    actor_system: ActorSystem, virtual_clock: Any
) -> None:
    loop, at_end = asyncio.new_event_loop(), threading.Event()

    async def elements() -> AsyncIterator[int]:
        yield 1
        loop.stop()
        await asyncio.Event().wait()

    def live() -> None:
        loop.run_forever()
        for task in asyncio.all_tasks(loop):
            task._log_destroy_pending = False  # type: ignore[attr-defined]  # it is lost, as without asyncio.run
        loop.close()
        at_end.set()

    done = Source.from_async_iterable(elements(), loop=loop).run_with(Sink.ignore(), actor_system)
    threading.Thread(target=live).start()
    assert at_end.wait(20)
    virtual_clock.advance("2s")
    with pytest.raises(
        AbruptTermination, match="from_async_iterable: the asyncio loop that was given as loop= is closed"
    ):
        done.result(20)


@pytest.mark.parametrize(
    "make",
    [
        lambda loop: Source.range(0, 5).map_async(2, asyncio.sleep, loop=loop),
        lambda loop: Source.from_async_iterable(Source.never().run_async_iter(), loop=loop),
    ],
)
@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")
def test_a_loop_that_does_not_run_while_coroutines_wait_is_logged_once(
    actor_system: ActorSystem, virtual_clock: Any, caplog: pytest.LogCaptureFixture, make: Any
) -> None:
    loop = asyncio.new_event_loop()
    make(loop).run_with(Sink.ignore(), actor_system)
    virtual_clock.advance("2s")
    assert caplog.messages == []  # it may be about to start
    with caplog.at_level(logging.WARNING):
        virtual_clock.advance("20s")
    (message,) = caplog.messages
    assert "loop= does not run, and coroutines wait for it; run it" in message
    loop.close()


@pytest.mark.parametrize("given", [5, "loop", object()])
def test_anything_but_a_loop_is_refused_where_it_is_written(given: Any) -> None:
    with pytest.raises(BuildError, match=r"loop must be an asyncio loop \(asyncio.get_running_loop\(\)\), got"):
        Flow.map_async(2, asyncio.sleep, loop=given)


def test_a_closed_loop_is_refused_where_it_is_written() -> None:
    loop = asyncio.new_event_loop()
    loop.close()
    with pytest.raises(BuildError, match="the loop is closed"):
        Sink.foreach_async(2, asyncio.sleep, loop=loop)
