"""Sinks that call no user function: ignore, count, to_list, head, last, cancelled, never.

Marks: count, to_list and last report them done when the stream has completed, ignore as elements arrive."""

from __future__ import annotations

from typing import Any

from streamactors.engine.attributes import Attributes
from streamactors.engine.island.connection import Connection
from streamactors.engine.logic import Logic, logic_of
from streamactors.engine.marks.marks import EXACT
from streamactors.engine.sink import SinkLogic
from streamactors.engine.stage import SINK, GraphStage
from streamactors.errors import NoSuchElement

_NOTHING: Any = object()


class SinkStage(GraphStage):
    """Base of sinks that materialize the future of their logic."""

    shape = SINK
    handling = EXACT

    def logic(self) -> SinkLogic:
        """Return a fresh logic."""
        raise NotImplementedError  # pragma: no cover

    def create(self, attributes: Attributes) -> tuple[Logic, Any]:
        logic = self.logic()
        return logic, logic.future


class Ignore(SinkStage):
    """The stage of `Sink.ignore`."""

    def logic(self) -> SinkLogic:
        return SinkLogic()


class Count(SinkStage):
    """The stage of `Sink.count`."""


@logic_of(Count)
class _CountLogic(SinkLogic):
    done_at_end = True

    def __init__(self, stage: Any) -> None:
        super().__init__(stage)
        self._n = 0

    def on_chunk(self, chunk: list[Any]) -> None:
        self._n += len(chunk)

    def result(self) -> int:
        return self._n


class ToList(SinkStage):
    """The stage of `Sink.to_list`."""


@logic_of(ToList)
class _ToListLogic(SinkLogic):
    done_at_end = True

    def __init__(self, stage: Any) -> None:
        super().__init__(stage)
        self._elements: list[Any] = []

    def on_chunk(self, chunk: list[Any]) -> None:
        self._elements += chunk

    def result(self) -> list[Any]:
        return self._elements


class Head(SinkStage):
    """The stage of `Sink.head` and `Sink.head_option`."""

    def __init__(self, default: Any = _NOTHING) -> None:
        self.default = default


@logic_of(Head)
class _HeadLogic(SinkLogic):
    stage: Head

    def on_start(self) -> None:
        self.in_.want(1)

    def on_push(self, in_: Connection) -> None:
        self.succeed(in_.grab(1)[0])

    def on_complete(self, in_: Connection) -> None:
        if self.stage.default is _NOTHING:
            self.fail_stage(NoSuchElement(f"{self.name} of an empty stream; head_option returns None instead"))
        else:
            self.succeed(self.stage.default)


class Last(SinkStage):
    """The stage of `Sink.last` and `Sink.last_option`."""

    def __init__(self, default: Any = _NOTHING) -> None:
        self.default = default


@logic_of(Last)
class _LastLogic(SinkLogic):
    done_at_end = True

    def __init__(self, stage: Last) -> None:
        super().__init__(stage)
        self._last = stage.default

    def on_chunk(self, chunk: list[Any]) -> None:
        self._last = chunk[-1]

    def on_complete(self, in_: Connection) -> None:
        if self._last is _NOTHING:
            self.fail_stage(NoSuchElement(f"{self.name} of an empty stream; last_option returns None instead"))
        else:
            self.succeed(self._last)


class Cancelled(SinkStage):
    """The stage of `Sink.cancelled`."""


@logic_of(Cancelled)
class _CancelledLogic(SinkLogic):
    def on_start(self) -> None:
        self.succeed(None)


class NeverSink(SinkStage):
    """The stage of `Sink.never`."""

    name = "never"


@logic_of(NeverSink)
class _NeverLogic(SinkLogic):
    def on_start(self) -> None:
        """No demand."""
