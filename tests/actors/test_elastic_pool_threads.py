"""The threads of the pool: a blocked cell delays no other cell. The pool grows only for blocked cells, shrinks when idle, keeps its bound, and stops."""

from __future__ import annotations

import sys
import threading
import time
from typing import Any

import pytest

from streamactors.actors.pool.elastic_pool import ElasticPool, PoolStopped
from streamactors.actors.threads import current_owner
from tests.actors.eventually import eventually
from tests.own_process import own_process


def test_fifty_blocked_cells_do_not_stall_the_fifty_first(pool: ElasticPool) -> None:
    gate = threading.Event()
    blocked = [pool.spawn(lambda _: gate.wait(), f"blocked-{k}") for k in range(50)]
    for cell in blocked:
        cell.tell("block")
    turns: list[int] = []
    enough = threading.Event()

    def receive(left: int) -> None:
        turns.append(left)
        if left == 0:
            enough.set()
        else:
            free.tell(left - 1)

    free = pool.spawn(receive, "free")
    free.tell(10_000)
    assert enough.wait(10), f"{pool}: the free cell had {len(turns)} turns"
    assert not gate.is_set()
    gate.set()


def test_cells_that_block_do_so_in_parallel(pool: ElasticPool) -> None:
    # A dozen sleeping cells once shared one thread, because a worker that had been woken but did not run yet counted as
    # idle.
    barrier = threading.Barrier(12)
    passed: list[int] = []
    for k in range(12):
        pool.spawn(lambda k: (barrier.wait(10), passed.append(k)), f"c{k}").tell(k)
    eventually(lambda: len(passed) == 12)


def test_a_cell_made_runnable_by_one_that_then_blocks_is_served_by_another_thread(pool: ElasticPool) -> None:
    served = threading.Event()
    second = pool.spawn(lambda _: served.set(), "second")

    def first(_: object) -> None:
        second.tell("go")
        assert served.wait(10)

    done = threading.Event()
    pool.spawn(lambda m: (first(m), done.set()), "first").tell("go")
    assert done.wait(15)


def test_the_pool_does_not_grow_for_cells_that_do_not_block(pool: ElasticPool) -> None:
    done = threading.Semaphore(0)

    def receive(left: int) -> None:
        if left:
            cells[left % 100].tell(left - 1)
        else:
            done.release()

    cells = [pool.spawn(receive, f"busy-{k}") for k in range(100)]
    for k in range(100):
        cells[k].tell(200)
    for _ in range(100):
        assert done.acquire(timeout=20)
    assert pool.threads < 20


def test_the_pool_shrinks_to_one_thread_when_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streamactors.actors.pool.elastic_pool._WORKER_IDLE_S", 0.02)
    pool = ElasticPool("shrinking")
    barrier = threading.Barrier(8)
    for k in range(8):
        pool.spawn(lambda _: barrier.wait(10), f"c{k}").tell(1)
    eventually(lambda: pool.threads >= 8)
    eventually(lambda: pool.threads == 1)
    served = threading.Event()
    pool.spawn(lambda _: served.set(), "later").tell(1)
    assert served.wait(10)
    assert pool.stop(5) == []


def test_max_threads_is_kept_and_said_once(caplog: pytest.LogCaptureFixture) -> None:
    pool = ElasticPool("narrow", max_threads=2)
    gate = threading.Event()
    finished: list[int] = []
    for k in range(5):
        pool.spawn(lambda k: (gate.wait(10), finished.append(k)), f"c{k}").tell(k)
    eventually(lambda: "raise max_threads" in caplog.text)
    assert pool.threads == 2
    gate.set()
    eventually(lambda: len(finished) == 5)
    assert caplog.text.count("raise max_threads") == 1
    assert pool.stop(5) == []


def test_a_cell_queued_while_a_worker_parks_is_served_by_it(monkeypatch: pytest.MonkeyPatch) -> None:
    # The worker finds the queue empty -> another thread queues a cell and finds no parked worker -> the worker parks.
    monkeypatch.setattr("streamactors.actors.pool.pool_watch.PoolWatch.start", lambda watch: None)
    pool = ElasticPool("parking")
    served = threading.Event()
    late = pool.spawn(lambda _: served.set(), "late")

    class Parked(list[Any]):
        def append(self, worker: object) -> None:
            if not late.mailbox and not served.is_set():
                late.mailbox.append("x")
                pool._queue.append(late)
            super().append(worker)

    pool._parked = Parked()
    pool.spawn(lambda _: None, "first").tell(1)
    assert served.wait(2)  # less than it takes an idle worker to look again by itself
    assert pool.stop(5) == []


def test_threads_know_whose_they_are(pool: ElasticPool) -> None:
    owners: list[object] = []
    pool.spawn(lambda _: owners.append((current_owner(), pool.in_thread())), "c").tell(1)
    eventually(lambda: owners)
    assert owners == [("test-pool", True)]
    assert not pool.in_thread()


def test_stop_ends_every_thread_and_names_what_blocks() -> None:
    pool = ElasticPool("stopping")
    gate, inside = threading.Event(), threading.Event()
    pool.spawn(lambda _: (inside.set(), gate.wait(30)), "the blocked one").tell(1)
    assert inside.wait(10)
    assert pool.stop(0.05) == ["the blocked one"]
    gate.set()
    eventually(lambda: pool.threads == 0)
    late = pool.spawn(print, "late")
    for _ in range(2):
        with pytest.raises(PoolStopped, match="'stopping' is stopped"):
            late.tell(1)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("stopping")]


def test_a_cell_that_never_rests_does_not_keep_stop_from_ending() -> None:
    pool = ElasticPool("spinning")
    cell = pool.spawn(lambda _: cell.tell(1), "spinner")
    cell.tell(1)
    eventually(lambda: pool._taken > 100)
    assert pool.stop(5) == []
    assert pool.threads == 0


@own_process
@pytest.mark.skipif(sys.platform == "win32", reason="process_time is too coarse")
def test_an_idle_pool_uses_no_cpu(pool: ElasticPool) -> None:
    served = threading.Event()
    pool.spawn(lambda _: served.set(), "c").tell(1)
    assert served.wait(10)
    eventually(lambda: pool._watch.rests)
    before, seen = time.process_time(), pool._taken
    threading.Event().wait(0.1)
    assert time.process_time() - before < 0.05
    assert pool._taken == seen


@pytest.mark.expects_log("cannot start thread")
def test_a_pool_works_again_when_threads_can_be_started_again(
    pool: ElasticPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    came = threading.Event()
    cell = pool.spawn(lambda _: came.set(), "cell")
    with monkeypatch.context() as short_of_threads:
        short_of_threads.setattr(threading.Thread, "start", refuses)
        cell.tell("as long as no thread can be started")
        assert pool.threads == 0
    pool.spawn(lambda _: None, "another").tell("later")
    assert came.wait(10), pool
    assert pool._watch._thread is not None
    assert pool._watch._thread.is_alive()
