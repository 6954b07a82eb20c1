"""Operators that observe a stream without changing it: log, watch_termination. Marks pass at once and exactly."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any

from streamactors.actors.futures import StreamFuture
from streamactors.engine.attributes import Attributes
from streamactors.engine.island.causes import propagate_failure
from streamactors.engine.island.connection import Connection
from streamactors.engine.logic import Logic, logic_of
from streamactors.engine.marks.marks import EXACT
from streamactors.engine.stage import In, Stage
from streamactors.engine.user_code import shortened
from streamactors.errors import AbruptTermination, BuildError
from streamactors.stages.bases.elementwise import ElementwiseLogic
from streamactors.stages.bases.passing import PassingLogic
from streamactors.stages.checks import plain_function

LOGGER = "streamactors.stream"


class Log(Stage[In, In]):
    """The stage of `Source.log`."""

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
        self.text = name
        self.fn = extract if extract is None else plain_function("log", extract)
        self.level = level
        self.logger = logger if logger is not None else logging.getLogger(LOGGER)


@logic_of(Log)
class _LogLogic(ElementwiseLogic):
    stage: Log[Any]

    def loop(self, feed: Iterator[Any], out: list[Any], stop: list[int]) -> None:
        logger = self.stage.logger
        level = self.stage.level
        if not logger.isEnabledFor(level):
            out.extend(feed)
            return
        extract = self.fn
        for element in feed:
            logger.log(level, "[%s] element: %s", self.stage.text, element if extract is None else extract(element))
            out.append(element)
            if stop:
                return

    def on_complete(self, in_: Connection) -> None:
        self.stage.logger.log(self.stage.level, "[%s] completed", self.stage.text)
        self.complete_stage()

    def on_fail(self, in_: Connection, error: BaseException) -> None:
        self.stage.logger.error("[%s] failed: %s: %s", self.stage.text, type(error).__name__, error, exc_info=error)
        self.fail_stage(error)

    def on_cancel(self, out: Connection, cause: BaseException) -> None:
        self.stage.logger.log(self.stage.level, "[%s] cancelled: %s", self.stage.text, cause)
        self.cancel_stage(cause)


class WatchTermination(Stage[In, In]):
    """The stage of `Source.watch_termination`."""

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
