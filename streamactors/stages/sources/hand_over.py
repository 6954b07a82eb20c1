"""HandOver: a source of another run's elements, read through the ChunkReader that the other run has materialized."""

from __future__ import annotations

import threading
from typing import Any

from streamactors.engine.island.causes import NonFailureCancellation
from streamactors.engine.island.connection import Connection
from streamactors.engine.logic import Logic, SourceLogic
from streamactors.engine.stage import SOURCE, GraphStage
from streamactors.errors import BuildError
from streamactors.stages.bases.pull import END, ChunkReader


class HandOver(GraphStage):
    """Emit the elements of a ChunkReader. It can run once, because the elements are those of one run.

    Emits when: the other run has an element.     Completes when: the other run does.
    Fails when: the other run does.               Cancels when: downstream does; that cancels the other run.
    """

    shape = SOURCE
    name = "pre_materialized"

    def __init__(self, reader: ChunkReader[Any]) -> None:
        self.reader = reader
        self._lock = threading.Lock()
        self._used = False

    def logic(self) -> Logic:
        with self._lock:
            if self._used:
                raise BuildError("a pre-materialized source can run only once, and it has been started before")
            self._used = True
        return _HandOverLogic(self)


class _HandOverLogic(SourceLogic):
    def __init__(self, stage: HandOver) -> None:
        super().__init__(stage)
        self._rest: list[Any] = []
        self._listening = False

    def on_start(self) -> None:
        self._wake = self.async_callback(self._ready)
        self._listen()  # the end may come without demand

    def _listen(self) -> None:
        if not self._listening:
            self._listening = True
            self.stage.reader.when_ready(lambda: self._wake.invoke(None))

    def _ready(self, _: None) -> None:
        self._listening = False
        self.on_pull(self.out)

    def on_pull(self, out: Connection) -> None:
        while True:
            if self._rest:
                if not out.can_push:
                    return
                chunk, self._rest = self._rest[: out.asked], self._rest[out.asked :]
                out.push(chunk)
                continue
            chunk = self.stage.reader.take()
            if chunk is None:
                self._listen()
                return
            if chunk is END:
                self.complete_stage()
                return
            self._rest = chunk

    def on_cancel(self, out: Connection, cause: BaseException) -> None:
        self.stage.reader.cancel(None if isinstance(cause, NonFailureCancellation) else cause)
        super().on_cancel(out, cause)

    def on_stop(self) -> None:
        self.stage.reader.cancel()

    def snapshot_state(self) -> str:
        return f"{len(self._rest)} held"
