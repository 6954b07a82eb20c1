"""Operators that only look on: log, watch_termination. Marks pass at once and exactly."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any

from streamactors.actors.futures import StreamFuture
from streamactors.engine.attributes import Attributes
from streamactors.engine.causes import propagate_failure
from streamactors.engine.connection import Connection
from streamactors.engine.logic import Logic
from streamactors.engine.marks import EXACT
from streamactors.engine.stage import In, Stage
from streamactors.engine.user_code import shortened
from streamactors.errors import AbruptTermination, BuildError
from streamactors.stages.calling import CallingLogic
from streamactors.stages.checks import plain_function
from streamactors.stages.passing import PassingLogic

LOGGER = "streamactors.stream"


class Log(Stage[In, In]):
    """Write elements, completion and cancellation to a logger at `level` (DEBUG), a failure at ERROR.

    `extract(element)` gives what is written for an element, by default the element itself.
    Emits when: upstream does.                    Backpressures when: downstream does.
    Completes when: upstream completes.           Cancels when: downstream cancels.
    Supervision: resume and restart drop an element for which `extract` raised.
    Marks: at once, exact.
    """

    handling = EXACT

    def __init__(
        self,
        name: str,
        extract: Callable[[Any], Any] | None = None,
        level: int = logging.DEBUG,
        logger: logging.Logger | None = None,
    ) -> None:
        if not isinstance(name, str):
            raise BuildError(f"log expects a name, got {type(name).__name__} {shortened(name, 60)}")
        if isinstance(level, bool) or not isinstance(level, int):
            raise BuildError(f"log: level must be a number such as logging.INFO, got {shortened(level, 60)}")
        self._text = name
        self._extract = extract if extract is None else plain_function("log", extract)
        self._level = level
        self._logger = logger if logger is not None else logging.getLogger(LOGGER)

    def logic(self) -> Logic:
        return _LogLogic(self._text, self._extract, self._level, self._logger)


class _LogLogic(CallingLogic):
    def __init__(self, name: str, extract: Callable[[Any], Any] | None, level: int, logger: logging.Logger) -> None:
        self.fn: Any = extract
        self._text = name
        self._level = level
        self._logger = logger

    def loop(self, feed: Iterator[Any], out: list[Any], stop: list[int]) -> None:
        logger = self._logger
        level = self._level
        if not logger.isEnabledFor(level):
            out.extend(feed)
            return
        extract = self.fn
        for element in feed:
            logger.log(level, "[%s] element: %s", self._text, element if extract is None else extract(element))
            out.append(element)
            if stop:
                return

    def on_complete(self, in_: Connection) -> None:
        self._logger.log(self._level, "[%s] completed", self._text)
        self.complete_stage()

    def on_fail(self, in_: Connection, error: BaseException) -> None:
        self._logger.error("[%s] failed: %s: %s", self._text, type(error).__name__, error, exc_info=error)
        self.fail_stage(error)

    def on_cancel(self, out: Connection, cause: BaseException) -> None:
        self._logger.log(self._level, "[%s] cancelled: %s", self._text, cause)
        self.cancel_stage(cause)


class WatchTermination(Stage[In, In]):
    """Pass everything; materialize a future that tells how the stream ended at this place.

    The future is None when upstream completed or downstream cancelled, and fails when either failed.
    Emits when: upstream does.                    Backpressures when: downstream does.
    Completes when: upstream completes.           Cancels when: downstream cancels.
    Marks: at once, exact.
    """

    handling = EXACT

    def create(self, attributes: Attributes) -> tuple[Logic, Any]:
        logic = _WatchTerminationLogic()
        return logic, logic.future


class _WatchTerminationLogic(PassingLogic):
    def __init__(self) -> None:
        self.future: StreamFuture[None] = StreamFuture("watch_termination")

    def on_complete(self, in_: Connection) -> None:
        self.complete_stage()
        self.future.try_complete(None)

    def fail_stage(self, error: BaseException) -> None:
        super().fail_stage(error)
        self.future.try_fail(error)

    def on_cancel(self, out: Connection, cause: BaseException) -> None:
        error = (self.attributes.cancellation or propagate_failure)(cause)
        self.cancel_stage(cause)
        if error is None:
            self.future.try_complete(None)
        else:
            self.future.try_fail(error)

    def on_stop(self) -> None:
        self.future.try_fail(AbruptTermination(f"stage {self.name} was stopped before its stream ended"))
