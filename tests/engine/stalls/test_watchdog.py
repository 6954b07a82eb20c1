"""The watchdog tells why a stream stands still."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections import Counter

import pytest

from streamactors import ActorSystem, Broadcast, Flow, GraphDSL, Keep, Sink, Source, VirtualClock, Watchdog, Zip
from streamactors.engine.snapshot import snapshots
from streamactors.engine.stalls.diagnosis import Cause
from streamactors.errors import BuildError
from streamactors.testing import TestSink
from streamactors.testing.running_streams import running_streams

pytestmark = pytest.mark.expects_log("nothing has moved for", again=True)


@pytest.fixture
def clock():
    return VirtualClock()


@pytest.fixture
def system(clock):
    with ActorSystem("stalls", clock=clock) as system:
        yield system


def cause_of(system, clock, graph):
    """Run a graph until the watchdog reports it; return the stall."""
    found = []
    with Watchdog(system, "10s", found.append) as dog:
        value = graph.run(system)
        clock.advance("9s")
        assert not found
        clock.advance("10s")
        clock.advance("60s")
        assert dog.count == len(found) == 1, "a stall is reported once"
        assert list(dog.stalled.values()) == found
    return found[0], value


def test_a_source_without_elements(system, clock, caplog):
    caplog.set_level("INFO", "streamactors.stalls")
    stall, _ = cause_of(system, clock, Source.maybe().map(str).to(Sink.ignore()))
    assert (stall.cause, stall.stages) == (Cause.SOURCE, ("maybe",))
    (record,) = [r for r in caplog.records if r.name == "streamactors.stalls"]
    assert record.levelname == "INFO"
    assert "nothing has moved for 1" in record.getMessage()
    assert "a source that has no elements: maybe" in record.getMessage()


def test_a_sink_that_takes_nothing_behind_a_boundary(system, clock, caplog):
    graph = Source.repeat(1).map(str).async_boundary().to_mat(TestSink.probe(), Keep.right)
    stall, probe = cause_of(system, clock, graph)
    assert stall.cause is Cause.SINK
    assert "waits for" in stall.to_mermaid()
    assert [r.levelname for r in caplog.records if r.name == "streamactors.stalls"] == ["WARNING"]
    probe.cancel()


def test_a_stage_that_holds_elements(system, clock):
    stall, _ = cause_of(system, clock, Source.range(3).delay("1h").to(Sink.ignore()))
    assert (stall.cause, stall.stages) == (Cause.STAGE, ("delay",))


def test_a_cycle_whose_stages_wait_for_each_other(system, clock):
    with GraphDSL() as g:
        fan, pair = g.add(Broadcast(2)), g.add(Zip())
        g.add(Source.range(50_000)) >> fan
        fan.out(0) >> Flow.grouped(20_000) >> pair.in_(0)  # zip takes an element of the other branch only for a group
        fan.out(1) >> pair.in_(1)
        pair >> Sink.ignore()
    stall, _ = cause_of(system, clock, g.to_runnable())
    assert stall.cause is Cause.CYCLE
    assert {"broadcast", "zip"} <= set(stall.stages)
    assert "a buffer in the cycle" in str(stall)


def test_a_user_function_that_does_not_return_is_shown_with_its_stack():
    entered, leave = threading.Event(), threading.Event()

    def waits_for_ever(x):
        entered.set()
        leave.wait()
        return x

    reported = threading.Event()
    found = []

    def report(stall):
        found.append(stall)
        reported.set()

    with ActorSystem("blocked") as system:
        done = Source.range(10).map(waits_for_ever).run_with(Sink.ignore(), system)
        assert entered.wait(30)  # before it, a slow machine shows a sink that has not asked yet
        with Watchdog(system, "50ms", report):
            assert reported.wait(30)
            assert "waits_for_ever" in running_streams()
            leave.set()
            done.result(30)
    (stall,) = found
    assert stall.cause is Cause.BLOCKED
    assert "map" in stall.stages[0]
    assert "leave.wait()" in stall.stack
    assert "interpreter.py" not in stall.stack


def test_a_stream_that_waits_for_a_thread_of_the_pool_is_told_apart_from_those_that_hold_them():
    entered, leave = threading.Semaphore(0), threading.Event()

    def holds(x):
        entered.release()
        leave.wait()
        return x

    found, reported = [], threading.Event()

    def report(stall):
        found.append(stall)
        if len(found) == 3:
            reported.set()

    with ActorSystem("exhausted") as system:
        system.pool.max_threads = 2
        holding = [Source.range(3).map(holds).run_with(Sink.ignore(), system) for _ in range(2)]
        for _ in holding:
            assert entered.acquire(timeout=30)
        with Watchdog(system, "50ms", report):
            third = Source.range(3).run_with(Sink.ignore(), system)
            assert reported.wait(30)
            leave.set()
            for done in (*holding, third):
                done.result(30)
    first = found[:3]  # a slow machine may stand still again before the end
    assert sorted(stall.cause.name for stall in first) == ["BLOCKED", "BLOCKED", "POOL"]
    assert "2 threads" in str(next(stall for stall in first if stall.cause is Cause.POOL))


def test_a_stream_that_moves_is_left_alone_and_one_that_moves_again_is_forgotten(system, clock):
    found = []
    with Watchdog(system, "10s", found.append) as dog:
        probe = Source.tick(0, "3s", 1).run_with(TestSink.probe(), system)
        for _ in range(20):
            probe.request(1)
            clock.advance("3s")
        assert not found
        clock.advance("60s")
        assert len(dog.stalled) == 1
        probe.request(5)
        clock.advance("6s")
        assert not dog.stalled
        probe.cancel()


def test_the_stage_that_takes_the_time_is_the_bottleneck():
    def spins(x):
        total = 0
        for i in range(200_000):
            total += i
        return x

    shots = []
    with ActorSystem("busy") as system:

        def look(x):
            if x % 10 == 9:  # a look takes time, too
                shots.extend(snapshots(system))

        slow = (
            Source.range(60)
            .map(spins)
            .async_boundary()
            .take_while(lambda x: x < 59)
            .run_with(Sink.foreach(look), system)
        )
        slow.result(60)
    # when the island of the map has ended, the last snapshots have the other island alone
    busiest = Counter(shot.bottleneck.name for shot in shots if shot.bottleneck is not None)
    assert "map" in busiest.most_common(1)[0][0], busiest


def test_bad_arguments_are_refused(system):
    with pytest.raises(BuildError, match="stall_after must be more than 0"):
        Watchdog(system, 0)


@pytest.mark.expects_log("still running when the process ended")
@pytest.mark.expects_exit_code(1)
def test_a_test_that_times_out_shows_what_its_streams_wait_for(tmp_path):
    (tmp_path / "test_slow.py").write_text(
        "from streamactors import Sink, Source\n"
        "def test_times_out():\n"
        "    Source.maybe().map(str).run_with(Sink.ignore()).result(0.05)\n"
    )
    command = [sys.executable, "-m", "pytest", "-p", "no:randomly", "-p", "no:cacheprovider", "-p", "no:xdist", "."]
    shown = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False).stdout
    assert "streams that still run" in shown, shown
    assert "waits for a source that has no elements: maybe" in shown
