"""Errors of windowed operators while a stream runs. A wrong definition raises BuildError at the line that defines it."""

from __future__ import annotations

from typing import Any

from streamactors.engine.user_code import user_line
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

    Names the key, the window (`start`, `end`) and the record of a topic, if there are any, and the user's line. `place`: "topic-partition@offset"
    of the record, empty if it is unknown."""

    def __init__(
        self, node: str, what: str, element: object, key: Any, start: int | None, end: int | None, cause: Exception
    ) -> None:
        window = "" if start is None else f" in window {start}..{end}"
        of_key = "" if element is None and key is None else f" of key {key!r}"
        self.place = place_of(element)
        found = [*([f"record {self.place}"] if self.place else []), *([line] if (line := user_line(cause)) else [])]
        where = f" ({', '.join(found)})" if found else ""
        super().__init__(
            f"{node}: {what}{of_key}{window} raised {type(cause).__name__}: {cause}{where}", stage=node, element=element
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


def place_of(element: object) -> str:
    """Return "topic-partition@offset" of the record that a row came from; an empty string if the row does not tell."""
    context = getattr(element, "context", None)
    topic, partition, offset = (getattr(context, name, None) for name in ("topic", "partition", "offset"))
    return f"{topic}-{partition}@{offset}" if topic and offset is not None else ""


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
