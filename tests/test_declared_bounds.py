"""Each buffer of a stream has a gauge with its declared bound, fills up to that bound when nobody takes from it, and never beyond."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any

import pytest
import reactivex
from reactivex import operators as ops
from reactivex.subject import Subject

from streamactors import ActorSystem, BroadcastHub, Keep, MergeHub, PartitionHub, Sink, Source
from streamactors.actors import cell
from streamactors.actors.messages import Actor
from streamactors.gauges import forget_overfull, live_gauges, overfull
from tests.actors.eventually import eventually

MOST = 8


@pytest.fixture
def system() -> Iterator[ActorSystem]:
    forget_overfull()
    with ActorSystem("bounds") as system:
        yield system


def never(source: Any, system: ActorSystem) -> Any:
    """Run a source into a sink that takes one element and no more."""
    return source.async_boundary(1).to_mat(Sink.never(), Keep.left).run(system)


def of_a_buffer(system: ActorSystem) -> None:
    never(Source.range(1_000).buffer(MOST), system)


def of_a_queue(system: ActorSystem) -> None:
    queue = never(Source.queue(MOST, "drop_new"), system)
    for number in range(100):
        queue.offer(number)


def of_offers(system: ActorSystem) -> None:
    queue = never(Source.queue_with_backpressure(1, max_concurrent_offers=MOST), system)
    for number in range(100):
        queue.offer(number).add_done_callback(lambda future: future.exception())  # those beyond the bound fail


def of_an_actor(system: ActorSystem) -> None:
    ref = never(Source.actor_ref(MOST, "drop_new"), system)
    for number in range(100):
        ref.tell(number)


def of_an_observable(system: ActorSystem) -> None:
    subject: Subject[int] = Subject()
    never(Source.from_observable(subject, "drop_new", MOST), system)
    eventually(lambda: subject.observers)
    for number in range(100):
        subject.on_next(number)


def of_rx_results(system: ActorSystem) -> None:
    expanded = ops.flat_map(lambda x: reactivex.from_iterable(range(100)))
    never(Source.range(10).rx(expanded, max_buffer=MOST, overflow="drop_new"), system)


def of_a_merge_hub(system: ActorSystem) -> None:
    sink = never(MergeHub.source(MOST), system)
    for _ in range(3):
        Source.range(100).to(sink).run(system)


def of_a_broadcast_hub(system: ActorSystem) -> None:
    source = Source.range(1_000).run_with(BroadcastHub.sink(MOST), system)
    never(source, system)
    source.run_with(Sink.ignore(), system)


def of_a_partition_hub(system: ActorSystem) -> None:
    source = Source.range(1_000).run_with(PartitionHub.sink(lambda consumers, x: 0, 1, MOST), system)
    never(source, system)


def of_a_reader(system: ActorSystem) -> None:
    Source.range(1_000).run_with(Sink.to_queue(MOST), system)


def of_calls(system: ActorSystem) -> None:
    never(Source.range(1_000).map_async(MOST, lambda _: Future()), system)


def of_unordered_calls(system: ActorSystem) -> None:
    never(Source.range(1_000).map_async_unordered(MOST, lambda _: Future()), system)


def of_a_delay(system: ActorSystem) -> None:
    never(Source.range(1_000).delay("1h", MOST), system)


def of_batches(system: ActorSystem) -> None:
    Source.range(1_000).run_with(Sink.batches(lambda batch: Future(), max=MOST, within="1h", parallelism=2), system)


BUFFERS: dict[str, tuple[Callable[[ActorSystem], None], int]] = {
    "buffer: elements that are kept": (of_a_buffer, MOST),
    "a queue: elements that were offered": (of_a_queue, MOST),
    "a queue with back-pressure: offers that wait": (of_offers, MOST),
    "actor_ref: messages that are held": (of_an_actor, MOST),
    "from_observable: elements that wait for demand": (of_an_observable, MOST),
    "rx: results that wait for demand": (of_rx_results, MOST),
    "merge_hub: elements of its producers": (of_a_merge_hub, 3 * MOST),
    "broadcast_hub: elements that the slowest consumer has not taken": (of_a_broadcast_hub, MOST),
    "partition_hub: elements that wait for consumers": (of_a_partition_hub, MOST),
    "map_async: elements inside": (of_calls, MOST),
    "map_async_unordered: elements inside": (of_unordered_calls, MOST),
    "delay: elements that are kept": (of_a_delay, MOST),
    "batches: elements that wait to be written": (of_batches, 3 * MOST),
    "to_queue: elements that wait for the receiver": (of_a_reader, MOST),
}


@pytest.mark.parametrize("name", sorted(BUFFERS))
def test_a_buffer_that_nobody_empties_is_full_at_its_declared_bound(system: ActorSystem, name: str) -> None:
    known = set(live_gauges())  # kept, so that no new gauge gets the id of one of them
    fill, bound = BUFFERS[name]
    fill(system)

    def levels() -> list[tuple[float, float]]:
        return [(gauge.highest, gauge.bound) for gauge in live_gauges() if gauge.name == name and gauge not in known]

    eventually(lambda: (bound, bound) in levels(), 20)
    assert levels() == [(bound, bound)]
    assert overfull() == []


def test_the_mailbox_of_an_actor_that_is_told_too_fast_is_named_with_its_bound(
    system: ActorSystem, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(cell, "LARGEST_MAILBOX", 100)
    go, done = threading.Event(), threading.Event()

    class Slow(Actor):
        def receiveMessage(self, message: Any, sender: Any) -> None:
            if message == "wait":
                go.wait(30)
            if message == "end":
                done.set()

    slow = system.create_actor(Slow)
    for message in ("wait", *range(150), "end"):
        system.tell(slow, message)
    go.set()
    assert done.wait(30)
    (mailbox,) = [each for each in overfull() if each.name.startswith("the mailbox of ")]
    assert "Slow" in mailbox.name
    assert (mailbox.highest, mailbox.bound) == (151, 100)
    assert "messages, and its bound is 100; messages arrive faster than it handles them" in caplog.text
    forget_overfull()
