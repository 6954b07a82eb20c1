"""A run that cannot end is ended, and the error says who waits where."""

from __future__ import annotations

import threading
import time

import pytest

from streamactors import ActorSystem, Sink, Source
from streamactors.simulation.world.errors import WorldLimit, WorldStuck
from streamactors.simulation.world.simulated import SimulatedWorld


def test_a_deadlock_names_each_waiting_task_and_its_line() -> None:
    def main() -> None:
        first, second = threading.Lock(), threading.Lock()

        def other() -> None:
            with second:
                time.sleep(1)
                first.acquire()

        thread = threading.Thread(target=other, name="the other")
        thread.start()
        with first:
            time.sleep(1)
            second.acquire()

    with pytest.raises(WorldStuck) as stuck:
        SimulatedWorld(0).run(main)
    lines = str(stuck.value).splitlines()
    assert "no timer is set, so main never ends" in lines[0]
    assert sum("/main waits for a lock at" in line and f"{__file__}:" in line for line in lines) == 1
    assert sum("/the other waits for a lock at" in line and "in test_a_deadlock" in line for line in lines) == 1


def test_a_stream_that_never_ends_without_a_timer_is_a_deadlock() -> None:
    def main() -> None:
        with ActorSystem("never") as system:
            Source.never().run_with(Sink.to_list(), system).result()

    with pytest.raises(WorldStuck, match=r"main waits for a lock at .*futures\.py"):
        SimulatedWorld(0).run(main)


def test_virtual_time_has_a_limit() -> None:
    with pytest.raises(
        WorldLimit, match=r"not over after 3600 s of virtual time.*max_time.*\n.*main waits for a sleep"
    ):
        SimulatedWorld(0, max_time_s=3600).run(lambda: time.sleep(7200))


def test_steps_have_a_limit() -> None:
    def main() -> None:
        while True:
            time.sleep(0)

    with pytest.raises(WorldLimit, match="took 1,000 steps"):
        SimulatedWorld(0, max_steps=1_000).run(main)


def test_a_loop_that_reads_the_clock_until_a_deadline_ends() -> None:
    def main() -> None:
        until = time.monotonic() + 2
        while time.monotonic() < until:
            pass

    SimulatedWorld(0).run(main)
