"""Sinks that answer a question about the stream: exists, for_all, none; and take_last."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from streamactors.engine.island.connection import Connection
from streamactors.engine.logic import logic_of
from streamactors.engine.sink import SinkLogic
from streamactors.stages.checks import at_least, plain_function
from streamactors.stages.sinks.foreach import ElementwiseSinkLogic
from streamactors.stages.sinks.values import SinkStage


class Exists(SinkStage):
    """The stage of `Sink.exists`."""

    wanted = True
    """The result of the predicate that ends the stream."""
    found = True
    """The answer when the stream was ended so."""

    def __init__(self, predicate: Callable[[Any], Any]) -> None:
        self.fn = plain_function(self.label, predicate)


class ForAll(Exists):
    """The stage of `Sink.for_all`."""

    wanted = False
    found = False


class NoneMatches(Exists):
    """The stage of `Sink.none`."""

    name = "none"
    found = False


@logic_of(Exists)
class _ExistsLogic(ElementwiseSinkLogic):
    done_at_end = True
    _answer: bool | None = None

    def loop(self, feed: Any, out: list[Any], stop: list[int]) -> None:
        fn, wanted = self.fn, self.stage.wanted
        for element in feed:
            if bool(fn(element)) is wanted:
                self._answer = self.stage.found
                return
            if stop:
                return

    def on_push(self, in_: Connection) -> None:
        super().on_push(in_)
        if self._answer is not None and not self.future.done():
            self.succeed(self._answer)

    def result(self) -> bool:
        return not self.stage.found


class TakeLast(SinkStage):
    """The stage of `Sink.take_last`."""

    def __init__(self, n: int) -> None:
        self.n = at_least("take_last", "n", n, 0)


@logic_of(TakeLast)
class _TakeLastLogic(SinkLogic):
    done_at_end = True

    def __init__(self, stage: TakeLast) -> None:
        super().__init__(stage)
        self._last: deque[Any] = deque(maxlen=stage.n)

    def on_chunk(self, chunk: list[Any]) -> None:
        self._last.extend(chunk)

    def result(self) -> list[Any]:
        return list(self._last)
