"""Constructors of Sink that write files and file-like objects."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from streamactors.actors.futures import StreamFuture
from streamactors.clock import Duration
from streamactors.dsl.constructors import Constructors
from streamactors.dsl.typevars import T
from streamactors.engine.blueprint.modules import MatMapped, StageModule
from streamactors.stages.files.file_objects import readable
from streamactors.stages.files.io_result import IOResult, Path
from streamactors.stages.files.rotating import ToRotatingFiles
from streamactors.stages.files.row_sinks import ToCsv, ToJsonLines
from streamactors.stages.files.writing import ToFile, ToFileObject, ToLines
from streamactors.stages.network.standard import ToStdout
from streamactors.stages.sinks.pull import PullSink

if TYPE_CHECKING:
    from streamactors.dsl.kinds import Sink


class FileSinks(Constructors):
    """See the module."""

    __slots__ = ()

    @classmethod
    def to_file(cls, path: Path, *, append: bool = False, sync: bool = False) -> Sink[bytes, StreamFuture[IOResult]]:
        return cls._of(ToFile(path, append, sync))

    @classmethod
    def to_lines(
        cls, path: Path, encoding: str = "utf-8", *, append: bool = False, sync: bool = False
    ) -> Sink[str, StreamFuture[IOResult]]:
        return cls._of(ToLines(path, encoding, append, sync))

    @classmethod
    def to_csv(
        cls,
        path: Path,
        fields: Sequence[str] | None = None,
        *,
        encoding: str = "utf-8",
        delimiter: str = ",",
        quote: str = '"',
        header: bool = True,
        append: bool = False,
        sync: bool = False,
    ) -> Sink[Any, StreamFuture[IOResult]]:
        return cls._of(ToCsv(path, fields, encoding, delimiter, quote, header, append, sync))

    @classmethod
    def to_json_lines(
        cls, path: Path, *, append: bool = False, sync: bool = False
    ) -> Sink[Any, StreamFuture[IOResult]]:
        return cls._of(ToJsonLines(path, append, sync))

    @classmethod
    def to_rotating_files(
        cls,
        path: Callable[[int], Path],
        *,
        max_bytes: int | None = None,
        every: Duration | None = None,
        when: Callable[[T], object] | None = None,
        append: bool = False,
        sync: bool = False,
        on_closed: Callable[[IOResult], object] | None = None,
    ) -> Sink[T, StreamFuture[list[IOResult]]]:
        return cls._of(ToRotatingFiles(path, max_bytes, every, when, append, sync, on_closed))

    @classmethod
    def to_file_object(cls, file: Any | Callable[[], Any]) -> Sink[Any, StreamFuture[IOResult]]:
        return cls._of(ToFileObject(file))

    @classmethod
    def to_stdout(cls) -> Sink[bytes, StreamFuture[IOResult]]:
        return cls._of(ToStdout())

    @classmethod
    def to_reader(cls, buffer: int | None = None) -> Sink[bytes, io.BufferedReader]:
        """Give the bytes of the stream to a thread that reads a file object, for code that expects one.

        The stream is at most `buffer` elements ahead of the reader (default: a number that follows the reader). Closing the file object
        cancels the stream; a failure of the stream is raised by `read`. `io.TextIOWrapper(reader)` reads text.
        Materializes: the readable binary file object.   Backpressures when: the thread does not read.
        Marks: done when the thread reads the bytes behind them.
        """
        return cls._of(MatMapped(StageModule(PullSink("to_reader", buffer)), readable))
