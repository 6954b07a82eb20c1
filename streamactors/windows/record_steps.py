"""Steps on records before a table and behind it: intake, new keys, map and filter.

Owner: WindowTask; no state. What enters is checked here once per chunk, so the operators behind may trust it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from streamactors.windows.errors import InvalidRecord, OperatorFailed
from streamactors.windows.operator import Operator, Surroundings
from streamactors.windows.record import Record, WindowedRecord

_RECORDS: Final = {Record}


class GroupByKey(Operator):
    """Records as they are; the key of a WindowedRecord is (key, start, end)."""

    def __init__(self, node: str, around: Surroundings) -> None:
        super().__init__(node, around)

    def process(self, rows: Sequence[Any], out: list[Any]) -> None:
        if {type(row) for row in rows} <= _RECORDS:
            out.extend(rows)
            return
        out.extend(map(partial(as_record, self.node), rows))


class KeyBy(Operator):
    """A new key for every record: `fn(record)`; the value, timestamp and context stay. Keys of None are dropped later."""

    def __init__(self, node: str, around: Surroundings, fn: Callable[[Any], Any]) -> None:
        super().__init__(node, around)
        self._fn = fn

    def process(self, rows: Sequence[Any], out: list[Any]) -> None:
        fn = self._fn
        for row in rows:
            if not isinstance(row, Record | WindowedRecord):
                raise _no_record(self.node, row)
            try:
                key = fn(row)
            except Exception as error:  # noqa: BLE001 - whatever user code raises
                self.around.settle(OperatorFailed(self.node, "the key function", row, row.key, None, None, error))
                continue
            out.append(Record(key, row.value, row.timestamp, row.context))


class MapRecords(Operator):
    """`fn(record)` for each record."""

    def __init__(self, node: str, around: Surroundings, fn: Callable[[Any], Any]) -> None:
        super().__init__(node, around)
        self._fn = fn

    def process(self, rows: Sequence[Any], out: list[Any]) -> None:
        for row in rows:
            try:
                out.append(self._fn(row))
            except Exception as error:  # noqa: BLE001 - whatever user code raises
                key = getattr(row, "key", None)
                self.around.settle(OperatorFailed(self.node, "the function", row, key, None, None, error))


class FilterRecords(MapRecords):
    """The records for which `fn(record)` is true."""

    def process(self, rows: Sequence[Any], out: list[Any]) -> None:
        for row in rows:
            try:
                if self._fn(row):
                    out.append(row)
            except Exception as error:  # noqa: BLE001 - whatever user code raises
                key = getattr(row, "key", None)
                self.around.settle(OperatorFailed(self.node, "the predicate", row, key, None, None, error))


def as_record(node: str, element: Any) -> Record:
    """The Record that an element stands for. Raises InvalidRecord for anything else."""
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
