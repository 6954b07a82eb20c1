"""Errors of windowed operators while a stream runs. A wrong definition raises BuildError at the line that defines it."""

from __future__ import annotations

from typing import Any

from streamactors.errors import StageFailed, StreamError


class BufferFull(StreamError):
    """A suppress buffer that shuts down when full has exceeded a bound. The task ends and the row is not done.

    `records` and `bytes`: the size of the buffer. `max_records` and `max_bytes`: its bounds, None for no bound."""

    def __init__(self, node: str, records: int, max_records: int | None, size: int, max_bytes: int | None) -> None:
        super().__init__(
            f"{node} buffer exceeded its bound: [{records}/{_bound(max_records)}] records, "
            f"[{size}/{_bound(max_bytes)}] bytes; raise the bound, shorten the grace period, "
            "or let it emit early (until_time_limit)"
        )
        self.node = node
        self.records = records
        self.max_records = max_records
        self.bytes = size
        self.max_bytes = max_bytes


def _bound(limit: int | None) -> str:
    return "unbounded" if limit is None else str(limit)


class OperatorFailed(StageFailed):
    """A user function of a windowed operator raised; `__cause__` is the user's error.

    Names the key and, if there is one, the window (`start`, `end`)."""

    def __init__(
        self, node: str, what: str, element: object, key: Any, start: int | None, end: int | None, cause: Exception
    ) -> None:
        window = "" if start is None else f" in window {start}..{end}"
        of_key = "" if element is None and key is None else f" of key {key!r}"
        super().__init__(
            f"{node}: {what}{of_key}{window} raised {type(cause).__name__}: {cause}", stage=node, element=element
        )
        self.what = what
        self.key = key
        self.start = start
        self.end = end
        self.__cause__ = cause

    def met_by(self, element: object, key: Any, start: int | None = None, end: int | None = None) -> OperatorFailed:
        """Return the same failure with `element` as the one to skip: a view was read for it."""
        assert isinstance(self.__cause__, Exception)
        return OperatorFailed(self.stage, self.what, element, key, start, end, self.__cause__)


class AggregationFailed(OperatorFailed):
    """An aggregator, reducer, merger or initializer raised."""

    def __init__(self, node: str, element: object, key: Any, start: int | None, end: int | None, cause: Exception):
        super().__init__(node, "the aggregation", element, key, start, end, cause)


class InvalidRecord(StreamError, TypeError):
    """An element that no windowed operator can take: not a Record, or one whose key cannot be serialised."""


class TaskDead(StreamError):
    """A task was used after an error ended it; `__cause__` is that error."""


class RestoreError(StreamError):
    """This task cannot be restored from a changelog: another application, definition, partition or format."""
