"""The steps on records: as records, map, filter and key_by.

Owner: WindowTask; no state."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from streamactors.windows.errors import InvalidRecord, OperatorFailed
from streamactors.windows.operators.operator import Operator, TaskEnvironment
from streamactors.windows.record import Record, WindowedRecord
from streamactors.windows.values import IMMUTABLE, snapshot

_RECORDS: Final = {Record}


class AsRecords(Operator):
    """Passes Records, and WindowedRecords as Records whose key is (key, start, end). A chunk of Records is not copied."""

    @staticmethod
    def passes(rows: Sequence[Any]) -> bool:
        """Return whether all rows are Records, which pass as they are."""
        return set(map(type, rows)) <= _RECORDS

    def process(self, rows: Sequence[Any], out: list[Any]) -> None:
        out.extend(map(partial(as_record, self.node), rows))


class MapRecords(Operator):
    """`fn(record)` for each record. `what` names `fn` in errors."""

    what = "the function"

    def __init__(self, node: str, env: TaskEnvironment, fn: Callable[[Any], Any]) -> None:
        super().__init__(node, env)
        self._fn = fn

    def process(self, rows: Sequence[Any], out: list[Any]) -> None:
        take = self._take
        for row in rows:
            try:
                take(row, out)
            except InvalidRecord:
                raise
            except Exception as error:  # noqa: BLE001 - whatever user code raises
                key = getattr(row, "key", None)
                self.env.settle(OperatorFailed(self.node, self.what, row, key, None, None, error))

    def _take(self, row: Any, out: list[Any]) -> None:
        out.append(self._fn(row))


class FilterRecords(MapRecords):
    """The records for which `fn(record)` is true."""

    what = "the predicate"

    def _take(self, row: Any, out: list[Any]) -> None:
        if self._fn(row):
            out.append(row)


class KeyBy(MapRecords):
    """Each record with the key `fn(record)`; value, timestamp and context stay. The aggregation drops keys of None.

    The key may be a part of the value, which later steps may change, so it is copied."""

    what = "the key function"

    def _take(self, row: Any, out: list[Any]) -> None:
        if not isinstance(row, Record | WindowedRecord):
            raise _no_record(self.node, row)
        key = self._fn(row)
        out.append(Record(key if type(key) in IMMUTABLE else snapshot(key), row.value, row.timestamp, row.context))


def as_record(node: str, element: Any) -> Record:
    """Return the Record that an element represents. Raises InvalidRecord for an element of another type."""
    if isinstance(element, WindowedRecord):
        key = (element.key, element.start, element.end)
        return Record(key, element.value, element.timestamp, element.context)
    if isinstance(element, Record):
        return element
    raise _no_record(node, element)


def _no_record(node: str, element: object) -> InvalidRecord:
    return InvalidRecord(
        f"{node} was given {element!r} ({type(element).__name__}): windowed operators take "
        "Record(key, value, timestamp); map your elements to Record first"
    )
