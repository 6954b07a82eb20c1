"""Sinks that call no user function: ignore, count, to_list, head, last, cancelled, never.

Marks: count, to_list and last report them done when the stream has completed, ignore as elements arrive."""

from __future__ import annotations

from typing import Any

from streamactors.engine.blueprint.attributes import Attributes
from streamactors.engine.island.connection import Connection
from streamactors.engine.island.sink import SinkLogic
from streamactors.engine.logic import Logic, logic_of
from streamactors.engine.marks.marks import EXACT
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
    """Drop every element.

    Materializes: a future that ends with the stream.   Marks: done as elements arrive.
    """

    def logic(self) -> SinkLogic:
        return SinkLogic()


class Count(SinkStage):
    """Count the elements.

    Materializes: a future of the number.               Marks: done when the stream has completed.
    """


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
    """Collect all elements, however many: put `limit(n)` before it for a bound.

    Materializes: a future of the list.                 Marks: done when the stream has completed.
    """


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
    """Take the first element and cancel.

    Materializes: a future of it; NoSuchElement when the stream is empty.
    """

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
    """Keep the last element.

    Materializes: a future of it; NoSuchElement when the stream is empty.
    Marks: done when the stream has completed.
    """

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
    """Cancel at once.

    Materializes: a future that is done.
    """


@logic_of(Cancelled)
class _CancelledLogic(SinkLogic):
    def on_start(self) -> None:
        self.succeed(None)


class NeverSink(SinkStage):
    """Never ask for an element.

    Materializes: a future that ends if upstream does.
    """

    name = "never"


@logic_of(NeverSink)
class _NeverLogic(SinkLogic):
    def on_start(self) -> None:
        """No demand."""
