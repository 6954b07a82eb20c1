"""from_file and from_file_object: sources of the blocks of a file."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from typing import Any

from streamactors.actors.futures import StreamFuture
from streamactors.engine.attributes import Attributes
from streamactors.engine.fusing.source import FeedLogic
from streamactors.engine.logic import Logic
from streamactors.engine.stage import SOURCE, GraphStage
from streamactors.engine.stage_traits import StageTraits
from streamactors.engine.user_code import shortened
from streamactors.errors import BuildError
from streamactors.stages.bases.cutting import BYTES_AHEAD
from streamactors.stages.checks import positive
from streamactors.stages.defaults import BLOCK_BYTES
from streamactors.stages.files.io_result import IOResult, Path, checked_path, naming
from streamactors.stages.sources.iterables import BackedFeed

_log = logging.getLogger("streamactors.stages")


class FromFile(GraphStage):
    """The stage of `Source.from_file`."""

    shape = SOURCE
    traits = StageTraits(emits_marks=True)

    def __init__(self, path: Path, block: int = BLOCK_BYTES) -> None:
        self.path = checked_path("from_file", path)
        self.block = positive("from_file", "block", block)
        self.identity = {"file": os.path.abspath(path), "block": str(block)}

    def create(self, attributes: Attributes) -> tuple[Logic, Any]:
        logic = _ReadingLogic(self._feed, self.label, attributes, str(self.path), self.identity)
        return logic, logic.future

    def _feed(self, attributes: Attributes) -> _Blocks:
        return _FileBlocks(
            self.label, self.path, self.block, attributes.replay.start if attributes.replay is not None else 0
        )


class FromFileObject(GraphStage):
    """The stage of `Source.from_file_object`."""

    shape = SOURCE

    def __init__(self, file: Any, block: int = BLOCK_BYTES) -> None:
        if not hasattr(file, "read") and not callable(file):
            raise BuildError(
                f"from_file_object expects an object with read(n), or a function that returns one, got {type(file).__name__} "
                f"{shortened(file, 60)}; Source.from_file takes a path"
            )
        self.file = file
        self.block = positive("from_file_object", "block", block)
        self._used = False  # an object that was given itself has been read by a run

    def create(self, attributes: Attributes) -> tuple[Logic, Any]:
        logic = _ReadingLogic(self._feed, self.label, attributes, "")
        return logic, logic.future

    def _feed(self, attributes: Attributes) -> _Blocks:
        if hasattr(self.file, "read"):
            if self._used:
                _log.warning(
                    "from_file_object: an earlier run has read this %s, so this run gets what is left of it; give a function that opens it",
                    type(self.file).__name__,
                )
            self._used = True
            return _Blocks(self.file, self.block, closes=False)
        file = self.file()
        if not hasattr(file, "read"):
            raise TypeError(
                f"from_file_object: the function must return an object with read(n), got {shortened(file, 60)}"
            )
        return _Blocks(file, self.block, closes=True)


class _Blocks(BackedFeed):
    """The blocks of an open file."""

    def __init__(self, file: Any, block: int, *, closes: bool) -> None:
        super().__init__()
        self._file = file
        self._read = getattr(file, "read1", file.read)  # read1 returns what is there, without waiting for a whole block
        self._block = block
        self._closes = closes
        self.count = 0

    def read(self, n: int, chunk: list[Any], stop: list[int]) -> bool:
        size = 0
        while len(chunk) < n and size < BYTES_AHEAD:
            block = self._read(self._block)
            if not block:
                return block is not None  # None: a non-blocking file that has nothing yet
            chunk.append(block)
            size += len(block)
            self.count += len(block)
            if stop:
                break
        return False

    def close(self) -> None:
        """Close the file, if this feed has opened it."""
        if self._closes:
            self._file.close()


class _FileBlocks(_Blocks):
    def __init__(self, operator: str, path: Path, block: int, start: int) -> None:
        try:
            file = open(path, "rb", buffering=0)  # noqa: SIM115  # closed in on_stop
        except OSError as error:
            raise naming(error, path, operator) from None
        super().__init__(file, block, closes=True)
        self.position = start
        self._operator, self._path = operator, path
        if start:
            self._file.seek(start * block)

    def read(self, n: int, chunk: list[Any], stop: list[int]) -> bool:
        try:
            return super().read(n, chunk, stop)
        except OSError as error:
            raise naming(error, self._path, self._operator) from None


class _ReadingLogic(FeedLogic):
    """Completes `future` when the stage has ended."""

    def __init__(
        self,
        make_feed: Callable[[Attributes], _Blocks],
        label: str,
        attributes: Attributes,
        path: str,
        identity: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(make_feed, None, label, attributes, identity=identity)
        self.future: StreamFuture[IOResult] = StreamFuture(label)
        self._path = path

    def on_stop(self) -> None:
        try:
            super().on_stop()
        except Exception as error:  # noqa: BLE001  # closing the user's object
            self.failure = self.failure or error
        if self.failure is not None:
            self.future.try_fail(self.failure)
        else:
            self.future.try_complete(IOResult(self._feed.count if self._feed is not None else 0, self._path))
