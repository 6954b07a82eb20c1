"""frames_by_delimiter: frames that end with a delimiter."""

from __future__ import annotations

from typing import Any

from streamactors.engine.logic import logic_of
from streamactors.engine.marks.marks import BLURS_MEMORY
from streamactors.engine.stage import Stage
from streamactors.engine.user_code import shortened
from streamactors.errors import BuildError, FramingError
from streamactors.stages.bases.cutting import CuttingLogic
from streamactors.stages.checks import positive


class FramesByDelimiter(Stage[bytes, bytes]):
    """The stage of `Source.frames_by_delimiter`."""

    handling = BLURS_MEMORY

    def __init__(self, delimiter: bytes, max_length: int, allow_truncation: bool = False) -> None:
        if not isinstance(delimiter, bytes) or not delimiter:
            raise BuildError(
                f"{self.label}: delimiter must be bytes that are not empty, got {shortened(delimiter, 60)}"
            )
        self.delimiter = delimiter
        self.max_length = positive(self.label, "max_length", max_length)
        self.allow_truncation = allow_truncation


@logic_of(FramesByDelimiter)
class DelimiterLogic(CuttingLogic):
    """Keeps the unfinished frame as a list of parts, so that a long frame in many short elements costs no repeated copies."""

    stage: FramesByDelimiter

    def __init__(self, stage: FramesByDelimiter) -> None:
        super().__init__(stage)
        self._parts: list[bytes] = []
        self._size = 0
        self._tail = b""  # the end of the parts, in which a delimiter may have begun
        self._overlap = len(stage.delimiter) - 1

    def pending(self) -> bool:
        return self._size > 0

    def cut(self, chunk: list[bytes], results: list[Any]) -> None:
        delimiter = self.stage.delimiter
        fresh = b"".join(chunk)
        if delimiter not in self._tail + fresh:
            self._parts.append(fresh)
            self._size += len(fresh)
            if self._overlap:
                self._tail = (self._tail + fresh)[-self._overlap :]
        else:
            frames = b"".join([*self._parts, fresh]).split(delimiter)
            rest = frames.pop()
            self._parts, self._size = [rest], len(rest)
            self._tail = rest[-self._overlap :] if self._overlap else b""
            self.take(frames, results)
        if self._size > self.stage.max_length + self._overlap:
            raise self.too_long()

    def take(self, frames: list[bytes], results: list[Any]) -> None:
        """Append whole frames to the results. Raises FramingError at the first that is too long."""
        longest = self.stage.max_length
        if max(map(len, frames)) > longest:
            results += frames[: next(i for i, frame in enumerate(frames) if len(frame) > longest)]
            raise self.too_long()
        results += frames

    def too_long(self) -> FramingError:
        """Return the error of a frame beyond the limit."""
        return FramingError(
            f"{self.name}: more than max_length={self.stage.max_length} bytes without the delimiter {self.stage.delimiter!r}; "
            "raise max_length, or look at what the peer sends"
        )

    def finish(self, results: list[Any]) -> None:
        if not self._size:
            return
        if not self.stage.allow_truncation:
            raise FramingError(
                f"{self.name}: the stream ended {self._size} bytes after the last delimiter {self.stage.delimiter!r}; "
                "allow_truncation=True emits them as the last frame"
            )
        self.take([b"".join(self._parts)], results)

    def snapshot_state(self) -> str:
        return super().snapshot_state() or (f"{self._size} bytes of an unfinished frame" if self._size else "")
