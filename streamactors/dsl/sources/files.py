"""Constructors of Source over files and file-like objects. Blocks are byte strings, of which `.lines()` makes lines of text; rows are dicts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from streamactors.actors.futures import StreamFuture
from streamactors.clock import Duration
from streamactors.dsl.constructors import Constructors
from streamactors.engine.blueprint.modules import MatMapped, StageModule
from streamactors.engine.stage import NotUsed
from streamactors.stages.files.file_objects import StreamWriter
from streamactors.stages.files.io_result import IOResult, Path
from streamactors.stages.files.reading import BLOCK_BYTES, FromFile, FromFileObject
from streamactors.stages.files.row_sources import FromCsv, FromJsonLines
from streamactors.stages.files.tail import TailFile
from streamactors.stages.network.standard import FromStdin
from streamactors.stages.sources.queue import BackpressureQueue

if TYPE_CHECKING:
    from streamactors.dsl.kinds import Source


class FileSources(Constructors):
    """See the module."""

    __slots__ = ()

    @classmethod
    def from_file(cls, path: Path, block: int = BLOCK_BYTES) -> Source[bytes, StreamFuture[IOResult]]:
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
        return cls._of(FromCsv(path, encoding, delimiter, quote, header, fields, types))

    @classmethod
    def from_json_lines(cls, path: Path, encoding: str = "utf-8") -> Source[Any, NotUsed]:
        return cls._of(FromJsonLines(path, encoding))

    @classmethod
    def from_file_object(
        cls, file: Any | Callable[[], Any], block: int = BLOCK_BYTES
    ) -> Source[Any, StreamFuture[IOResult]]:
        return cls._of(FromFileObject(file, block))

    @classmethod
    def tail_file(
        cls, path: Path, *, from_end: bool = False, poll: Duration = "250ms", block: int = BLOCK_BYTES
    ) -> Source[bytes, NotUsed]:
        return cls._of(TailFile(path, from_end, poll, block))

    @classmethod
    def from_stdin(cls) -> Source[bytes, NotUsed]:
        return cls._of(FromStdin())

    @classmethod
    def from_writer(cls, buffer: int = 16) -> Source[bytes, StreamWriter]:
        """Emit what a thread writes to the materialized file object: each `write` is an element.

        `write` waits while `buffer` elements wait in the stream, so a thread that writes faster than the stream reads is slowed down.
        `close` completes the stream, and a `with` block closes. `io.TextIOWrapper(writer)` takes text.
        Emits when: there is demand and something was written.   Completes when: the file object is closed.
        Fails when: `fail(error)` of the file object is called.
        Materializes: the writable file object, a StreamWriter.
        """
        queue = StageModule(BackpressureQueue(buffer, 1_024))
        return cls._of(MatMapped(queue, StreamWriter))
