"""Laws of the pool: one thread at a time, in order, nothing lost, no cell starved; idle cells cost nothing."""

from __future__ import annotations

import threading
import tracemalloc
from collections import deque
from collections.abc import Callable
from typing import Any

import pytest

from streamactors.actors.cell import MESSAGES_PER_TURN, Cell
from streamactors.actors.pool.elastic_pool import ElasticPool
from streamactors.clock import VirtualClock
from tests.actors.eventually import eventually
from tests.own_process import own_process


def test_messages_arrive_in_order_on_one_thread_at_a_time(pool: ElasticPool) -> None:
    inside = threading.Lock()
    seen: dict[int, list[int]] = {k: [] for k in range(4)}
    overlaps: list[int] = []

    def receive(message: tuple[int, int]) -> None:
        if not inside.acquire(blocking=False):
            overlaps.append(1)
            return
        seen[message[0]].append(message[1])
        inside.release()

    cell = pool.spawn(receive, "cell")

    def tell(me: int) -> None:
        for k in range(5_000):
            cell.tell((me, k))

    tellers = [threading.Thread(target=tell, args=(me,)) for me in range(4)]
    for teller in tellers:
        teller.start()
    for teller in tellers:
        teller.join()
    eventually(lambda: sum(map(len, seen.values())) + len(overlaps) == 20_000)
    assert not overlaps
    assert all(numbers == list(range(5_000)) for numbers in seen.values())


@pytest.mark.expects_log("its cells take no more turns")  # messages still go round when the pool stops
def test_a_ring_of_cells_passes_every_message_on(pool: ElasticPool) -> None:
    done = threading.Event()
    ring: list[Cell] = []

    def receive(me: int, hops: int) -> None:
        if hops == 0:
            done.set()
        else:
            ring[(me + 1) % 50].tell(hops - 1)

    ring.extend(pool.spawn(lambda hops, me=me: receive(me, hops), f"ring-{me}") for me in range(50))
    for me in range(10):
        ring[me].tell(2_000)
    ring[0].tell(20_000)
    assert done.wait(20)


@own_process
def test_ten_thousand_idle_cells_cost_under_a_kilobyte_each_and_no_thread() -> None:
    pool = ElasticPool("idle")
    received: list[int] = []

    def receive(message: int) -> None:
        received.append(message)

    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    cells = [pool.spawn(receive, "idle cell") for _ in range(10_000)]
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (after - before) / 10_000 < 1_000
    assert pool.threads == 0
    for cell in cells:
        cell.tell(1)
    eventually(lambda: len(received) == 10_000)
    assert pool.threads < 20
    assert pool.stop(5) == []


@pytest.mark.parametrize("error", [ValueError("broken"), SystemExit(1)])
def test_an_error_is_logged_with_the_cell_and_the_next_message_is_served(
    pool: ElasticPool, caplog: pytest.LogCaptureFixture, error: BaseException
) -> None:
    seen: list[str] = []

    def receive(message: str) -> None:
        if message == "fail":
            raise error
        seen.append(message)

    cell = pool.spawn(receive, "fragile")
    for message in ("a", "fail", "b"):
        cell.tell(message)
    eventually(lambda: len(seen) == 2)
    assert f"fragile: receive raised {type(error).__name__}" in caplog.text


def test_a_turn_is_bounded_and_what_arrives_meanwhile_waits_for_the_next() -> None:
    seen: list[int] = []
    cell: Cell

    class Recorder:
        name = "by hand"

        def __init__(self) -> None:
            self.queued: list[Cell] = []

        def submit(self, cell: Cell) -> None:
            self.queued.append(cell)

    executor = Recorder()

    def receive(message: int) -> None:
        seen.append(message)
        if message == 0:
            cell.tell(-1)

    cell = Cell(executor, receive, "cell")
    cell.tell(0)
    cell.tell(1)
    assert executor.queued == [cell]
    assert cell.run_turn() is True
    assert seen == [0, 1]
    assert cell.run_turn() is False
    assert seen == [0, 1, -1]
    for k in range(MESSAGES_PER_TURN + 1):
        cell.tell(k + 10)
    assert executor.queued == [cell, cell]
    assert cell.run_turn() is True
    assert len(cell.mailbox) == 1


