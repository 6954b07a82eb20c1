"""What user code keeps in its modules is once per instance, is lost in a crash, and is as it was after the run."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from streamactors.simulation.world.simulated import SimulatedWorld

SEEN: dict[str, list[str]] = {"begun": []}
SAME = SEEN
COUNTS: defaultdict[str, int] = defaultdict(int)
LOCK = threading.Lock()
number = 0
calls: list[str] = []


class Cache:
    """A class with state of its own, and objects with state."""

    of_class = 0

    def __init__(self) -> None:
        self.held: list[str] = []


CACHE = Cache()


def _bind() -> None:
    global number
    number += 1


def _default(found: list[int] = []) -> int:  # noqa: B006  # the state of a default is what is tested
    found.append(1)
    return len(found)


@lru_cache
def _cached() -> int:
    calls.append("computed")
    return len(calls)


def _change() -> dict[str, Any]:
    """Change every kind of state once; return what is there afterwards."""
    SEEN["begun"].append("x")
    COUNTS["x"] += 1
    CACHE.held.append("x")
    Cache.of_class += 1
    _bind()
    return {
        "dict": len(SAME["begun"]), "default dict": COUNTS["x"], "object": len(CACHE.held), "class": Cache.of_class,
        "global": number, "default": _default(), "same class": isinstance(CACHE, Cache),
    }  # fmt: skip


FIRST = dict.fromkeys(["dict", "default dict", "object", "class", "global", "default"], 1) | {"same class": True}


def _run(main: Callable[[SimulatedWorld], Any]) -> Any:
    world = SimulatedWorld(0)
    return world.run(lambda: main(world))


def test_each_instance_has_its_own_state_and_begins_anew_after_a_crash() -> None:
    def main(world: SimulatedWorld) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        for instance in ("1", "2"):
            world.start(instance, lambda: found.append(_change()))
        world.sleep(1)
        world.crash("1")
        world.start("1", lambda: found.append(_change()))
        world.sleep(1)
        found.append(_change())
        return found

    assert _run(main) == [FIRST] * 4


def test_an_instance_keeps_its_state_while_others_run() -> None:
    def main(world: SimulatedWorld) -> list[int]:
        found: list[int] = []

        def adds() -> None:
            for _ in range(3):
                found.append(_change()["global"])
                world.sleep(10)

        for instance in ("1", "2"):
            world.start(instance, adds)
        world.sleep(100)
        return sorted(found)

    assert _run(main) == [1, 1, 2, 2, 3, 3]


def test_a_cache_of_a_function_is_empty_when_an_instance_begins() -> None:
    def main(world: SimulatedWorld) -> list[int]:
        found: list[int] = []
        for _ in range(2):
            world.start("1", lambda: found.append((_cached(), len(calls))[1]))
            world.sleep(1)
            world.crash("1")
        return found

    assert _run(main) == [1, 1]


def test_a_lock_of_a_module_is_free_in_another_instance_and_after_a_crash() -> None:
    def main(world: SimulatedWorld) -> list[bool]:
        took: list[bool] = []

        def holds() -> None:
            took.append(LOCK.acquire(timeout=1))
            world.sleep(1_000_000)

        for instance in ("1", "2"):
            world.start(instance, holds)
        world.sleep(100)
        world.crash("1")
        world.start("1", holds)
        world.sleep(100)
        return took

    assert _run(main) == [True, True, True]


def test_a_check_sees_the_state_of_the_main_task() -> None:
    def main(world: SimulatedWorld) -> list[int]:
        found: list[int] = []

        def looks() -> None:
            _bind()
            found.extend([world.as_main(lambda: number), number])

        world.start("1", looks)
        world.sleep(1)
        return found

    assert _run(main) == [0, 1]


def test_a_run_leaves_the_state_as_it_was() -> None:
    before = (SEEN, SEEN["begun"], COUNTS, CACHE, LOCK)
    _run(lambda world: _change())
    after = (SEEN, SEEN["begun"], COUNTS, CACHE, LOCK)
    assert all(a is b for a, b in zip(before, after, strict=True))
    assert (SEEN, dict(COUNTS), CACHE.held, Cache.of_class, number, calls) == ({"begun": []}, {}, [], 0, 0, [])
