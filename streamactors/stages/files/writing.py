"""to_file, to_lines and to_file_object: sinks that write what they are given, a chunk at a time."""

from __future__ import annotations

import codecs
import logging
import os
from collections.abc import Callable
from contextlib import suppress
from io import FileIO
from typing import Any

from streamactors.engine.island.connection import MAX_ASKED, Connection
from streamactors.engine.logic import logic_of
from streamactors.engine.marks.marks import Mark
from streamactors.engine.sink import SinkLogic
from streamactors.engine.user_code import blame, shortened
from streamactors.errors import AbruptTermination, BuildError, CutShort
from streamactors.stages.bases.cutting import BYTES_AHEAD, named
from streamactors.stages.files.io_result import IOResult, Path, checked_path, naming
from streamactors.stages.files.last_line import end_last_line
from streamactors.stages.files.replacing import ReplacedFile
from streamactors.stages.framing.text import checked_encoding
from streamactors.stages.sinks.values import SinkStage

_log = logging.getLogger("streamactors.stages")

Encode = Callable[[list[Any]], bytes]
"""Returns the bytes of a chunk of elements."""


class ToFile(SinkStage):
    """The stage of `Sink.to_file`."""

    def __init__(self, path: Path, append: bool = False, sync: bool = False) -> None:
        self.path = checked_path(self.label, path)
        self.append = append
        self.sync = sync

    def encoder(self, *, at_start: bool) -> Encode:
        """Return the function of one run; `at_start`: the file is empty."""
        return b"".join

    def line_end(self) -> bytes:
        """Return the bytes that end each line of the file; empty for a file without lines."""
        return b""


class ToLines(ToFile):
    """The stage of `Sink.to_lines`."""

    def __init__(self, path: Path, encoding: str = "utf-8", append: bool = False, sync: bool = False) -> None:
        super().__init__(path, append, sync)
        self.encoding = checked_encoding(self.label, encoding)

    def encoder(self, *, at_start: bool) -> Encode:
        encode = text_encoder(self.encoding, at_start=at_start)

        def lines(chunk: list[Any]) -> bytes:
            try:
                return encode("\n".join(chunk) + "\n")
            except TypeError:
                wrong = next(element for element in chunk if not isinstance(element, str))
                raise TypeError(
                    f"{self.label} expects strings, got {type(wrong).__name__} {shortened(wrong, 60)}; convert it: .map(str)"
                ) from None

        return lines

    def line_end(self) -> bytes:
        return line_end_of(self.encoding)


def line_end_of(encoding: str) -> bytes:
    """Return a line end in `encoding`, without a byte order mark."""
    return text_encoder(encoding, at_start=False)("\n")


def text_encoder(encoding: str, *, at_start: bool) -> Callable[[str], bytes]:
    """Return the encoder of one file: a byte order mark is written once, at its start."""
    encoder = codecs.getincrementalencoder(encoding)()
    if not at_start:
        encoder.setstate(0)
    return encoder.encode


class WritingLogic(SinkLogic):
    """Base of the sinks here: asks for about BYTES_AHEAD at a time. Subclasses override `open`, `write`, `close` and `settle`."""

    stage: Any
    count = 0
    _opened = False
    _width = 16

    def open(self) -> None:
        """Open the file."""
        raise NotImplementedError  # pragma: no cover

    def write(self, chunk: list[Any]) -> int:
        """Write the elements; return the number of bytes or characters."""
        raise NotImplementedError  # pragma: no cover

    def settle(self) -> None:
        """Everything written must be safe when this returns, as far as the stage promises that."""

    def close(self) -> None:
        """Close the file; may be called again."""
        raise NotImplementedError  # pragma: no cover

    def wrong(self, error: BaseException) -> BaseException:
        """Return the error to fail with."""
        return blame(error, self.name)

    # ── handlers ──────────────────────────────────────────────────────────────────────────────────────────────────

    def on_start(self) -> None:
        try:
            self.open()
        except Exception as error:  # noqa: BLE001  # the file's error, or the user's function's
            self.fail_stage(self.wrong(error))
            return
        self._opened = True
        most = self.attributes.max_chunk
        self._most = MAX_ASKED if most is None else most
        self.in_.want(min(self._width, self._most))

    def on_push(self, in_: Connection) -> None:
        chunk = in_.grab(self._width)
        if chunk:
            try:
                written = self.write(chunk)
            except Exception as error:  # noqa: BLE001  # the file's error, or an element of another type
                self.fail_stage(self.wrong(error))
                return
            self.count += written
            fitting = BYTES_AHEAD * len(chunk) // written if written else MAX_ASKED
            self._width = max(1, min(self._width * 2, fitting, MAX_ASKED))
        in_.want(min(self._width, self._most))

    def on_mark(self, in_: Connection, mark: Mark) -> None:
        try:
            self.settle()
        except OSError as error:
            self.fail_stage(self.wrong(error))
            return
        super().on_mark(in_, mark)

    def on_complete(self, in_: Connection) -> None:
        try:
            self.settle()
            self.close()
        except Exception as error:  # noqa: BLE001  # a full disk may show at the end only
            self.fail_stage(self.wrong(error))
        else:
            self.succeed(self.result())

    def result(self) -> Any:
        return IOResult(self.count)

    def on_stop(self) -> None:
        if self._opened:
            try:
                self.close()
            except Exception as error:  # noqa: BLE001  # the stream has ended otherwise
                if self.failure is None:
                    self.future.try_fail(self.wrong(error))
        super().on_stop()