class InterruptedMailbox(deque[Any]):
    """A mailbox into which another thread puts a message just after it has been seen to be empty."""

    interrupt: Callable[[], object] | None = None

    def __bool__(self) -> bool:
        empty = len(self) == 0
        if empty and self.interrupt is not None:
            interrupt, self.interrupt = self.interrupt, None
            interrupt()
        return not empty


def test_a_message_told_between_the_last_look_and_the_rest_is_not_left_behind() -> None:
    # run_turn sees an empty mailbox -> another thread tells, and sees that the cell is not idle -> the cell goes idle.
    class NeverRuns:
        name = "by hand"

        def submit(self, cell: Cell) -> None: ...

    seen: list[str] = []
    cell = Cell(NeverRuns(), seen.append, "cell")
    cell.mailbox = InterruptedMailbox()
    cell.tell("first")
    cell.mailbox.interrupt = lambda: cell.tell("second")
    assert cell.run_turn() is True
    assert cell.run_turn() is False
    assert seen == ["first", "second"]


def test_a_cell_that_always_has_messages_shares_the_only_thread() -> None:
    pool = ElasticPool("narrow", max_threads=1)
    served = threading.Event()
    spinner = pool.spawn(lambda _: None if served.is_set() else spinner.tell(1), "spinner")
    spinner.tell(1)
    eventually(lambda: pool.turns_taken > 10)
    pool.spawn(lambda _: served.set(), "other").tell(1)
    assert served.wait(10)
    assert pool.stop(5) == []


def test_a_running_cell_sees_its_mailbox(pool: ElasticPool) -> None:
    seen: list[list[str]] = []
    gate, told = threading.Event(), threading.Event()

    def receive(message: str) -> None:
        gate.wait(10)
        seen.append(list(cell.mailbox))
        if message == "b":
            told.set()

    cell = pool.spawn(receive, "cell")
    cell.tell("a")
    cell.tell("b")
    gate.set()
    assert told.wait(10)
    assert seen == [["b"], []]


def test_after_stop_messages_are_dead_letters_including_those_waiting(pool: ElasticPool) -> None:
    gate = threading.Event()
    seen: list[str] = []
    dead: list[str] = []

    def receive(message: str) -> None:
        gate.wait(10)
        seen.append(message)
        cell.stop()

    cell = pool.spawn(receive, "cell", on_dead_letter=lambda _cell, message: dead.append(message))
    for message in ("a", "b", "c"):
        cell.tell(message)
    gate.set()
    eventually(lambda: len(dead) == 2)
    cell.tell("d")
    eventually(lambda: len(dead) == 3)
    assert (seen, dead) == (["a"], ["b", "c", "d"])
    assert cell.stopped


def test_the_watch_runs_while_a_cell_runs_and_rests_when_none_does(pool: ElasticPool) -> None:
    ticks: list[int] = []
    handle = pool.watch(lambda: ticks.append(1))
    assert ticks == []
    gate = threading.Event()
    cell = pool.spawn(lambda _: gate.wait(10), "long turn")
    cell.tell(1)
    eventually(lambda: len(ticks) >= 3)
    gate.set()
    eventually(lambda: pool._watch.rests)
    rested_at = len(ticks)
    cell.tell(1)
    eventually(lambda: len(ticks) > rested_at)
    handle.cancel()
    eventually(lambda: pool._watch.rests)


def test_a_watch_that_raises_is_logged_and_removed(pool: ElasticPool, caplog: pytest.LogCaptureFixture) -> None:
    calls: list[int] = []

    def broken() -> None:
        calls.append(1)
        raise RuntimeError("watch broken")

    pool.watch(broken)
    gate = threading.Event()
    pool.spawn(lambda _: gate.wait(10), "long turn").tell(1)
    eventually(lambda: "watch broken" in caplog.text)
    others: list[int] = []
    pool.watch(lambda: others.append(1))
    eventually(lambda: len(others) >= 2)
    assert len(calls) == 1
    gate.set()


def test_virtual_time_waits_for_the_pool(virtual: VirtualClock) -> None:
    pool = ElasticPool("virtual", virtual)
    gate = threading.Event()
    seen: list[int] = []
    cell = pool.spawn(lambda _: (gate.wait(10), seen.append(1)), "slow")
    cell.tell(1)
    threading.Timer(0.02, gate.set).start()
    virtual.advance("1ms")
    assert seen == [1]
    assert pool.stop(5) == []
