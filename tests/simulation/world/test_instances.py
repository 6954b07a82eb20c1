"""Several instances of a pipeline side by side: a crash ends one where it stands, a pause holds one, and the others do not notice."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from streamactors import ActorSystem, Sink, Source
from streamactors.simulation.world.simulated import SimulatedWorld

COUNT = 120
Seen = list[tuple[Any, ...]]


def _pipeline(world: SimulatedWorld, seen: Seen) -> Callable[[], None]:
    """Write numbers to a file, one after another, from where the file ends."""

    def effect(number: int) -> int:
        time.sleep(0.01)
        try:
            with (world.folder() / "done").open("a") as file:
                file.write(f"{number:03}\n")
            seen.append((world.instance(), number))
        finally:
            seen.append((world.instance(), "finally"))
        return number

    def run() -> None:
        done = world.folder() / "done"
        begin = len(done.read_text()) // 4 if done.exists() else 0
        with ActorSystem("app") as system:
            numbers = Source.range(begin, COUNT).async_boundary().map_async(1, effect)
            numbers.run_with(Sink.ignore(), system).result()
        seen.append((world.instance(), "ended"))

    return run


def _of(seen: Seen, instance: str) -> list[Any]:
    return [what for who, what in seen if who == instance]


def _crashed_and_paused(seed: int) -> tuple[Seen, list[str]]:
    world, seen = SimulatedWorld(seed), []  # type: tuple[SimulatedWorld, Seen]

    def main() -> Seen:
        for instance in "12":
            world.start(instance, _pipeline(world, seen))
        world.sleep(303 + 5 * world.dice.random())
        world.crash("1")
        at_crash = _of(seen, "1")
        world.sleep(200)
        world.pause("2")
        at_pause = _of(seen, "2")
        assert at_pause != at_crash
        world.sleep(5_000)
        assert _of(seen, "1") == at_crash
        assert _of(seen, "2") == at_pause
        world.start("1", _pipeline(world, seen))
        world.resume("2")
        assert world.wait(lambda: all("ended" in _of(seen, each) for each in "12"), 60_000)
        return list(seen)

    return world.run(main), world.trace.lines()


@pytest.mark.parametrize("seed", range(8))
def test_an_instance_continues_from_its_disk_after_a_crash_and_a_paused_one_where_it_stood(seed: int) -> None:
    seen, lines = _crashed_and_paused(seed)
    for instance in "12":
        numbers = [what for what in _of(seen, instance) if isinstance(what, int)]
        assert sorted({*numbers}) == list(range(COUNT))
        assert numbers == list(range(COUNT)) or instance == "1"
    assert [line.split()[1:] for line in lines if "of='" in line and "start" not in line] == [
        ["/main", "crash", "of='1'"],
        ["/main", "pause", "of='2'"],
        ["/main", "resume", "of='2'"],
    ]


def test_crashes_and_pauses_have_equal_traces() -> None:
    assert all(_crashed_and_paused(seed) == _crashed_and_paused(seed) for seed in range(3))


def test_a_task_may_crash_its_own_instance_and_its_finally_does_not_run() -> None:
    world, seen = SimulatedWorld(0), []  # type: tuple[SimulatedWorld, list[str]]

    def dies() -> None:
        try:
            world.crash("1")
            seen.append("after the crash")
        finally:
            seen.append("finally")

    def main() -> list[str]:
        world.start("1", dies)
        world.sleep(1_000)
        return list(seen)

    assert world.run(main) == []


def test_a_lock_outside_of_the_instance_is_free_after_its_crash() -> None:
    world = SimulatedWorld(0)

    def main() -> bool:
        outside = threading.Lock()

        def holds() -> None:
            with outside:
                time.sleep(1_000)

        world.start("1", holds)
        world.sleep(1)
        assert not outside.acquire(timeout=1)
        world.later(500, lambda: world.crash("1"), "crash")
        return outside.acquire(timeout=1)

    assert world.run(main)


def test_steps_of_an_instance_are_dropped_at_its_crash_and_held_in_a_pause() -> None:
    world, ran = SimulatedWorld(0), []  # type: tuple[SimulatedWorld, list[tuple[str, float]]]

    def main() -> None:
        for owner in ("", "1", "2"):
            world.later(100, lambda owner=owner: ran.append((owner, world.now_ms())), "step", owner)  # type: ignore[misc]
        world.sleep(50)
        world.pause("1")
        world.crash("2")
        world.sleep(450)
        world.resume("1")
        world.sleep(1)

    world.run(main)
    assert ran == [("", 100.0), ("1", 500.0)]


def test_what_an_instance_did_not_flush_is_lost_and_the_last_write_may_be_torn() -> None:
    def written(seed: int, torn: bool) -> tuple[str, str]:
        world = SimulatedWorld(seed)

        def writes() -> None:
            (world.folder() / "whole").write_text("0123456789")
            file = (world.folder() / "open").open("w")
            file.write("not flushed")
            time.sleep(1_000)

        def main() -> tuple[str, str]:
            world.start("1", writes)
            world.sleep(1)
            world.crash("1", torn=torn)
            folder = world.folder("1")
            return (folder / "whole").read_text(), (folder / "open").read_text()

        return world.run(main)

    assert {written(seed, False) for seed in range(5)} == {("0123456789", "")}
    torn = {written(seed, True)[0] for seed in range(30)}
    assert "0123456789" in torn
    assert len(torn) > 3


def test_a_lost_disk_is_empty_and_folders_are_removed_after_the_run() -> None:
    world = SimulatedWorld(0)

    def main() -> Path:
        (world.folder("1") / "x").write_text("x")
        world.crash("1")
        assert (world.folder("1") / "x").exists()
        world.lose_disk("1")
        assert not (world.folder("1") / "x").exists()
        return world.folder("1")

    assert not world.run(main).parent.exists()


def test_each_instance_has_its_own_default_system_and_its_own_wall_clock() -> None:
    world, found = SimulatedWorld(0), {}  # type: tuple[SimulatedWorld, dict[str, Any]]

    def looks() -> None:
        found[world.instance()] = (ActorSystem.default(), round(time.time()))

    def main() -> None:
        world.shift_clock("2", 3_600_000)
        world.start("1", looks)
        world.start("2", looks)
        world.sleep(1)

    world.run(main)
    assert found["1"][0] is not found["2"][0]
    assert found["2"][1] - found["1"][1] == 3_600
