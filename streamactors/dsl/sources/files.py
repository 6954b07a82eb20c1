"""Constructors of Source over files and file-like objects. Blocks are byte strings, of which `.lines()` makes lines of text; rows are dicts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from streamactors.actors.futures import StreamFuture
from streamactors.dsl.constructors import Constructors
from streamactors.durations import Duration
from streamactors.engine.blueprint.modules import MatMapped, StageModule
from streamactors.engine.stage import NotUsed
from streamactors.stages.defaults import BLOCK_BYTES

if TYPE_CHECKING:
    from streamactors.dsl.kinds import Source
    from streamactors.stages.files.file_objects import StreamWriter
    from streamactors.stages.files.io_result import IOResult, Path


class FileSources(Constructors):
    """Constructors of sources that read files, file-like objects and the standard input."""

    __slots__ = ()

    @classmethod
    def from_file(cls, path: Path, block: int = BLOCK_BYTES) -> Source[bytes, StreamFuture[IOResult]]:
        """Emit the bytes of a file, in blocks of `block` bytes; the last may be shorter. Can be replayed by block (`with_replay`).

        Emits when: there is demand and a block was read.   Completes when: the file ends.
        Fails when: the file cannot be read; the error names it.
        Materializes: a future of the IOResult, the bytes read by the end; it fails when the stream does.

        Example:
            path.write_bytes(b'abcdef')
            Source.from_file(path, block=4)
        """
        from streamactors.stages.files.reading import FromFile

        return cls._of(FromFile(path, block))

    @classmethod
    def from_csv(
        cls,
        path: Path,
        encoding: str = "utf-8",
        *,
        delimiter: str = ",",
        quote: str = '"',
        header: bool = True,
        fields: Sequence[str] | None = None,
        types: Mapping[str, Callable[[str], Any]] | None = None,
    ) -> Source[Any, NotUsed]:
        r"""Emit the rows of a CSV file: dicts by the names in its first line, or by `fields` where the file has no such line; with
        `header=False` alone, lists. Values are strings, except in the fields for which `types` has a function. Can be replayed by row
        (`with_replay`).

        A quoted value may hold delimiters, doubled quotes and line ends. Empty lines are skipped. Files of gzip, bzip2 and xz are decompressed.
        Emits when: there is demand and a row was read.   Completes when: the file ends.
        Fails when: the file cannot be read or decoded, or a row does not have the fields of the others (FramingError, with file and line).

        Example:
            path.write_text('a,b\n1,2\n')
            Source.from_csv(path)
        """
        from streamactors.stages.files.row_sources import FromCsv

        return cls._of(FromCsv(path, encoding, delimiter, quote, header, fields, types))

    @classmethod
    def from_json_lines(cls, path: Path, encoding: str = "utf-8") -> Source[Any, NotUsed]:
        r"""Emit the values of a file that has one JSON value a line. Empty lines are skipped. Files of gzip, bzip2 and xz are decompressed.
        Can be replayed by value (`with_replay`).

        Emits when: there is demand and a line was read.   Completes when: the file ends.
        Fails when: the file cannot be read or decoded, or a line is not JSON (FramingError, with file and line).

        Example:
            path.write_text('[1]\n[2]\n')
            Source.from_json_lines(path)
        """
        from streamactors.stages.files.row_sources import FromJsonLines

        return cls._of(FromJsonLines(path, encoding))

    @classmethod
    def from_file_object(
        cls, file: Any | Callable[[], Any], block: int = BLOCK_BYTES
    ) -> Source[Any, StreamFuture[IOResult]]:
        """Emit what a file-like object reads, `block` bytes (characters, of a text file) at a time.

        A function is called for the object in each run, and its object is closed at the end. An object that is given itself can be read by
        one run, and stays open.
        Emits when: there is demand and `read` has returned.   Completes when: `read` returns nothing.
        Fails when: `read` raises.
        Materializes: a future of the IOResult, the number of bytes or characters by the end; it fails when the stream does.

        Example:
            Source.from_file_object(io.BytesIO(b'abcdef'), block=4)
        """
        from streamactors.stages.files.reading import FromFileObject

        return cls._of(FromFileObject(file, block))

    @classmethod
    def tail_file(
        cls, path: Path, *, from_end: bool = False, poll: Duration = "250ms", block: int = BLOCK_BYTES
    ) -> Source[bytes, NotUsed]:
        r"""Emit the bytes of a file, and then those that are written after them, without end; `.lines()` makes lines of them.

        The file is looked at every `poll` (seconds, a timedelta, or a string such as "1s") while nothing new is in it. A file that does not exist yet
        is waited for. When another file has taken its place (a log that was rotated), the rest of the old file comes first, then the
        new file from its beginning. A file that was cut to a shorter length is read from its beginning again.
        Emits when: there is demand and there are new bytes.   Completes when: never; a kill switch or `take_until` ends it.
        Fails when: the file cannot be read; the error names it.

        Example:
            path.write_bytes(b'x\ny\n')
            Source.tail_file(path).lines().take(2)
        """
        from streamactors.stages.files.tail import TailFile

        return cls._of(TailFile(path, from_end, poll, block))

    @classmethod
    def from_stdin(cls) -> Source[bytes, NotUsed]:
        r"""Emit the bytes of this process's standard input; `.lines()` makes lines of them.

        Emits when: there is demand and bytes have come.   Completes when: standard input ends.
        Fails when: it cannot be read. One run at a time should read it.

        Example:
            import subprocess
            import sys

            program = (
                "from streamactors import Sink, Source; "
                "print(Source.from_stdin().lines().run_with(Sink.to_list()).result(5))"
            )
            ran = subprocess.run([sys.executable, "-c", program], input="one\ntwo\n", capture_output=True, text=True, timeout=60)
            print(ran.stdout)
        """
        from streamactors.stages.network.standard import FromStdin

        return cls._of(FromStdin())

    @classmethod
    def from_writer(cls, buffer: int = 16) -> Source[bytes, StreamWriter]:
        """Emit what a thread writes to the materialized file object: each `write` is an element.

        `write` waits while `buffer` elements wait in the stream, so a thread that writes faster than the stream reads is slowed down.
        `close` completes the stream, and a `with` block closes. `io.TextIOWrapper(writer)` takes text.
        Emits when: there is demand and something was written.   Completes when: the file object is closed.
        Fails when: `fail(error)` of the file object is called.
        Materializes: the writable file object, a StreamWriter.

        Example:
            a -x-y|
            writer, written = Source.from_writer().pre_materialize(system)
            a.run_with(Sink.foreach(lambda x: writer.write(x.encode()))).add_done_callback(lambda done: writer.close())
            written
        """
        from streamactors.stages.files.file_objects import StreamWriter
        from streamactors.stages.sources.queue import BackpressureQueue

        queue = StageModule(BackpressureQueue(buffer, 1_024))
        return cls._of(MatMapped(queue, StreamWriter))
