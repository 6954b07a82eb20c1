"""ThespianWatch on our base: no readiness is reported twice, none is lost, and what is no longer watched is silent."""

from __future__ import annotations

import os
import threading
from typing import Any

import pytest

from streamactors.actors.dispatching.dispatcher import Dispatcher
from streamactors.actors.messages import ActorExitRequest, ActorTypeDispatcher, ThespianWatch, WatchMessage
from streamactors.actors.running.fd_watch import FdWatch
from streamactors.actors.system import ActorSystem
from tests.actors.eventually import eventually
from tests.actors.on_loop import on_loop


class PipeReader(ActorTypeDispatcher):
    """Reads pipes with blocking reads: one report too many and it would block forever."""

    def __init__(self, pipes: list[int]) -> None:
        self.pipes = pipes
        self.received: list[bytes] = []
        self.noise = 0

    def receiveMsg_str(self, message: str, sender: Any) -> ThespianWatch | None:
        self.noise += 1
        return None if message == "look away" else ThespianWatch(self.pipes)

    def receiveMsg_WatchMessage(self, watch: WatchMessage, sender: Any) -> ThespianWatch:
        self.received += [os.read(fd, 1) for fd in watch.ready]
        return ThespianWatch(self.pipes)


@pytest.mark.parametrize("dispatcher", ["pool", "own"])
def test_every_byte_is_reported_exactly_once_whatever_else_arrives(actor_system: ActorSystem, dispatcher: str) -> None:
    pipes = [os.pipe() for _ in range(4)]
    reader = PipeReader([read for read, _ in pipes])
    ref = actor_system.spawn(reader, dispatcher=dispatcher)
    ref.tell("watch")

    def noise() -> None:
        for _ in range(2_000):
            ref.tell("noise")

    talker = threading.Thread(target=noise)
    talker.start()
    for _ in range(100):
        for _, write in pipes:
            os.write(write, b"x")
    talker.join()
    eventually(lambda: len(reader.received) == 400)
    eventually(lambda: reader.noise == 2_001)
    ref.tell(ActorExitRequest())
    eventually(lambda: not actor_system.base.actors)
    for ends in pipes:
        for fd in ends:
            os.close(fd)


def test_while_one_report_is_unanswered_no_other_is_sent_and_afterwards_what_is_still_readable_is(
    dispatcher: Dispatcher,
) -> None:
    # The sequence that made an actor block: [a] reported -> b readable -> an ordinary message is answered, the watch
    # set anew -> a and b reported although [a] waits in the mailbox -> a read twice.
    (read_a, write_a), (read_b, write_b) = os.pipe(), os.pipe()
    reports: list[list[int]] = []
    watch = FdWatch(dispatcher, "watcher", reports.append)

    def rounds() -> None:
        for _ in range(3):  # of the loop: readiness, report, and whatever follows
            done = threading.Event()
            dispatcher.execute(done.set)
            assert done.wait(10)

    watch.watch([read_a, read_b], answered=False)
    os.write(write_a, b"a")
    eventually(lambda: reports == [[read_a]])
    os.write(write_b, b"b")
    rounds()
    watch.watch([read_a], answered=False)
    watch.watch([read_a, read_b], answered=False)
    rounds()
    assert reports == [[read_a]]
    os.read(read_a, 1)
    watch.watch([read_a, read_b], answered=True)
    eventually(lambda: len(reports) == 2)
    rounds()
    assert reports == [[read_a], [read_b]]
    watch.watch([], answered=True)
    rounds()
    for fd in (read_a, write_a, read_b, write_b):
        os.close(fd)


def test_what_is_no_longer_watched_is_silent_until_it_is_watched_again(actor_system: ActorSystem) -> None:
    read, write = os.pipe()
    reader = PipeReader([read])
    ref = actor_system.spawn(reader)
    ref.tell("watch")
    os.write(write, b"a")
    eventually(lambda: reader.received == [b"a"])
    ref.tell("look away")
    eventually(lambda: reader.noise == 2)
    settled = threading.Event()
    actor_system.timers.execute(settled.set)
    assert settled.wait(10)
    os.write(write, b"b")
    assert actor_system.ask(actor_system.spawn(Echo), 1).result(10) == 1
    assert reader.received == [b"a"]
    ref.tell("watch")
    eventually(lambda: reader.received == [b"a", b"b"])
    os.close(write)
    os.close(read)


def test_a_descriptor_that_cannot_be_watched_is_left_out(actor_system: ActorSystem, tmp_path: Any) -> None:
    read, write = os.pipe()
    with open(tmp_path / "plain file", "w") as plain:  # always ready, so epoll refuses it
        reader = PipeReader([read, plain.fileno(), 9_999])
        actor_system.spawn(reader).tell("watch")
        os.write(write, b"a")
        eventually(lambda: reader.received == [b"a"])
    os.close(read)
    os.close(write)


class Echo(ActorTypeDispatcher):
    def receiveMsg_int(self, message: int, sender: Any) -> None:
        self.send(sender, message)


def test_the_end_of_a_pipe_that_was_closed_while_the_actor_read_is_reported_afterwards(
    dispatcher: Dispatcher, caplog: pytest.LogCaptureFixture
) -> None:
    # The writer closed while a WatchMessage was outstanding: the dispatcher dropped the descriptor as broken, and the actor never heard of the end.
    reader, writer = os.pipe()
    told: list[list[int]] = []
    watch = FdWatch(dispatcher, "reader", told.append)
    on_loop(dispatcher, lambda: watch.watch({reader}, answered=False))
    os.write(writer, b"x")
    eventually(lambda: told == [[reader]])
    os.close(writer)
    eventually(lambda: reader not in on_loop(dispatcher, lambda: set(watch._registered)))
    assert os.read(reader, 10) == b"x"
    on_loop(dispatcher, lambda: watch.watch({reader}, answered=True))
    eventually(lambda: told == [[reader], [reader]])
    assert os.read(reader, 10) == b""
    on_loop(dispatcher, lambda: watch.watch((), answered=True))
    os.close(reader)
    assert not caplog.records


def test_a_descriptor_that_was_closed_after_it_had_become_readable_is_left_out(dispatcher: Dispatcher) -> None:
    """Its actor closes it in a thread of the pool, between the loop's poll and its callback."""
    read, write = os.pipe()
    reports: list[list[int]] = []
    watch = FdWatch(dispatcher, "watcher", reports.append)

    def close_and_call() -> None:
        dispatcher.register(read, on_readable)
        os.close(read)
        results.append(on_readable())

    results: list[bool] = []
    on_readable = watch._on_readable(read)
    on_loop(dispatcher, close_and_call)
    os.close(write)
    assert results == [False]
    assert reports == []
