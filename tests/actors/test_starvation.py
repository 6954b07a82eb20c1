"""When a pool gets another thread: looks 3 ms apart at threads that block, compute, or are put aside for a moment."""

from __future__ import annotations

import threading
import time

import pytest

from streamactors.actors.pool.elastic_pool import ElasticPool
from streamactors.actors.pool.starvation import COMPUTING_S, Starvation
from streamactors.actors.threads import cpu_clock_of_current_thread, cpu_time_s
from tests.actors.eventually import eventually

TICK_S = 0.003


class Looks:
    """Ticks of a watch over a pool whose threads begin `turns` and use a share of the processor."""

    def __init__(self, *, blocked_lately: bool = False) -> None:
        self.starvation = Starvation()
        self.turns, self.cpu_s, self.now_s = 0, 5.0, 100.0
        self.blocked_lately = blocked_lately
        self.tick(turns=1)

    def tick(self, *, turns: int = 0, share: float = 0.0, waiting: bool = True) -> int:
        self.turns += turns
        self.now_s += TICK_S
        self.cpu_s += share * TICK_S
        if not waiting:
            self.starvation.nobody_waits()
            return 0
        return self.starvation.look(self.turns, self.cpu_s, self.now_s, blocked_lately=self.blocked_lately)


def test_threads_that_use_no_processor_time_are_blocked_at_the_third_look_and_then_twice_as_many_are_added() -> None:
    looks = Looks()
    assert [looks.tick() for _ in range(10)] == [0, 1, 2, 4, 8, 16, 32, 64, 64, 64]


def test_one_look_less_will_do_where_others_have_blocked_lately() -> None:
    looks = Looks(blocked_lately=True)
    assert [looks.tick() for _ in range(3)] == [1, 2, 4]
    assert looks.tick(turns=1) == 0
    assert [looks.tick(share=1.0), looks.tick()] == [0, 1]


def test_a_turn_begun_or_an_empty_queue_starts_the_count_anew() -> None:
    looks = Looks()
    assert [looks.tick() for _ in range(3)] == [0, 1, 2]
    assert looks.tick(turns=1) == 0
    assert [looks.tick() for _ in range(3)] == [0, 1, 2]
    assert [looks.tick(waiting=False), looks.tick()] == [0, 0]
    assert [looks.tick() for _ in range(3)] == [0, 1, 2]


def test_a_thread_put_aside_between_two_looks_is_not_blocked() -> None:
    looks = Looks()
    assert [looks.tick(), looks.tick(share=0.5), looks.tick(), looks.tick(turns=1), looks.tick()] == [0, 0, 0, 0, 0]


def test_a_turn_that_computes_keeps_others_waiting_for_a_bounded_time_only() -> None:
    looks = Looks()
    added = [looks.tick(share=1.0) for _ in range(20)]
    waited = (added.index(1) + 1) * TICK_S
    assert COMPUTING_S <= waited < COMPUTING_S + 2 * TICK_S
    assert all(added[added.index(1) :])


def test_threads_that_wake_up_now_and_then_are_blocked_all_the_same() -> None:
    looks = Looks()
    assert [looks.tick(share=0.05) for _ in range(3)] == [0, 1, 2]


@pytest.mark.skipif(cpu_clock_of_current_thread() is None, reason="no clock of another thread's processor time here")
def test_the_processor_time_of_another_thread_can_be_read_and_of_one_that_has_ended_is_nothing() -> None:
    clocks: list[int | None] = []
    enough, gate = threading.Event(), threading.Event()

    def work() -> None:
        clocks.append(cpu_clock_of_current_thread())
        while time.thread_time() < 0.01:
            pass
        enough.set()
        gate.wait(30)

    thread = threading.Thread(target=work)
    thread.start()
    assert enough.wait(30)
    assert cpu_time_s(clocks[0]) >= 0.01
    gate.set()
    thread.join()
    eventually(lambda: cpu_time_s(clocks[0]) == 0.0)  # the system may take a moment to forget it
    assert cpu_time_s(None) == 0.0


def test_a_turn_that_computes_for_long_does_not_stall_the_others(pool: ElasticPool) -> None:
    served, inside = threading.Event(), threading.Event()
    seen: list[bool] = []

    def compute(_: object) -> None:
        other.tell(1)  # on this thread, so that no other thread is woken
        inside.set()
        began = time.monotonic()
        while not served.is_set() and time.monotonic() - began < 30:
            pass
        seen.append(served.is_set())

    other = pool.spawn(lambda _: served.set(), "other")
    pool.spawn(compute, "computing").tell(1)
    assert inside.wait(10)
    eventually(lambda: seen == [True])
