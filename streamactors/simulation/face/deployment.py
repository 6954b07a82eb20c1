"""The instances of the pipelines of one run: each is a process of its own to the pipeline, with a supervisor that starts it again.

Owner: the simulation of one run; faults crash, pause and scale instances through it. An instance whose main function fails is started again
after a second, as a supervisor of processes does; one whose main function returns has ended."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Final

from streamactors.dsl.runnable import RunnableGraph
from streamactors.errors import StreamActorsError
from streamactors.kafka.controls.control import Control
from streamactors.kafka.controls.draining_control import DrainingControl
from streamactors.kafka.controls.supervised import SupervisedRun

if TYPE_CHECKING:
    from streamactors.simulation.face.parts import Parts

BACKOFF_MS: Final = 1_000.0
"""The supervisor waits so long before it starts an instance again."""
MOST_STARTS: Final = 30
"""An instance that failed so often without an effect or a record in between does not work at all."""
MOST_AT_END: Final = 5
"""As MOST_STARTS, in the end: faults are over then."""
DRAIN_MS: Final = 60_000.0
"""An instance that leaves may take so long, then it is killed."""
RUNS, PAUSED, DOWN, LEFT = "runs", "paused", "down", "left"


class _Instance:
    """One instance. `stops`: what ends it in order, besides a crash."""

    def __init__(self, name: str, pipeline: Callable[[], Any]) -> None:
        self.name = name
        self.pipeline = pipeline
        self.state = DOWN
        self.stops: list[Callable[[], object]] = []
        self.failed = 0
        self.error: BaseException | None = None


class Deployment:
    """The instances, by the names "1", "2", …, or "NAME-1" for a deployment with a name."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._world = parts.world
        self._all: dict[str, _Instance] = {}
        self._pipelines: dict[str, Callable[[], Any]] = {}
        self.drained_ms: list[tuple[str, float, bool]] = []
        """(instance, how long it took to leave, whether it left by itself)."""
        self._world.trace.heard.append(self._heard)

    def _heard(self, event: Any) -> None:
        if event.kind in ("effect", "produced"):
            found = self._all.get(event.instance)
            if found is not None:
                found.failed = 0

    # --- what a test does ---

    def deploy(self, name: str, pipeline: Callable[[], Any], instances: int) -> None:
        """Start instances of a pipeline. Raises StreamActorsError for a name that is taken."""
        if name in self._pipelines:
            raise StreamActorsError(
                f"deploy: a pipeline named {name!r} runs already; give each a name: deploy(…, name='billing')"
            )
        self._pipelines[name] = pipeline
        self.scale(name, instances)

    def scale(self, name: str, instances: int) -> None:
        """Let so many instances of a pipeline run: new ones join, the last ones leave. Returns when these have left."""
        if name not in self._pipelines:
            raise StreamActorsError(f"scale: no pipeline named {name!r} runs; deploy it first")
        members = self._members(name)
        for each in members[instances:]:
            self.leave(each)
        for _ in range(instances - len(members)):
            self.join(name)

    def _members(self, name: str) -> list[str]:
        prefix = f"{name}-" if name else ""
        return [
            each.name
            for each in self._all.values()
            if each.state != LEFT and each.name.startswith(prefix) and each.name[len(prefix) :].isdigit()
        ]

    # --- what faults do, too ---

    def instances(self) -> list[str]:
        """Return the names of the instances that have not left."""
        return [each.name for each in self._all.values() if each.state != LEFT]

    def is_running(self, name: str) -> bool:
        """Return whether an instance runs, paused or not."""
        return self._all[name].state in (RUNS, PAUSED)

    def join(self, name: str = "") -> str:
        """Start one more instance of a pipeline; return its name."""
        prefix = f"{name}-" if name else ""
        number = 1
        while f"{prefix}{number}" in self._all and self._all[f"{prefix}{number}"].state != LEFT:
            number += 1
        pipeline = self._pipelines[name]
        made = self._all[f"{prefix}{number}"] = _Instance(f"{prefix}{number}", pipeline)
        self._start(made)
        return made.name

    def crash(self, name: str, *, torn: bool = False) -> None:
        """Kill an instance. Does not return in a task of it. Nobody starts it again by itself: call `restart`."""
        found = self._all[name]
        if found.state in (RUNS, PAUSED):
            found.state = DOWN
            self._world.crash(name, torn=torn)

    def restart(self, name: str) -> None:
        """Start an instance that is down; do nothing for another."""
        found = self._all[name]
        if found.state == DOWN:
            self._start(found)

    def pause(self, name: str) -> None:
        """Let an instance not run until `resume`."""
        found = self._all[name]
        if found.state == RUNS:
            found.state = PAUSED
            self._world.pause(name)

    def resume(self, name: str) -> None:
        """Let a paused instance run."""
        found = self._all[name]
        if found.state == PAUSED:
            found.state = RUNS
            self._world.resume(name)

    def lose_disk(self, name: str) -> None:
        """Crash an instance and empty its disk."""
        self.crash(name)
        self._world.lose_disk(name)

    def shift_clock(self, name: str, ms: float) -> None:
        """Move the wall clock of an instance."""
        self._world.shift_clock(name, ms)

    def leave(self, name: str) -> None:
        """Ask an instance to end, as SIGTERM does, and wait until it has; kill it when it takes too long."""
        found = self._all[name]
        self.resume(name)
        begin = self._world.now_ms()
        if found.state == RUNS and found.stops:
            for stop in found.stops:
                self._world.start(name, stop)
            self._world.wait(lambda: found.state != RUNS, DRAIN_MS)
        by_itself = found.state != RUNS
        self.drained_ms.append((name, self._world.now_ms() - begin, by_itself))
        if not by_itself:
            self.crash(name)
        found.state = LEFT

    def on_stop(self, stop: Callable[[], object]) -> None:
        """Call `stop()` when the calling instance is asked to end."""
        found = self._all.get(self._world.instance())
        if found is None:
            raise StreamActorsError("on_stop: call it in a pipeline that is deployed")
        found.stops.append(stop)

    def everything_up(self) -> None:
        """Resume and start all instances that have not left."""
        for name in self.instances():
            self.resume(name)
            self.restart(name)

    def end(self) -> None:
        """Kill all instances: the run is over."""
        for found in self._all.values():
            if found.state in (RUNS, PAUSED):
                found.state = LEFT
                self._world.crash(found.name)

    def errors(self) -> list[str]:
        """Return the last error of each instance that has failed."""
        return [
            f"instance {each.name} stopped with {type(each.error).__name__}: {each.error}"
            for each in self._all.values()
            if each.error is not None
        ]

    def look(self) -> None:
        """Break the run if an instance fails whenever it is started."""
        for found in self._all.values():
            if found.failed >= MOST_AT_END:
                self._does_not_work(found)

    def _does_not_work(self, found: _Instance) -> None:
        error = f"{type(found.error).__name__}: {found.error}"
        text = f"instance {found.name} failed {found.failed} times one after the other, at last with {error}"
        raise self._parts.broke("starts", text)

    # --- one instance ---

    def _start(self, found: _Instance) -> None:
        found.state = RUNS
        found.stops = []
        self._world.start(found.name, lambda: self._main(found))

    def _main(self, found: _Instance) -> None:
        try:
            self._run(found)
        except Exception as error:  # noqa: BLE001  # the process ends with it, whatever it is
            found.state = DOWN
            self._has_failed(found, error)
        else:
            found.state = LEFT
            self._world.event("stopped", of=found.name, error=None)
        self._world.stop(found.name)

    def _run(self, found: _Instance) -> None:
        value = found.pipeline()
        if inspect.iscoroutine(value):
            value = asyncio.run(value)
        if isinstance(value, RunnableGraph):
            with SupervisedRun(value, found.name) as running:
                found.stops.append(running.stop)
                running.wait()
                if running.error is not None:
                    raise running.error
            return
        for part in value if isinstance(value, tuple) else (value,):
            if isinstance(part, DrainingControl):
                found.stops.append(part.drain_and_shutdown)
                part.is_shutdown.result()
            elif isinstance(part, Control):
                found.stops.append(part.shutdown)
                part.is_shutdown.result()
            elif isinstance(part, Future):
                part.result()

    def _has_failed(self, found: _Instance, error: BaseException) -> None:
        found.error = error
        found.failed += 1
        self._world.event("stopped", of=found.name, error=f"{type(error).__name__}: {error}")
        if found.failed >= MOST_STARTS:
            self._does_not_work(found)
        self._world.later(BACKOFF_MS, lambda: self.restart(found.name), f"{found.name} starts again")