def write_all(file: Any, data: bytes) -> None:
    """Write all of `data` to an unbuffered file. After an error nothing of `data` is in a regular file, so that no line is torn."""
    done = 0
    try:
        done = file.write(data)
        if done != len(data):  # a signal, or a file system that is nearly full
            rest = memoryview(data)
            while done < len(data):
                done += file.write(rest[done:])
    except OSError:
        if done:
            with suppress(OSError):  # a pipe or a device keeps what it has
                os.ftruncate(file.fileno(), os.fstat(file.fileno()).st_size - done)
        raise


@logic_of(ToFile, ToLines)
class FileLogic(WritingLogic):
    """Writes a file by its path, what the stage's encoder makes of each chunk."""

    stage: ToFile
    head_bytes = 0  # of the file's header
    _dirty = False
    _new: ReplacedFile | None = None  # the file that takes the place of the old one

    def open(self) -> None:
        if self.stage.append:
            self._file = FileIO(self.stage.path, "a")
        else:
            self._new = ReplacedFile(self.stage.path)
            self._file = self._new.file
        self.at_start = not self.stage.append or not os.fstat(self._file.fileno()).st_size
        self._encode = self.stage.encoder(at_start=self.at_start)
        line_end = self.stage.line_end()
        if line_end and not self.at_start:
            end_last_line(self._file, self.stage.path, line_end)

    def write(self, chunk: list[Any]) -> int:
        try:
            data = self._encode(chunk)
        except TypeError as error:
            raise named(error, self.name, chunk) if type(self.stage) is ToFile else error from None
        write_all(self._file, data)
        self._dirty = True
        return len(data)

    def settle(self) -> None:
        if self._dirty and self.stage.sync:
            os.fsync(self._file.fileno())
        self._dirty = False

    def close(self) -> None:
        """The stream has completed: the new file takes the place of the old one."""
        if self._new is not None:
            self._new.complete(sync=self.stage.sync)
        self._file.close()

    def on_complete(self, in_: Connection) -> None:
        if self._new is not None and self.interpreter.island.run.cut_short:
            self.fail_stage(self.wrong(CutShort("the stream was stopped before its sources had ended")))
        else:
            super().on_complete(in_)

    def _leave(self) -> str | None:
        """Leave the new file incomplete; return where it is, or None where there is none."""
        new, self._new = self._new, None
        if new is None:
            return None
        partial = new.give_up(self.head_bytes)
        path = os.fspath(self.stage.path)
        return partial and f"{path} is unchanged; what this run has written is in {partial}"

    def fail_stage(self, error: BaseException) -> None:
        if (left := self._leave()) is not None:
            error.add_note(left)
            if isinstance(error, AbruptTermination):
                self._say_where(left)  # its error is not logged when nobody reads it
        super().fail_stage(error)

    def on_stop(self) -> None:
        if (left := self._leave()) is not None:
            self._say_where(left)
        super().on_stop()

    def _say_where(self, left: str) -> None:
        _log.warning("%s: the stream was stopped before its end: %s", self.name, left)

    def wrong(self, error: BaseException) -> BaseException:
        return blame(naming(error, self.stage.path, self.name), self.name)

    def result(self) -> IOResult:
        return IOResult(self.count, os.fspath(self.stage.path))


class ToFileObject(SinkStage):
    """The stage of `Sink.to_file_object`."""

    def __init__(self, file: Any) -> None:
        if not hasattr(file, "write") and not callable(file):
            raise BuildError(
                f"to_file_object expects an object with write(data), or a function that returns one, got {type(file).__name__} "
                f"{shortened(file, 60)}; Sink.to_file takes a path"
            )
        self.file = file


@logic_of(ToFileObject)
class FileObjectLogic(WritingLogic):
    stage: ToFileObject
    _file: Any = None

    def open(self) -> None:
        given = self.stage.file
        self._file = given if hasattr(given, "write") else given()
        if not hasattr(self._file, "write"):
            raise TypeError(
                f"to_file_object: the function must return an object with write(data), got {shortened(self._file, 60)}"
            )

    def write(self, chunk: list[Any]) -> int:
        write = self._file.write
        size = 0
        for element in chunk:
            done = write(element)
            size += len(element)
            while isinstance(done, int) and 0 < done < len(element):  # a raw file may take a part
                element = element[done:]
                done = write(element)
        return size

    def settle(self) -> None:
        flush = getattr(self._file, "flush", None)
        if flush is not None:
            flush()

    def close(self) -> None:
        if self._file is not self.stage.file and self._file is not None:
            self._file.close()
