"""The stages of the probes. Each carries out the calls of its probe and reports signals to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from streamactors.engine.attributes import Attributes
from streamactors.engine.island.causes import NonFailureCancellation
from streamactors.engine.island.connection import Connection
from streamactors.engine.logic import Logic, SourceLogic
from streamactors.engine.marks.marks import EXACT, Mark
from streamactors.engine.stage import SINK, SOURCE, GraphStage
from streamactors.errors import AbruptTermination
from streamactors.testing.signals import OnCancel, OnComplete, OnError, OnNext, OnRequest, OnSubscribe

if TYPE_CHECKING:
    from streamactors.testing.sink_probe import TestSinkProbe
    from streamactors.testing.source_probe import TestSourceProbe


class ProbeSource(GraphStage):
    """Materializes the probe that `make` returns, and carries out its calls."""

    shape = SOURCE
    name = "test_source_probe"

    def __init__(self, make: Callable[[], TestSourceProbe]) -> None:
        self._make = make

    def create(self, attributes: Attributes) -> tuple[Logic, Any]:
        probe = self._make()
        return _ProbeSourceLogic(probe), probe


class _ProbeSourceLogic(SourceLogic):
    def __init__(self, probe: TestSourceProbe) -> None:
        self._signals = probe._signals
        self._told = 0  # demand that the test has seen
        probe._push = self.async_callback(self._pushed)
        probe._complete = self.async_callback(lambda _: self.complete_stage())
        probe._fail = self.async_callback(self.fail_stage)

    def on_start(self) -> None:
        self._signals.clock = self.interpreter.island.run.system.clock
        self._signals.put(OnSubscribe())

    def on_pull(self, out: Connection) -> None:
        more = out.asked - self._told
        if more > 0:
            self._told += more
            self._signals.put(OnRequest(more))

    def _pushed(self, chunk: list[Any]) -> None:
        self._told = max(0, self._told - len(chunk))
        self.out.push(chunk)

    def on_cancel(self, out: Connection, cause: BaseException) -> None:
        self._signals.put(OnCancel(cause))
        super().on_cancel(out, cause)


class ProbeSink(GraphStage):
    """Materializes the probe that `make` returns, and carries out its calls."""

    shape = SINK
    name = "test_sink_probe"
    handling = EXACT

    def __init__(self, make: Callable[[], TestSinkProbe]) -> None:
        self._make = make

    def create(self, attributes: Attributes) -> tuple[Logic, Any]:
        probe = self._make()
        return _ProbeSinkLogic(probe), probe


class _ProbeSinkLogic(Logic):
    passes_marks = True

    def __init__(self, probe: TestSinkProbe) -> None:
        self._probe = probe
        self._signals = probe._signals
        self._asked = 0
        self._over = False
        probe._request = self.async_callback(self._requested)
        probe._cancel = self.async_callback(self._cancelled)

    def on_start(self) -> None:
        self._signals.clock = self.interpreter.island.run.system.clock
        self._signals.put(OnSubscribe())

    def _requested(self, n: int) -> None:
        self._asked += n
        self.inlets[0].want(self._asked)

    def _cancelled(self, cause: BaseException) -> None:
        self._over = True
        if isinstance(cause, NonFailureCancellation):
            self.interpreter.island.run.progress.sink_ended(self)
        self.inlets[0].cancel(cause)

    def on_push(self, in_: Connection) -> None:
        chunk = in_.grab(self._asked)
        self._asked -= len(chunk)
        for element in chunk:
            self._signals.put(OnNext(element))
        in_.want(self._asked)

    def on_mark(self, in_: Connection, mark: Mark) -> None:
        self._probe.marks.append(mark)
        self.interpreter.island.run.progress.done(self, mark)

    def on_complete(self, in_: Connection) -> None:
        self._over = True
        self.interpreter.island.run.progress.sink_ended(self)
        self._signals.put(OnComplete())

    def fail_stage(self, error: BaseException) -> None:
        if not self._over:
            self._over = True
            self._signals.put(OnError(error))
        super().fail_stage(error)

    def on_stop(self) -> None:
        if not self._over:
            self._signals.put(OnError(AbruptTermination("the probe's stream was stopped")))
