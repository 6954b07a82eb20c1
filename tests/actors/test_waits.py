"""Waits: a thread whose wait could never end gets WouldBlock, with the way out, instead of hanging."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from streamactors import ActorSystem, Flow, Keep, KillSwitches, Sink, Source
from streamactors.actors import waits
from streamactors.actors.futures import StreamFuture
from streamactors.actors.waits import WouldBlock
from streamactors.errors import AbruptTermination
from tests.actors.eventually import eventually

pytestmark = pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")  # of loops that do not run


@pytest.fixture(autouse=True)
def quick_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waits, "LOOK_S", 0.02)


@pytest.fixture
def still_loop() -> Iterator[asyncio.AbstractEventLoop]:
    """A loop that nobody runs."""
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


async def doubled(n: int) -> int:
    return 2 * n


async def numbers() -> Any:
    for n in range(3):
        yield n


def on_future_of_my_loop(loop: asyncio.AbstractEventLoop) -> Source[Any, Any]:
    def later(n: int) -> asyncio.Future[int]:
        future: asyncio.Future[int] = loop.create_future()
        loop.call_soon_threadsafe(future.set_result, n)
        return future

    return Source.range(0, 3).map_async(2, later)


NEEDS_LOOP: dict[str, Any] = {
    "map_async": lambda loop: Source.range(0, 3).map_async(2, doubled, loop=loop),
    "map_async_unordered": lambda loop: Source.range(0, 3).map_async_unordered(2, doubled, loop=loop),
    "map_async_partitioned": lambda loop: Source.range(0, 3).map_async_partitioned(2, lambda n: n, doubled, loop=loop),
    "a plain function": lambda loop: Source.range(0, 3).map_async(2, lambda n: doubled(n), loop=loop),
    "inside flat_map_concat": lambda loop: Source.range(0, 3).flat_map_concat(
        lambda n: Source.single(n).map_async(1, doubled, loop=loop)
    ),
    "behind a boundary": lambda loop: Source.range(0, 3).map_async(2, doubled, loop=loop).async_boundary().map(str),
    "from_async_iterable": lambda loop: Source.from_async_iterable(numbers(), loop=loop),
    "a future of the loop": on_future_of_my_loop,
}

WAYS: dict[str, Any] = {
    "result": lambda source, system: source.run_with(Sink.to_list(), system).result(),
    "result with a timeout": lambda source, system: source.run_with(Sink.to_list(), system).result("1h"),
    "exception": lambda source, system: source.run_with(Sink.to_list(), system).exception(),
    "run_iter": lambda source, system: list(source.run_iter(system)),
    "a future that is no sink's": lambda source, system: (
        source.watch_termination(Keep.right).to(Sink.ignore()).run(system).result()
    ),
}


@pytest.mark.expects_log("CancelledError")  # asyncio.run cancels the stream's coroutine, and nobody reads its result
@pytest.mark.parametrize("kind", NEEDS_LOOP)
@pytest.mark.parametrize("way", WAYS)
def test_a_coroutine_that_blocks_the_loop_of_its_stream_gets_the_advice_to_await(
    actor_system: ActorSystem, kind: str, way: str
) -> None:
    # .result() held the loop on which the stream's own coroutines were to run, and both waited without end
    async def main() -> None:
        source = NEEDS_LOOP[kind](asyncio.get_running_loop())
        with pytest.raises(WouldBlock, match=r"the asyncio loop that .* needs.*await it instead"):
            WAYS[way](source, actor_system)

    asyncio.run(main())


def test_a_coroutine_that_blocks_the_loop_of_a_stream_inside_its_stream_gets_the_advice_to_await(
    actor_system: ActorSystem,
) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()

        def inner(n: int) -> Any:
            return Source.single(n).map_async(1, doubled, loop=loop).run_with(Sink.head(), actor_system)

        outer = Source.range(0, 3).map_async(2, inner)
        with pytest.raises(WouldBlock, match="await it instead"):
            outer.run_with(Sink.to_list(), actor_system).result()
        assert await outer.run_with(Sink.to_list(), actor_system) == [0, 2, 4]

    asyncio.run(main())


@pytest.mark.parametrize("kind", NEEDS_LOOP)
@pytest.mark.parametrize("way", ["result", "exception", "run_iter"])
def test_a_wait_for_a_stream_whose_loop_does_not_run_is_refused(
    actor_system: ActorSystem, still_loop: asyncio.AbstractEventLoop, kind: str, way: str
) -> None:
    with pytest.raises(WouldBlock, match=r"the asyncio loop that .* needs does not run.*run_until_complete"):
        WAYS[way](NEEDS_LOOP[kind](still_loop), actor_system)


@pytest.mark.parametrize("kind", NEEDS_LOOP)
def test_a_stream_that_ends_after_its_loop_was_closed_ends_quietly(actor_system: ActorSystem, kind: str) -> None:
    """Canceling what the stage waited for on the loop raised "Event loop is closed", which was logged as a fault of the stage."""
    loop = asyncio.new_event_loop()
    switch, done = (
        NEEDS_LOOP[kind](loop)
        .via_mat(KillSwitches.single(), Keep.right)
        .to_mat(Sink.ignore(), Keep.both)
        .run(actor_system)
    )
    loop.close()
    switch.shutdown()
    error = done.exception(30)
    assert error is None or isinstance(error, AbruptTermination)  # of a call that began only after the loop was closed


def test_the_stream_lives_on_and_its_loop_may_run_afterwards(
    actor_system: ActorSystem, still_loop: asyncio.AbstractEventLoop
) -> None:
    future = NEEDS_LOOP["map_async"](still_loop).run_with(Sink.to_list(), actor_system)
    with pytest.raises(WouldBlock):
        future.result()
    assert still_loop.run_until_complete(_awaited(future)) == [0, 2, 4]


async def _awaited(future: Any) -> Any:
    return await future


def test_a_loop_that_starts_in_time_gives_the_result(
    actor_system: ActorSystem, still_loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waits, "LOOK_S", 30.0)
    thread = threading.Thread(target=still_loop.run_forever)
    future = NEEDS_LOOP["map_async"](still_loop).run_with(Sink.to_list(), actor_system)
    threading.Timer(0.01, thread.start).start()
    assert future.result(60) == [0, 2, 4]
    still_loop.call_soon_threadsafe(still_loop.stop)
    thread.join(10)


def test_a_stream_without_my_loop_may_be_waited_for_in_a_coroutine(actor_system: ActorSystem) -> None:
    async def main() -> list[int]:
        loop = asyncio.get_running_loop()
        await NEEDS_LOOP["map_async"](loop).run_with(Sink.to_list(), actor_system)  # needed it, and has ended
        return Source.range(0, 3).map_async(2, doubled).run_with(Sink.to_list(), actor_system).result(10)

    assert asyncio.run(main()) == [0, 2, 4]


def test_a_result_that_is_there_is_read_in_any_loop(actor_system: ActorSystem) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        running = Source.never().map_async(1, doubled, loop=loop).run_with(Sink.ignore(), actor_system)
        there: StreamFuture[int] = StreamFuture()
        there.try_complete(5)
        assert there.result() == 5
        with pytest.raises(TimeoutError):
            StreamFuture().result(0)
        running.cancel()

    asyncio.run(main())


def test_a_coroutine_of_map_async_that_blocks_gets_the_advice_to_await(actor_system: ActorSystem) -> None:
    # It held the system's asyncio loop, and with it the coroutine of the stream that it waited for.
    async def blocks(n: int) -> int:
        return Source.single(n).map_async(1, doubled).run_with(Sink.head(), actor_system).result()  # type: ignore[no-any-return]

    with pytest.raises(WouldBlock, match=r"on the asyncio loop '.*-asyncio'.*await it instead"):
        Source.single(1).map_async(1, blocks).run_with(Sink.to_list(), actor_system).result(10)


def test_a_function_of_map_async_that_blocks_gets_the_advice_to_return_the_future(actor_system: ActorSystem) -> None:
    # The advice was to use map_async, which the user did.
    def inner(n: int) -> Any:
        return Source.single(n).via(Flow.map_async(1, doubled)).run_with(Sink.head(), actor_system)

    with pytest.raises(WouldBlock, match="return it from the function of map_async, which waits for it"):
        Source.single(1).map_async(1, lambda n: inner(n).result()).run_with(Sink.to_list(), actor_system).result(10)
    assert Source.single(1).map_async(1, inner).run_with(Sink.to_list(), actor_system).result(10) == [2]


class NeedyStage:
    """A stage that needs a loop."""

    name, stopped = "map_async", False

    def __init__(self, run: object) -> None:
        self.interpreter = SimpleNamespace(island=SimpleNamespace(run=run))


def test_a_loop_that_is_needed_just_before_the_thread_sleeps_is_looked_at(
    monkeypatch: pytest.MonkeyPatch, still_loop: asyncio.AbstractEventLoop
) -> None:
    # The thread finds that no loop is needed -> a stage begins to need one and wakes the waiting threads -> the thread sleeps, without a limit.
    future: StreamFuture[int] = StreamFuture("numbers")
    future.run = object()
    stage, needs = NeedyStage(future.run), waits._needs

    def too_early() -> Any:
        found = needs()
        monkeypatch.setattr(waits, "_needs", needs)
        waits.need_loop(stage, still_loop, stage)
        return found

    monkeypatch.setattr(waits, "_needs", too_early)
    with pytest.raises(WouldBlock, match="the asyncio loop that map_async needs does not run"):
        future.result(30)


def test_a_wait_that_has_ended_takes_no_wake_up_from_another_wait_for_the_same_future(
    still_loop: asyncio.AbstractEventLoop,
) -> None:
    future: StreamFuture[int] = StreamFuture("numbers")
    future.run = object()
    stage, errors = NeedyStage(future.run), list[BaseException]()
    before = len(waits._waiting)

    def wait() -> None:
        try:
            future.result(30)
        except Exception as error:
            errors.append(error)

    waiting = threading.Thread(target=wait)
    waiting.start()
    eventually(lambda: len(waits._waiting) > before)
    with pytest.raises(TimeoutError):
        future.result(0.001)
    waits.need_loop(stage, still_loop, stage)
    waiting.join(10)
    assert [type(error) for error in errors] == [WouldBlock]
