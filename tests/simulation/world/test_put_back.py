"""What a world replaces is replaced for its own thread, and put back after it, also after a failure."""

from __future__ import annotations

import asyncio
import copyreg
import datetime
import gc
import importlib
import pickle
import random
import selectors
import sys
import threading
import time
import uuid
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from streamactors import ActorSystem
from streamactors.actors.native_calls import NATIVE_CALLS
from streamactors.simulation.world.errors import SimulationError, WorldStuck
from streamactors.simulation.world.simulated import SimulatedWorld
from tests.simulation.world.shapes import run


def _everything() -> dict[str, Any]:
    """All names of all modules, and the class attributes that a world replaces."""
    found = {
        f"{name}.{key}": id(value)
        for name, module in list(sys.modules.items())
        if isinstance(module, ModuleType)
        for key, value in list(vars(module).items())
        if not key.startswith("__") and not name.startswith(("streamactors.simulation", "hypothesis"))
    }
    classes: list[Any] = [selectors.EpollSelector, asyncio.selector_events.BaseSelectorEventLoop, random.Random]
    for cls in classes:
        found |= {f"{cls.__name__}.{key}": id(value) for key, value in vars(cls).items()}
    return found | {
        "excepthook": id(threading.excepthook),
        "random": hash(random.getstate()),
        "node": uuid._node,  # type: ignore[attr-defined]
        "threads": sorted(threading._active),  # type: ignore[attr-defined]
        "reducers": dict(copyreg.dispatch_table),
        "gc": gc.isenabled(),
        "traced": sys.gettrace(),
    }


def test_everything_is_put_back_after_a_run_and_after_a_failure() -> None:
    SimulatedWorld(1).run(lambda: run("own_threads"))  # imports and caches of the first run
    before = _everything()
    SimulatedWorld(1).run(lambda: run("own_threads"))

    def fails() -> None:
        threading.Thread(target=threading.Event().wait, daemon=True).start()
        ActorSystem("left running").pool.spawn(lambda message: time.sleep(10), "sleeps").tell(1)
        raise KeyError("the pipeline's own error")

    with pytest.raises(KeyError, match="the pipeline's own error"):
        SimulatedWorld(2).run(fails)
    with pytest.raises(WorldStuck):
        SimulatedWorld(3).run(threading.Event().wait)
    after = _everything()
    assert {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)} == set()


def test_other_threads_keep_real_time_and_real_locks() -> None:
    asked, answered = threading.Event(), threading.Event()
    seen: dict[str, Any] = {}

    def outside() -> None:
        asked.wait(10)
        seen["time"] = time.monotonic()
        seen["locks"] = (type(threading.Lock()), type(threading.RLock()))
        answered.set()

    thread = threading.Thread(target=outside)
    thread.start()
    real_set, real_is_set = asked.set, answered.is_set

    def main() -> float:
        real_set()
        while not real_is_set():
            pass
        return time.monotonic()

    assert SimulatedWorld(0).run(main) == 0
    thread.join()
    assert seen["time"] > 1
    assert seen["locks"] == (type(threading.Lock()), type(threading.RLock()))


MODULE = """
import threading, time
from datetime import datetime
from time import monotonic
LOCK, RLOCK, EVENT = threading.Lock(), threading.RLock(), threading.Event()
BEGAN = monotonic()

def now(read=time.monotonic):
    with LOCK, RLOCK:
        return monotonic(), read(), datetime.now().year
"""


def test_a_module_that_is_imported_in_a_world_is_a_usual_one_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "imported_in_a_world.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))

    def main() -> Any:
        time.sleep(100)
        return importlib.import_module("imported_in_a_world").now()

    assert SimulatedWorld(0).run(main) == (100, 100, 2020)
    module = sys.modules.pop("imported_in_a_world")
    monkeypatch.setitem(sys.modules, "imported_in_a_world", module)
    assert module.BEGAN > 0
    assert module.BEGAN != 100
    assert module.monotonic is time.monotonic
    assert module.now.__defaults__ == (time.monotonic,)
    assert module.datetime is datetime.datetime
    kinds = (type(threading.Lock()), type(threading.RLock()), type(threading.Lock()))
    assert (type(module.LOCK), type(module.RLOCK), type(module.EVENT._cond._lock)) == kinds
    assert SimulatedWorld(0).run(main) == (100, 100, 2020)


def test_time_and_chance_are_the_worlds() -> None:
    def main() -> list[Any]:
        time.sleep(3600)
        return [
            time.time(),
            datetime.datetime.now(datetime.UTC),
            datetime.date.today().year,
            pickle.loads(pickle.dumps(datetime.datetime.now())),
            isinstance(datetime.datetime(2020, 1, 1), datetime.date),
            random.random(),
            random.Random().random(),
            uuid.uuid4(),
            uuid.uuid1(),
        ]

    began = time.monotonic()
    first = SimulatedWorld(5).run(main)
    assert time.monotonic() - began < 60  # not the world's hour
    assert first == SimulatedWorld(5).run(main)
    assert first[0] == 1_600_003_600
    assert first[1] == datetime.datetime(2020, 9, 13, 13, 26, 40, tzinfo=datetime.UTC)
    assert first[4] is True
    other = SimulatedWorld(6).run(main)
    assert {first[at] == other[at] for at in (5, 6, 7)} == {False}


def test_a_world_runs_once_and_not_inside_another() -> None:
    world = SimulatedWorld(0)
    world.run(lambda: None)
    with pytest.raises(SimulationError, match="runs once"):
        world.run(lambda: None)
    with pytest.raises(SimulationError, match="inside a world"):
        SimulatedWorld(0).run(lambda: SimulatedWorld(1).run(lambda: None))


def test_the_process_does_not_wait_for_what_a_crashed_instance_had_open() -> None:
    """The end of the process waited ten seconds for its state folders."""

    class Database:
        pass

    mine, left = Database(), Database()
    NATIVE_CALLS.opened(mine, "of the process")
    world = SimulatedWorld(0)

    def instance() -> None:
        NATIVE_CALLS.opened(left, "of the instance")
        time.sleep(60)

    def main() -> None:
        world.start("1", instance)
        world.sleep(1_000)
        world.crash("1")

    try:
        world.run(main)
        assert mine in NATIVE_CALLS.all_open()
        assert left not in NATIVE_CALLS.all_open()
    finally:
        NATIVE_CALLS.closed(mine)
        NATIVE_CALLS.closed(left)
