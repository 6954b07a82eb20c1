"""Many streams, blocked streams, silent sinks: what they may cost."""

from __future__ import annotations

import gc
import threading
import time
from pathlib import Path

import pytest

from streamactors import ActorSystem, Sink, Source
from tests.own_process import own_process


def resident_bytes() -> int:
    fields = Path("/proc/self/statm").read_text().split()
    return int(fields[1]) * 4096


@pytest.fixture
def system():
    with ActorSystem("scale") as system:
        yield system


@own_process
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads /proc")
def test_ten_thousand_idle_streams_need_few_threads_and_little_memory(system):
    graph = Source.never().map(lambda x: x).to(Sink.ignore())
    for _ in range(500):  # what is allocated once is not theirs
        graph.run(system)
    Source.range(0, 1_000).run_with(Sink.count(), system).result(10)
    gc.collect()
    before = resident_bytes()
    for _ in range(10_000):
        graph.run(system)
    Source.range(0, 1_000).run_with(Sink.count(), system).result(30)
    gc.collect()
    assert (resident_bytes() - before) / 10_000 < 15_000
    assert threading.active_count() < 100


def test_fifty_blocked_streams_stall_neither_another_one_nor_a_timer(system):
    release, entered = threading.Event(), threading.Semaphore(0)

    def block(x):
        entered.release()
        release.wait(30)
        return x

    blocked = [Source.single(i).map(block).run_with(Sink.head(), system) for i in range(50)]
    try:
        for _ in range(50):
            assert entered.acquire(timeout=20), "every stream gets a thread of its own while it blocks"
        assert Source.range(0, 200_000).map(lambda x: x + 1).run_with(Sink.count(), system).result(20) == 200_000
        assert Source.tick("1ms", "1ms", "tick").take(3).run_with(Sink.to_list(), system).result(20) == ["tick"] * 3
    finally:
        release.set()
    assert [future.result(20) for future in blocked] == list(range(50))


@own_process
@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads /proc")
def test_memory_stays_flat_while_a_sink_is_silent_behind_three_boundaries(system):
    silent, resume = threading.Event(), threading.Event()
    resume.set()
    seen = [0]

    def sink(_):
        seen[0] += 1
        if not resume.is_set():
            silent.set()
            resume.wait(60)

    source = Source.repeat(0).map(lambda _: bytes(1_000))
    source.async_boundary().async_boundary().async_boundary().run_with(Sink.foreach(sink), system)
    deadline = time.monotonic() + 2
    while time.monotonic() < deadline:  # let every buffer grow to its size
        time.sleep(0.05)
    gc.collect()
    grown = []
    for _ in range(2):
        silent.clear()
        resume.clear()
        assert silent.wait(10)
        before = resident_bytes()
        time.sleep(10)  # the silence itself is the point: nothing may pile up during it
        grown.append(resident_bytes() - before)
        resume.set()
        time.sleep(1)
    assert seen[0] > 10_000
    assert max(grown) < 20_000_000, grown  # the source makes more than that in a second
