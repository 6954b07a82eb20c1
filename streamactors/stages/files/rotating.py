"""to_rotating_files: a sink that writes one file after the other."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from streamactors.durations import Duration
from streamactors.engine.logic import logic_of
from streamactors.engine.user_code import blame
from streamactors.errors import BuildError
from streamactors.stages.bases.cutting import named
from streamactors.stages.checks import plain_function, positive, span_ms
from streamactors.stages.files.io_result import IOResult, Path, checked_path, naming
from streamactors.stages.files.writing import WritingLogic, write_all
from streamactors.stages.sinks.values import SinkStage


class ToRotatingFiles(SinkStage):
    """The stage of `Sink.to_rotating_files`."""

    def __init__(
        self,
        path: Callable[[int], Path],
        max_bytes: int | None = None,
        every: Duration | None = None,
        when: Callable[[Any], Any] | None = None,
        append: bool = False,
        sync: bool = False,
        on_closed: Callable[[IOResult], Any] | None = None,
    ) -> None:
        self.path = plain_function("to_rotating_files: path", path)
        self.max_bytes = None if max_bytes is None else positive("to_rotating_files", "max_bytes", max_bytes)
        self.every_ms = None if every is None else span_ms("to_rotating_files", "every", every)
        self.when = None if when is None else plain_function("to_rotating_files: when", when)
        if max_bytes is None and every is None and when is None:
            raise BuildError("to_rotating_files needs a reason to begin a new file: max_bytes=, every= or when=")
        self.append = append
        self.sync = sync
        self.on_closed = None if on_closed is None else plain_function("to_rotating_files: on_closed", on_closed)


@logic_of(ToRotatingFiles)
class _RotatingLogic(WritingLogic):
    stage: ToRotatingFiles

    def __init__(self, stage: ToRotatingFiles) -> None:
        super().__init__(stage)
        self._file: Any = None
        self._path = ""
        self._size = 0  # bytes of this run in the file, those in `_unwritten` included
        self._unwritten: list[bytes] = []
        self._dirty = False
        self._results: list[IOResult] = []

    def open(self) -> None:
        """The first element makes the first file."""

    def write(self, chunk: list[Any]) -> int:
        most, when = self.stage.max_bytes, self.stage.when
        total = 0
        try:
            for element in chunk:
                size = len(memoryview(element))
                if self._file is not None and (
                    (most is not None and self._size and self._size + size > most)
                    or (when is not None and when(element))
                ):
                    self._close_file()
                if self._file is None:
                    self._open_file()
                self._unwritten.append(element)
                self._size += size
                total += size
        except TypeError as error:
            raise named(error, self.name, chunk) from None
        finally:
            self._write_out()
        return total

    def _open_file(self) -> None:
        number = len(self._results)
        self._path = os.fspath(checked_path("to_rotating_files: path", self.stage.path(number)))
        self._file = open(self._path, "ab" if self.stage.append else "xb", buffering=0)  # noqa: SIM115  # closed in on_stop
        if self.stage.every_ms is not None:
            self.schedule_once("every", self.stage.every_ms)

    def _write_out(self) -> None:
        if self._unwritten:
            data, self._unwritten = b"".join(self._unwritten), []
            write_all(self._file, data)
            self._dirty = True

    def _close_file(self) -> None:
        self._write_out()
        self.settle()
        self._file.close()
        result = IOResult(self._size, self._path)
        self._file, self._size = None, 0
        self.cancel_timer("every")
        self._results.append(result)
        if self.stage.on_closed is not None:
            self.stage.on_closed(result)

    def on_timer(self, key: object) -> None:
        if self._file is not None:
            try:
                self._close_file()
            except Exception as error:  # noqa: BLE001  # the disk's, or the user's function's
                self.fail_stage(self.wrong(error))

    def settle(self) -> None:
        if self._dirty and self.stage.sync:
            os.fsync(self._file.fileno())
        self._dirty = False

    def close(self) -> None:
        if self._file is not None:
            if self.failure is None:
                self._close_file()
            else:  # an unfinished file is not announced
                self._file.close()

    def wrong(self, error: BaseException) -> BaseException:
        return blame(naming(error, self._path, self.name), self.name)

    def result(self) -> list[IOResult]:
        return self._results
