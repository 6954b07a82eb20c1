"""A loop that wakes in vain is found by the number of its wake-ups, not by the time that it uses."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from streamactors.actors.dispatching import dispatcher as dispatcher_module
from streamactors.actors.dispatching.dispatcher import Dispatcher
from streamactors.actors.dispatching.spinning import FRUITLESS_CALLS, SLEEPLESS_ROUNDS, forget_spins, spins
from streamactors.actors.pool import pool_watch
from streamactors.actors.pool.elastic_pool import ElasticPool
from tests.actors.eventually import eventually
from tests.actors.on_loop import on_loop


@pytest.fixture(autouse=True)
def spins_of_this_test() -> Iterator[None]:
    forget_spins()
    yield
    forget_spins()


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


def test_a_callback_that_is_called_again_and_again_without_work_is_named_once(
    dispatcher: Dispatcher, pair: tuple[socket.socket, socket.socket], caplog: pytest.LogCaptureFixture
) -> None:
    calls = 0

    def waits_for_room() -> int:
        nonlocal calls
        calls += 1
        return 0

    on_loop(dispatcher, lambda: dispatcher.register(pair[0], None, waits_for_room))
    eventually(lambda: calls > 3 * FRUITLESS_CALLS)
    on_loop(dispatcher, lambda: dispatcher.unregister(pair[0]))
    (spin,) = spins()
    assert spin.dispatcher == dispatcher.name
    assert "waits_for_room was called 100 times in succession for <socket.socket" in str(spin)
    assert len([record for record in caplog.records if "whole core" in record.message]) == 1


@pytest.mark.expects_log("fails", again=True)
def test_a_callback_that_fails_each_time_spins(
    dispatcher: Dispatcher, pair: tuple[socket.socket, socket.socket], caplog: pytest.LogCaptureFixture
) -> None:
    def fails() -> int:
        raise ValueError("again")

    on_loop(dispatcher, lambda: dispatcher.register(pair[0], None, fails))
    eventually(lambda: bool(spins()))
    on_loop(dispatcher, lambda: dispatcher.unregister(pair[0]))


def test_a_busy_descriptor_does_not_spin(dispatcher: Dispatcher, pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair
    received, enough = 0, threading.Event()

    def reads_one_byte() -> int:
        nonlocal received
        got = len(ours.recv(1))
        received += got
        if received == 10 * FRUITLESS_CALLS:
            enough.set()
        return got

    theirs.send(b"." * (10 * FRUITLESS_CALLS))
    on_loop(dispatcher, lambda: dispatcher.register(ours, reads_one_byte))
    assert enough.wait(30)
    on_loop(dispatcher, lambda: dispatcher.unregister(ours))
    assert not spins()


def test_calls_without_work_between_calls_with_work_are_forgiven(
    dispatcher: Dispatcher, pair: tuple[socket.socket, socket.socket]
) -> None:
    calls, enough = 0, threading.Event()

    def works_seldom() -> int:
        nonlocal calls
        calls += 1
        if calls > 10 * FRUITLESS_CALLS:
            enough.set()
        return calls % (FRUITLESS_CALLS // 2) == 0

    on_loop(dispatcher, lambda: dispatcher.register(pair[0], None, works_seldom))
    assert enough.wait(30)
    on_loop(dispatcher, lambda: dispatcher.unregister(pair[0]))
    assert not spins()


@pytest.mark.expects_log("looks_again ran in")
def test_a_function_that_queues_itself_is_named(dispatcher: Dispatcher) -> None:
    over = threading.Event()

    def looks_again() -> None:
        if not over.is_set():
            dispatcher.execute(looks_again)

    dispatcher.execute(looks_again)
    eventually(lambda: bool(spins()))
    over.set()
    assert "looks_again ran in 2,000 rounds without a sleep" in str(spins()[0])


@pytest.mark.expects_log("due_at_once ran in")
def test_a_timer_that_is_due_at_once_again_and_again_is_named(dispatcher: Dispatcher) -> None:
    over = threading.Event()

    def due_at_once() -> None:
        if not over.is_set():
            dispatcher.call_later(0, due_at_once)

    dispatcher.call_later(0, due_at_once)
    eventually(lambda: bool(spins()))
    over.set()
    assert "due_at_once ran in" in str(spins()[0])


def test_actors_that_answer_each_other_without_a_pause_do_not_spin(dispatcher: Dispatcher) -> None:
    over = threading.Event()

    def receive(left: int) -> None:
        if left:
            cell.tell(left - 1)
        else:
            over.set()

    cell = dispatcher.spawn(receive, "ping")
    cell.tell(64 * 3 * SLEEPLESS_ROUNDS)
    assert over.wait(60)
    assert not spins()


@pytest.fixture
def pool() -> Iterator[ElasticPool]:
    pool = ElasticPool("test-pool")
    yield pool
    assert pool.stop(30) == []


def takes_a_turn(pool: ElasticPool) -> None:
    done = threading.Event()
    pool.spawn(lambda message: done.set(), "turn").tell(None)
    assert done.wait(30)
    eventually(lambda: pool.at_rest)


def test_an_actor_that_works_without_a_pause_and_has_functions_called_does_not_spin(
    dispatcher: Dispatcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Whether the last call of the round was that of a cell decided: one of a function beside it was reported as a spin.
    monkeypatch.setattr(dispatcher_module, "SLEEPLESS_ROUNDS", 10)
    turns, enough = 0, threading.Event()

    def receive(message: str) -> None:
        nonlocal turns
        turns += 1
        if turns < 100_000:  # of which 500 are served in a round
            cell.tell(message)
            dispatcher.execute(lambda: None)
        else:
            enough.set()

    cell = dispatcher.spawn(receive, "worker")
    cell.tell("work")
    assert enough.wait(60)
    assert not spins()


@pytest.mark.expects_log("whole core")
def test_a_thread_of_a_pool_that_is_woken_again_and_again_without_a_cell_is_named(pool: ElasticPool) -> None:
    takes_a_turn(pool)
    for _ in range(FRUITLESS_CALLS):
        assert not spins()
        pool._wake_one()
        eventually(lambda: pool.at_rest)
    eventually(lambda: bool(spins()))
    assert str(spins()[0]) == "pool 'test-pool': a worker was woken 100 times in succession and no cell waited"


def test_wake_ups_in_vain_between_turns_are_forgiven(pool: ElasticPool) -> None:
    for _ in range(4):
        takes_a_turn(pool)
        for _ in range(FRUITLESS_CALLS // 2):
            pool._wake_one()
            eventually(lambda: pool.at_rest)
    assert not spins()


@pytest.mark.expects_log("whole core")
def test_the_watch_of_a_pool_that_is_woken_again_and_again_without_a_turn_is_named(
    pool: ElasticPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool_watch, "_RESTS_AFTER", 1)
    monkeypatch.setattr(pool_watch, "INTERVAL_MS", 0.0)
    takes_a_turn(pool)
    while not spins():
        eventually(lambda: pool._watch.rests or bool(spins()))
        pool._watch.wake()
    assert str(spins()[0]) == (
        "pool 'test-pool-watch': the watch was woken 100 times in succession and no cell had got a turn"
    )
