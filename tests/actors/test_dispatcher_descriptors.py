"""The file descriptors of a dispatcher's loop: what is ready, what is broken, and what was closed or registered too late."""

from __future__ import annotations

import os
import socket
import threading

import pytest

from streamactors.actors.dispatching import poller
from streamactors.actors.dispatching.descriptors import Descriptors
from streamactors.actors.dispatching.dispatcher import Dispatcher
from streamactors.errors import ActorError
from tests.actors.eventually import eventually
from tests.actors.on_loop import on_loop


def test_readable_and_writable_are_reported_until_modified(dispatcher: Dispatcher) -> None:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    received: list[bytes] = []
    written, got = threading.Event(), threading.Event()

    def on_writable() -> None:
        ours.send(b"hello")
        dispatcher.modify(ours, on_readable)
        written.set()

    def on_readable() -> None:
        received.append(ours.recv(100))
        got.set()

    dispatcher.execute(lambda: dispatcher.register(ours, on_readable, on_writable))
    assert written.wait(10)
    assert theirs.recv(100) == b"hello"
    theirs.send(b"world")
    assert got.wait(10)
    assert received == [b"world"]
    on_loop(dispatcher, lambda: dispatcher.unregister(ours))
    theirs.send(b"unseen")
    on_loop(dispatcher, int)
    assert received == [b"world"]
    ours.close()
    theirs.close()


def test_a_hang_up_is_reported_as_readable(dispatcher: Dispatcher) -> None:
    ours, theirs = socket.socketpair()
    ended = threading.Event()

    def on_readable() -> None:
        assert ours.recv(100) == b""
        dispatcher.unregister(ours)
        ours.close()
        ended.set()

    dispatcher.execute(lambda: dispatcher.register(ours, on_readable))
    theirs.close()
    assert ended.wait(10)


def test_a_broken_descriptor_nobody_looks_at_is_dropped(
    dispatcher: Dispatcher, caplog: pytest.LogCaptureFixture
) -> None:
    reader, writer = os.pipe()
    on_loop(dispatcher, lambda: dispatcher.register(reader))
    os.close(writer)
    eventually(lambda: "unregistered" in caplog.text)
    with pytest.raises(KeyError):
        on_loop(dispatcher, lambda: dispatcher.unregister(reader))
    os.close(reader)


def test_who_registers_a_descriptor_hears_that_it_is_broken_once(
    dispatcher: Dispatcher, caplog: pytest.LogCaptureFixture
) -> None:
    reader, writer = os.pipe()
    heard: list[str] = []
    on_loop(dispatcher, lambda: dispatcher.register(reader, on_broken=lambda: heard.append("broken")))
    os.close(writer)
    eventually(lambda: heard == ["broken"])
    with pytest.raises(KeyError):
        on_loop(dispatcher, lambda: dispatcher.unregister(reader))
    os.close(reader)
    assert heard == ["broken"]
    assert caplog.text == ""


def test_a_descriptor_closed_before_it_is_unregistered_is_still_found(dispatcher: Dispatcher) -> None:
    ours, theirs = socket.socketpair()
    on_loop(dispatcher, lambda: dispatcher.register(ours, int))
    ours.close()
    on_loop(dispatcher, lambda: dispatcher.unregister(ours))
    theirs.close()


def test_a_callback_that_unregisters_a_ready_neighbour_keeps_it_silent(dispatcher: Dispatcher) -> None:
    pairs = [socket.socketpair() for _ in range(2)]
    called: list[int] = []

    def on_readable(me: int) -> None:
        called.append(me)
        for ours, _ in pairs:
            dispatcher.unregister(ours)

    def set_up() -> None:
        for k, (ours, theirs) in enumerate(pairs):
            theirs.send(b"x")
            dispatcher.register(ours, lambda k=k: on_readable(k))

    on_loop(dispatcher, set_up)
    on_loop(dispatcher, int)
    on_loop(dispatcher, int)
    assert len(called) == 1
    for ours, theirs in pairs:
        ours.close()
        theirs.close()


def test_an_event_of_a_closed_descriptor_is_not_given_to_its_successor_of_the_same_number() -> None:
    descriptors = Descriptors("by hand")
    pipes = [os.pipe() for _ in range(2)]
    quiet_read, quiet_write = os.pipe()
    called: list[str] = []

    def replace(other: int) -> None:
        if called:
            return
        called.append("first of the two")
        descriptors.unregister(other)
        os.dup2(quiet_read, other)  # closes it and takes its number
        descriptors.register(other, lambda: called.append("successor"))

    for k, (read, write) in enumerate(pipes):
        os.write(write, b"x")
        descriptors.register(read, lambda other=pipes[1 - k][0]: replace(other))
    descriptors.serve(descriptors.poll(10), lambda callback: callback())
    assert called == ["first of the two"]
    os.write(quiet_write, b"x")
    descriptors.serve(descriptors.poll(10), lambda callback: callback())
    assert called == ["first of the two", "successor"]
    descriptors.close()
    for fd in (quiet_read, quiet_write, *pipes[0], *pipes[1]):
        os.close(fd)


def test_registration_belongs_on_the_loop_thread(dispatcher: Dispatcher) -> None:
    ours, theirs = socket.socketpair()
    dispatcher.start()
    on_loop(dispatcher, int)
    with pytest.raises(ActorError, match="loop thread"):
        dispatcher.register(ours, int)
    on_loop(dispatcher, lambda: dispatcher.register(ours, int))
    with pytest.raises(ValueError, match="already"):
        on_loop(dispatcher, lambda: dispatcher.register(ours, int))
    ours.close()
    theirs.close()


def test_the_portable_poller_serves_the_same_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streamactors.actors.dispatching.descriptors.new_poller", poller.SelectorPoller)
    monkeypatch.delattr(os, "eventfd", raising=False)
    dispatcher = Dispatcher("portable")
    try:
        test_readable_and_writable_are_reported_until_modified(dispatcher)
        test_a_hang_up_is_reported_as_readable(dispatcher)
        woken = threading.Event()
        dispatcher.call_later(1, woken.set)
        assert woken.wait(10), "a timer that another thread sets wakes the loop"
    finally:
        assert dispatcher.stop()
