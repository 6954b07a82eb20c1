"""Graphs of every kind of operator, as functions of an actor system that return a result which does not depend on timing."""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any

from reactivex import operators as rx
from thespian.actors import Actor

from streamactors import ActorSystem, KillSwitches, RestartSettings, RestartSource, Sink, Source
from streamactors.errors import AbruptTermination
from streamactors.windows import Record, TimeWindows

Shape = Callable[[ActorSystem], Any]
SHAPES: dict[str, Shape] = {}


def shape(make: Shape) -> Shape:
    SHAPES[make.__name__] = make
    return make


@shape
def steps(system: ActorSystem) -> Any:
    numbers = Source.range(0, 200).map(lambda x: x * 3).filter(lambda x: x % 2).scan(0, lambda a, b: a + b)
    return numbers.grouped(7).run_with(Sink.to_list(), system).result(30)


@shape
def boundaries(system: ActorSystem) -> Any:
    source = Source.range(0, 300)
    for _ in range(4):
        source = source.map(lambda x: x + 1).async_boundary(4)
    return source.run_with(Sink.to_list(), system).result(30)


@shape
def coroutines(system: ActorSystem) -> Any:
    async def slow(x: int) -> int:
        await asyncio.sleep(0.01 * (x % 3))
        return x * x

    return Source.range(0, 40).map_async(5, slow).run_with(Sink.to_list(), system).result(30)


@shape
def blocking_calls(system: ActorSystem) -> Any:
    def slow(x: int) -> int:
        time.sleep(0.002 * (x % 4))
        return -x

    done = Source.range(0, 60).map_async_unordered(8, slow).run_with(Sink.to_list(), system).result(30)
    return sorted(done)


@shape
def merged(system: ActorSystem) -> Any:
    done = Source.range(0, 50).merge(Source.range(100, 150)).merge(Source.range(200, 250))
    return sorted(done.run_with(Sink.to_list(), system).result(30))


@shape
def grouped(system: ActorSystem) -> Any:
    parts = Source.range(0, 90).group_by(lambda x: x % 4, 4).map(lambda x: x + 1).merge_substreams()
    return sorted(parts.run_with(Sink.to_list(), system).result(30))


@shape
def timed(system: ActorSystem) -> Any:
    paced = Source.range(0, 20).throttle(200, "1s").grouped_within(1_000, "60s")
    return [x for chunk in paced.run_with(Sink.to_list(), system).result(30) for x in chunk]


@shape
def reactive(system: ActorSystem) -> Any:
    shifted = Source.range(0, 30).rx(rx.map(lambda x: x + 1), rx.buffer_with_count(3), rx.delay(0.5))
    return shifted.run_with(Sink.to_list(), system).result(30)


@shape
def windowed(system: ActorSystem) -> Any:
    rows = [Record(f"k{i % 3}", i, timestamp=1_000 * i) for i in range(100)]
    counts = Source.from_iterable(rows).group_by_key().windowed_by(TimeWindows.of_size("10s").with_grace("0s")).count()
    updates = counts.to_stream().run_with(Sink.to_list(), system).result(30)
    return sorted((str(each.key), each.value) for each in updates)


@shape
def failing_and_restarted(system: ActorSystem) -> Any:
    tries: list[int] = []

    def make() -> Source[int, Any]:
        tries.append(1)
        if len(tries) < 3:
            return Source.failed(ValueError("not yet"))
        return Source.range(0, 5)

    settings = RestartSettings(min_backoff="10ms", max_backoff="40ms", random_factor=0.2)
    restarted = RestartSource.on_failures_with_backoff(settings, make)
    return restarted.take(5).run_with(Sink.to_list(), system).result(30), len(tries)


@shape
def own_threads(system: ActorSystem) -> Any:
    items: queue.Queue[int] = queue.Queue(3)
    seen: list[int] = []

    def read() -> None:
        while (item := items.get()) >= 0:
            time.sleep(0.001)
            seen.append(item)

    thread = threading.Thread(target=read)
    thread.start()
    with ThreadPoolExecutor(3) as pool:
        squares = list(pool.map(lambda x: x * x, range(10)))
    for item in [*range(10), -1]:
        items.put(item)
    thread.join()
    return seen, squares, datetime.now().year > 2000, asyncio.run(_gathered())


async def _gathered() -> list[int]:
    async def one(x: int) -> int:
        await asyncio.sleep(0.01 / (x + 1))
        return await asyncio.to_thread(lambda: x)

    return await asyncio.gather(*(one(x) for x in range(4)))


@shape
def cut_off(system: ActorSystem) -> Any:
    """A kill switch and the end of the system meet many actors, streams and coroutines at once."""
    seen: list[Any] = []

    class Notes(Actor):
        def receiveMessage(self, message: Any, sender: Any) -> None:
            seen.append(type(message).__name__)

    async def pends(number: int) -> None:
        try:
            await asyncio.sleep(1_000)
        except asyncio.CancelledError:
            seen.append(f"cancelled {number}")
            raise

    for actor in [system.spawn(Notes()) for _ in range(12)]:
        system.tell(actor, 1)
    switch = KillSwitches.shared("all")
    ended = [Source.never().via(switch.flow()).run_with(Sink.to_list(), system) for _ in range(6)]
    failed = [Source.never().run_with(Sink.to_list(), system) for _ in range(6)]
    failed += [Source.range(0, 3).map_async(3, pends).run_with(Sink.to_list(), system) for _ in range(3)]
    for number, future in enumerate([*ended, *failed]):
        future.add_done_callback(lambda _, number=number: seen.append(f"done {number}"))  # type: ignore[misc]
    time.sleep(0.03)
    switch.shutdown()
    time.sleep(0.03)
    system.shutdown()
    assert [future.result(10) for future in ended] == [[]] * 6
    assert {type(future.exception(10)) for future in failed} == {AbruptTermination}
    return sorted(seen)


def run(name: str) -> Any:
    """Run a shape on a system of its own."""
    with ActorSystem("shapes") as system:
        return SHAPES[name](system)
