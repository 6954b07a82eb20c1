"""The command around a graph: when the graph has ended, with which error, and how it is asked to end.

Owner: `streamactors run`. Behind every source of the graph come a kill switch and a watcher; a source that materializes a Control
is stopped by that, whatever the graph makes of its materialized value. A source has mostly ended when a later stage fails with what
it had sent, so a watcher comes before every sink, too, and what a sink materializes is kept, whatever the graph makes of it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent import futures
from concurrent.futures import Future
from typing import Any, Self

from streamactors.actors.system import ActorSystem
from streamactors.dsl.runnable import RunnableGraph
from streamactors.engine.blueprint.modules import Attributed, Joined, MatMapped, Module, StageModule, Wired, keep_both
from streamactors.engine.island.run import runs_of, when_idle
from streamactors.errors import AbruptTermination
from streamactors.kafka.controls.control import Control
from streamactors.stages.control.kill_switch import KillSwitch, KillSwitchStage
from streamactors.stages.watching.observing import WatchTermination


class SupervisedRun:
    """One run, in an actor system of its own. A context manager; at its end what still runs is aborted.

    `member`: the number of this process where several processes run the graph as members of one group. `prepare` is called with the system
    before the run begins."""

    def __init__(
        self,
        graph: RunnableGraph[Any],
        member: str | None = None,
        prepare: Callable[[ActorSystem], object] = lambda system: None,
    ) -> None:
        self.controls: list[Control] = []
        self.stopping = False
        """True when `stop` was called."""
        self.cut_short = False
        """True when `stop` has ended a source that would have ended by itself."""
        self._switches: list[KillSwitch] = []
        self._sources: list[Future[Any]] = []
        self._futures: list[Future[Any]] = []
        self._queries: list[Future[Any]] = []
        self._ended = threading.Event()
        self._system = ActorSystem("run")
        self._system.member = member
        prepare(self._system)
        self.graph: RunnableGraph[Any] = RunnableGraph(self._held(graph.module))
        value: Any = self.graph.run(self._system)
        self._keep(value)
        when_idle(self._system, self._look)
        self._look()

    def _look(self) -> None:
        if not runs_of(self._system):
            self._ended.set()

    def wait(self, timeout: float | None = None) -> bool:
        """Return whether the stream, its consumers and its queries ended within `timeout` seconds."""
        if not self._ended.wait(timeout):
            return False
        # the last commit, and Spark's last batch, come after the last stage
        outside = [*(control.is_shutdown for control in self.controls), *self._queries]
        return not futures.wait(outside, timeout).not_done

    @property
    def system(self) -> ActorSystem:
        """The system of the run."""
        return self._system

    def stop(self) -> None:
        """Stop every source; the elements in flight are finished. Idempotent.

        A run whose sources would have ended by themselves is cut short: sinks that replace a file leave the old one."""
        self.stopping = True
        if not all(ended.done() for ended in self._sources):
            for run in runs_of(self._system):
                if not run.endless:
                    run.cut_short = self.cut_short = True
        for control in self.controls:
            control.stop()
        for switch in self._switches:
            switch.shutdown()

    @property
    def error(self) -> BaseException | None:
        """The error of the run; None if it ended well, or has not ended."""
        every = [*(control.is_shutdown for control in self.controls), *self._futures]
        # all are read: a failure that is left in a future would be logged as an unread one
        errors = [future.exception() for future in every if future.done() and not future.cancelled()]
        return next((error for error in errors if error is not None and not isinstance(error, AbruptTermination)), None)

    def _held(self, module: Module) -> Module:
        """Return the module with a handle after every source."""
        spine = []  # The modules of a long chain are nested on the left, too deeply for recursion.
        while isinstance(module, (Joined, Attributed, MatMapped)):
            spine.append(module)
            module = module.left if isinstance(module, Joined) else module.inner
        held = self._held_leaf(module)
        for outer in reversed(spine):
            if isinstance(outer, Joined):
                held = Joined(held, self._held(outer.right), outer.combine)
            elif isinstance(outer, Attributed):
                held = Attributed(held, outer.attributes)
            else:
                held = MatMapped(held, outer.fn)
        return held

    def _held_leaf(self, module: Module) -> Module:
        if isinstance(module, Wired):
            parts = tuple(map(self._held, module.parts))
            return Wired(parts, module.wires, module.inlets, module.outlets, module.combine)
        if not module.shape.outlets:
            return self._held_sink(module)
        if module.shape.inlets or len(module.shape.outlets) != 1:
            return module
        switched = Joined(module, StageModule(KillSwitchStage()), keep_both)
        return MatMapped(Joined(switched, StageModule(WatchTermination()), keep_both), self._hold)

    def _held_sink(self, sink: Module) -> Module:
        kept = MatMapped(sink, self._keep)
        if len(sink.shape.inlets) != 1:
            return kept
        return MatMapped(Joined(StageModule(WatchTermination()), kept, keep_both), self._hold_sink)

    def _hold_sink(self, values: Any) -> Any:
        ended, value = values
        self._futures.append(ended)
        return value

    def _keep(self, value: Any) -> Any:
        """Collect the futures in a materialized value that may report a failure, or that end after the stream."""
        queries = list(_ends_in(value))
        self._queries += queries
        self._futures += [*_futures_in(value), *queries]
        return value

    def _hold(self, values: Any) -> Any:
        (value, switch), ended = values
        self._futures.append(ended)
        self._sources.append(ended)
        if isinstance(value, Control):
            self.controls.append(value)
        else:
            self._switches.append(switch)
        return value

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._system.shutdown(quiet=True)


def _futures_in(value: Any) -> Iterator[Future[Any]]:
    """Yield the futures in a materialized value: the value itself, and the futures in its tuples and lists."""
    if isinstance(value, Future):
        yield value
    elif isinstance(value, (tuple, list)):
        for each in value:
            yield from _futures_in(each)


def _ends_in(value: Any) -> Iterator[Future[Any]]:
    """Yield how Spark queries in a materialized value end: with their last batch, after the stream."""
    end = getattr(value, "completion", None)
    if isinstance(end, Future):
        yield end
    elif isinstance(value, (tuple, list)):
        for each in value:
            yield from _ends_in(each)
