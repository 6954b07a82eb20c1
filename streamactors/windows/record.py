"""The elements of windows: Record, WindowedRecord, LateRecord and their RecordContext.

They are immutable values, so branches of a graph may share them. `context` names the topic partition and offset of a row;
it travels with the row and takes no part in comparisons."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NamedTuple, NoReturn

from streamactors.errors import StreamError

Headers = tuple[tuple[str, bytes | None], ...]

_FIRST: Final = -(1 << 63)
_BEYOND: Final = 1 << 63


class RecordContext(NamedTuple):
    """Origin of a record; of a result, the origin of the last contributing record."""

    topic: str
    partition: int
    offset: int
    headers: Headers = ()

    def without_headers(self) -> RecordContext:
        return RecordContext(self.topic, self.partition, self.offset) if self.headers else self


new_context: Final[Callable[[tuple[str, int, int, Headers]], RecordContext]] = partial(tuple.__new__, RecordContext)
"""Makes a context of its fields, in half the time of `RecordContext(…)`."""


class InvalidTimestamp(StreamError, ValueError):
    """A timestamp that is not a whole number of milliseconds in 64 bits."""


def _whole_ms(timestamp: object, what: str) -> int:
    """Return `timestamp` as int (it may be numpy's). Raises InvalidTimestamp for other types."""
    try:
        ms = operator.index(timestamp)  # type: ignore[arg-type]
    except TypeError:
        ms = None
    if ms is None or isinstance(timestamp, bool) or not _FIRST <= ms < _BEYOND:
        raise InvalidTimestamp(
            f"{what}: timestamp is {timestamp!r}; it must be whole milliseconds since the epoch, an int of 64 bits"
        )
    return ms


class _Frozen:
    """Slots written once by `__init__`, through their descriptors: this takes a third of the time of a frozen dataclass."""

    __slots__ = ()

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} is immutable; use .replace({name}=…)")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} is immutable")


def _setters(cls: type) -> list[Callable[[Any, Any], None]]:
    return [cls.__dict__[name].__set__ for name in cls.__slots__]  # type: ignore[attr-defined]


class Record(_Frozen):
    """A keyed, timestamped value: the input of windows, and the output of tables without windows.

    `timestamp` is in milliseconds since the epoch. The first windowed operator drops rows with a negative timestamp.
    Raises InvalidTimestamp if `timestamp` is not an int."""

    __slots__ = ("key", "value", "timestamp", "context")  # noqa: RUF023 - the order of the constructor

    key: Any
    value: Any
    timestamp: int
    context: RecordContext | None

    def __init__(self, key: Any, value: Any, timestamp: int, context: RecordContext | None = None) -> None:
        if type(timestamp) is not int or not _FIRST <= timestamp < _BEYOND:
            timestamp = _whole_ms(timestamp, f"Record({key!r}, …)")
        _set_key(self, key)
        _set_value(self, value)
        _set_timestamp(self, timestamp)
        _set_context(self, context)

    def replace(self, **changes: Any) -> Record:
        """Return a copy with some fields changed; the context stays unless it is named."""
        fields = {"key": self.key, "value": self.value, "timestamp": self.timestamp, "context": self.context}
        return Record(**(fields | changes))

    def __eq__(self, other: object) -> bool:
        if type(other) is not Record:
            return NotImplemented
        return self.key == other.key and self.value == other.value and self.timestamp == other.timestamp

    def __hash__(self) -> int:
        return hash((self.key, self.value, self.timestamp))

    def __repr__(self) -> str:
        return f"Record(key={self.key!r}, value={self.value!r}, timestamp={self.timestamp})"

    def __reduce__(self) -> tuple[Any, ...]:
        return Record, (self.key, self.value, self.timestamp, self.context)


class Tagged(NamedTuple):
    """The value of a row inside a cogroup: the number of the row's stream, and the value that was read."""

    number: int
    value: Any


def as_read(record: Record) -> Record:
    """Return the record as the user knows it, without the tag of a cogroup."""
    if type(record.value) is not Tagged:
        return record
    return Record(record.key, record.value.value, record.timestamp, record.context)


class WindowedRecord(_Frozen):
    """One update or result of a window of a key.

    `end` is exclusive for time windows and inclusive for sessions and sliding windows; `timestamp` is that of the
    newest row of the window (for a session: its end). `value` is None for a tombstone. `is_final`: no later update
    changes the result; like the context it takes no part in comparisons."""

    __slots__ = ("key", "start", "end", "value", "timestamp", "context", "is_final")  # noqa: RUF023

    key: Any
    start: int
    end: int
    value: Any
    timestamp: int
    context: RecordContext | None
    is_final: bool

    def __init__(
        self,
        key: Any,
        start: int,
        end: int,
        value: Any,
        timestamp: int,
        context: RecordContext | None = None,
        is_final: bool = False,
    ) -> None:
        _set_windowed_key(self, key)
        _set_windowed_start(self, start)
        _set_windowed_end(self, end)
        _set_windowed_value(self, value)
        _set_windowed_timestamp(self, timestamp)
        _set_windowed_context(self, context)
        _set_windowed_final(self, is_final)

    def replace(self, **changes: Any) -> WindowedRecord:
        """Return a copy with some fields changed; the context stays unless it is named."""
        return WindowedRecord(**({name: getattr(self, name) for name in self.__slots__} | changes))

    def __eq__(self, other: object) -> bool:
        if type(other) is not WindowedRecord:
            return NotImplemented
        return (
            self.key == other.key
            and self.start == other.start
            and self.end == other.end
            and self.value == other.value
            and self.timestamp == other.timestamp
        )

    def __hash__(self) -> int:
        return hash((self.key, self.start, self.end, self.value, self.timestamp))

    def __repr__(self) -> str:
        final = ", is_final=True" if self.is_final else ""
        return (
            f"WindowedRecord(key={self.key!r}, start={self.start}, end={self.end}, "
            f"value={self.value!r}, timestamp={self.timestamp}{final})"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return WindowedRecord, tuple(getattr(self, name) for name in self.__slots__)


@dataclass(frozen=True, slots=True)
class LateRecord:
    """A row that came too late: one LateRecord for each closed window that refused it, as `dropped-records` counts them.

    A join with a table and a table have no windows: they refuse a row once, with its timestamp as `start` and `end`."""

    record: Record
    """The row."""
    start: int
    """The start of the window."""
    end: int
    """The end of the window."""
    stream_time: int
    """The stream time of the task when the row came."""
    limit: int
    """Stream time minus the grace period (of a table: its history, or `ttl`). A window [start, end) is closed when its end is at or before `limit`, a window [start, end]
    (sessions, sliding windows) when its end is before `limit`."""

    @property
    def context(self) -> RecordContext | None:
        return self.record.context


_set_key, _set_value, _set_timestamp, _set_context = _setters(Record)
(
    _set_windowed_key,
    _set_windowed_start,
    _set_windowed_end,
    _set_windowed_value,
    _set_windowed_timestamp,
    _set_windowed_context,
    _set_windowed_final,
) = _setters(WindowedRecord)
