"""The steps on the records of a topology that keep no state: map_values, flat_map, select_key and the like.

Owner: WindowTask. The functions see every row, also rows whose key or value is None."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from streamactors.windows.errors import InvalidRecord
from streamactors.windows.operators.operator import Operator
from streamactors.windows.operators.record_steps import FilterRecords, MapRecords
from streamactors.windows.record import Record


class MapToRecords(MapRecords):
    """`fn(record)`, which must return a Record."""

    def _take(self, row: Any, out: list[Any]) -> None:
        out.append(_checked(self.node, self._fn(row)))


class FlatMapRecords(MapRecords):
    """Every Record of `fn(record)`."""

    def _take(self, row: Any, out: list[Any]) -> None:
        out.extend([_checked(self.node, each) for each in self._fn(row)])


class MapValues(MapRecords):
    """`fn(value)` in the place of each value."""

    def _take(self, row: Any, out: list[Any]) -> None:
        if type(row) is Record:
            out.append(Record(row.key, self._fn(row.value), row.timestamp, row.context))
        else:
            out.append(row.replace(value=self._fn(row.value)))


class FlatMapValues(MapRecords):
    """A row with the same key, time and context for each element of `fn(value)`."""

    def _take(self, row: Any, out: list[Any]) -> None:
        out.extend([row.replace(value=value) for value in self._fn(row.value)])


class FilterNotRecords(FilterRecords):
    """The records for which `fn(record)` is false."""

    def _take(self, row: Any, out: list[Any]) -> None:
        if not self._fn(row):
            out.append(row)


class Peek(MapRecords):
    """Every record, after `fn(record)` has seen it."""

    def _take(self, row: Any, out: list[Any]) -> None:
        self._fn(row)
        out.append(row)


class PassOn(Operator):
    """Every row as it is: where streams merge."""

    def process(self, rows: Sequence[Any], out: list[Any]) -> None:
        out.extend(rows)


def _checked(node: str, result: object) -> Record:
    if not isinstance(result, Record):
        raise InvalidRecord(
            f"{node}: the function returned {result!r} ({type(result).__name__}); return Records, "
            "for example record.replace(value=…)"
        )
    return result
