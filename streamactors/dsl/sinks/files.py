"""Constructors of Sink that write files and file-like objects."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from streamactors.actors.futures import StreamFuture
from streamactors.dsl.constructors import Constructors
from streamactors.dsl.typevars import T
from streamactors.durations import Duration
from streamactors.engine.blueprint.modules import MatMapped, StageModule

if TYPE_CHECKING:
    from streamactors.dsl.kinds import Sink
    from streamactors.stages.files.io_result import IOResult, Path


class FileSinks(Constructors):
    """Sinks that write files, file-like objects and the standard output."""

    __slots__ = ()

    @classmethod
    def to_file(cls, path: Path, *, append: bool = False, sync: bool = False) -> Sink[bytes, StreamFuture[IOResult]]:
        """Write byte strings to a new file, or with `append=True` at the end of one that exists.

        A new file is written beside the old one, as `path.partial`, and takes its place when the stream has completed. When the stream fails, the
        old file stays as it is, and the error names the partial file if anything is in it. So it does when a signal stops `streamactors run` before
        the sources have ended, unless one of them never ends. `append=True` writes into the file itself, so
        that others can follow it as it grows; use it for a stream without an end.
        `sync=True` has the disk confirm (fsync) before a mark is done, and at the end.
        Materializes: a future of the IOResult, the bytes written by this run, when the file is closed.
        Backpressures when: it writes.                Fails when: the file cannot be written; the error names it.
        Marks: done when the operating system has the bytes; with `sync=True`, when the disk has.

        Example:
            a -x-y-z|
            a.map(str.encode).to(Sink.to_file(path)).run()
        """
        from streamactors.stages.files.writing import ToFile

        return cls._of(ToFile(path, append, sync))

    @classmethod
    def to_lines(
        cls, path: Path, encoding: str = "utf-8", *, append: bool = False, sync: bool = False
    ) -> Sink[str, StreamFuture[IOResult]]:
        """Write strings to a file, each followed by a line end; otherwise as `to_file`.

        With `append=True` a last line without a line end gets one first, and a WARNING names it: a writer was stopped in the middle of it.

        Materializes: a future of the IOResult, the bytes written by this run, when the file is closed.
        Backpressures when: it writes.                Fails when: the file cannot be written (the error names it), or a string cannot be encoded.
        Marks: done when the operating system has the lines; with `sync=True`, when the disk has.

        Example:
            a -x-y-z|
            a.to(Sink.to_lines(path)).run()
        """
        from streamactors.stages.files.writing import ToLines

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
        """Write rows to a CSV file: dicts, dataclasses, named tuples, or sequences of values. None becomes an empty value.

        The first line names the fields: `fields`, or those of the first element; `header=False` leaves it out, and so does `append=True`
        where the file has lines already. Each row must have all of the fields and no other.
        Materializes: a future of the IOResult, the bytes written by this run, when the file is closed.
        Backpressures when: it writes.                Fails when: the file cannot be written, or an element is not such a row.
        Marks: done when the operating system has the rows; with `sync=True`, when the disk has.

        Example:
            a -1-2-3|
            a.map(lambda x: {'n': x}).to(Sink.to_csv(path)).run()
        """
        from streamactors.stages.files.row_sinks import ToCsv

        return cls._of(ToCsv(path, fields, encoding, delimiter, quote, header, append, sync))

    @classmethod
    def to_json_lines(
        cls, path: Path, *, append: bool = False, sync: bool = False
    ) -> Sink[Any, StreamFuture[IOResult]]:
        """Write each element as a line of JSON. Dataclasses and named tuples are objects; NaN cannot be written as JSON and is refused.

        Materializes: a future of the IOResult, the bytes written by this run, when the file is closed.
        Backpressures when: it writes.                Fails when: the file cannot be written, or an element cannot be written as JSON.
        Marks: done when the operating system has the lines; with `sync=True`, when the disk has.

        Example:
            a -1-2-3|
            a.map(lambda x: {'n': x}).to(Sink.to_json_lines(path)).run()
        """
        from streamactors.stages.files.row_sinks import ToJsonLines

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
        """Write byte strings to one file after the other; `path(number)` names them, from 0.

        A new file begins before an element with which the file would have more than `max_bytes` (a longer element is alone in its file);
        `every` so much time after the file was begun (seconds, a timedelta, or a string such as "1h"), also when no element comes; and
        before an element for which `when(element)` is true. A file is made with its first element. A file that exists fails the stream:
        nothing is overwritten; `append=True` writes after what is there. `on_closed(IOResult)` is called with each file that is complete.
        Materializes: a future of the list of IOResults, one a file.   Backpressures when: it writes.
        Fails when: a file cannot be written (the error names it), or a function raises.
        Marks: done when the operating system has the bytes; with `sync=True`, when the disk has.

        Example:
            a -x-y-z|
            files = lambda number: path.with_suffix(f'.{number}')
            sink = Sink.to_rotating_files(files, max_bytes=2, on_closed=lambda result: seen.append(result.count))
            a.map(str.encode).to(sink).run()
        """
        from streamactors.stages.files.rotating import ToRotatingFiles

        return cls._of(ToRotatingFiles(path, max_bytes, every, when, append, sync, on_closed))

    @classmethod
    def to_file_object(cls, file: Any | Callable[[], Any]) -> Sink[Any, StreamFuture[IOResult]]:
        """Write elements to a file-like object. A binary file takes byte strings, a text file takes strings.

        A function is called for the object in each run, and its object is closed at the end. An object that is given itself stays open.
        Materializes: a future of the IOResult, the bytes (or characters) written.   Backpressures when: `write` runs.
        Fails when: `write` raises.                   Marks: done when `write` and, where there is one, `flush` have returned.

        Example:
            a -x-y-z|
            a.map(str.encode).to(Sink.to_file_object(seen)).run()
        """
        from streamactors.stages.files.writing import ToFileObject

        return cls._of(ToFileObject(file))

    @classmethod
    def to_stdout(cls) -> Sink[bytes, StreamFuture[IOResult]]:
        """Write byte strings to this process's standard output, and flush it after each chunk.

        Materializes: a future of the IOResult.       Backpressures when: the reader of the output does not read.
        Fails when: it cannot be written, for example because its reader has ended (BrokenPipeError).
        Marks: done when the operating system has the bytes.

        Example:
            import subprocess
            import sys

            program = (
                "from streamactors import Sink, Source; "
                "Source.from_iterable([b'one ', b'two']).run_with(Sink.to_stdout()).result(5)"
            )
            print(subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60).stdout)
        """
        from streamactors.stages.network.standard import ToStdout

        return cls._of(ToStdout())

    @classmethod
    def to_reader(cls, buffer: int | None = None) -> Sink[bytes, io.BufferedReader]:
        """Give the bytes of the stream to a thread that reads a file object, for code that expects one.

        The stream is at most `buffer` elements ahead of the reader (default: a number that follows the reader). Closing the file object
        cancels the stream; a failure of the stream is raised by `read`. `io.TextIOWrapper(reader)` reads text.
        Materializes: the readable binary file object.   Backpressures when: the thread does not read.
        Marks: done when the thread reads the bytes after them.

        Example:
            from streamactors import Sink, Source

            with Source.from_iterable([b"one ", b"two"]).run_with(Sink.to_reader()) as reader:
                print(reader.read())
        """
        from streamactors.stages.files.file_objects import readable
        from streamactors.stages.sinks.pull import PullSink

        return cls._of(MatMapped(StageModule(PullSink("to_reader", buffer)), readable))
