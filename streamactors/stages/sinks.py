"""Sinks that call nobody: ignore, count, to_list, head, last, cancelled, never.

Marks: count, to_list and last are done only when the stream has completed; ignore as elements pass."""

from __future__ import annotations

from typing import Any

from streamactors.engine.attributes import Attributes
from streamactors.engine.connection import Connection
from streamactors.engine.logic import Logic
from streamactors.engine.marks import EXACT
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
    """Drop every element; materializes a future that ends with the stream."""

    def logic(self) -> SinkLogic:
        return SinkLogic()


class Count(SinkStage):
    """Count the elements; materializes a future of the number."""

    def logic(self) -> SinkLogic:
        return _CountLogic()


class _CountLogic(SinkLogic):
    done_at_end = True

    def __init__(self) -> None:
        super().__init__()
        self._n = 0

    def on_chunk(self, chunk: list[Any]) -> None:
        self._n += len(chunk)

    def result(self) -> int:
        return self._n


class ToList(SinkStage):
    """Collect the elements; materializes a future of the list. Without bound: a `limit` before it gives one."""

    def logic(self) -> SinkLogic:
        return _ToListLogic()


class _ToListLogic(SinkLogic):
    done_at_end = True

    def __init__(self) -> None:
        super().__init__()
        self._elements: list[Any] = []

    def on_chunk(self, chunk: list[Any]) -> None:
        self._elements += chunk

    def result(self) -> list[Any]:
        return self._elements


class Head(SinkStage):
    """Take the first element and cancel; materializes its future.

    Fails with NoSuchElement when the stream is empty, unless there is a default."""

    def __init__(self, default: Any = _NOTHING) -> None:
        self._default = default

    def logic(self) -> SinkLogic:
        return _HeadLogic(self._default)


class _HeadLogic(SinkLogic):
    def __init__(self, default: Any) -> None:
        super().__init__()
        self._default = default

    def on_start(self) -> None:
        self.in_.want(1)

    def on_push(self, in_: Connection) -> None:
        self.succeed(in_.grab(1)[0])

    def on_complete(self, in_: Connection) -> None:
        if self._default is _NOTHING:
            self.fail_stage(NoSuchElement(f"{self.name} of an empty stream; head_option gives None instead"))
        else:
            self.succeed(self._default)


class Last(SinkStage):
    """Keep the last element; materializes its future.

    Fails with NoSuchElement when the stream is empty, unless there is a default."""

    def __init__(self, default: Any = _NOTHING) -> None:
        self._default = default

    def logic(self) -> SinkLogic:
        return _LastLogic(self._default)


class _LastLogic(SinkLogic):
    done_at_end = True

    def __init__(self, default: Any) -> None:
        super().__init__()
        self._last = default

    def on_chunk(self, chunk: list[Any]) -> None:
        self._last = chunk[-1]

    def on_complete(self, in_: Connection) -> None:
        if self._last is _NOTHING:
            self.fail_stage(NoSuchElement(f"{self.name} of an empty stream; last_option gives None instead"))
        else:
            self.succeed(self._last)


class Cancelled(SinkStage):
    """Cancel at once; materializes a future that is done."""

    def logic(self) -> SinkLogic:
        return _CancelledLogic()


class _CancelledLogic(SinkLogic):
    def on_start(self) -> None:
        self.succeed(None)


class NeverSink(SinkStage):
    """Ask for nothing, ever; materializes a future that ends if upstream does."""

    name = "never"

    def logic(self) -> SinkLogic:
        return _NeverLogic()


class _NeverLogic(SinkLogic):
    def on_start(self) -> None:
        """No demand."""
