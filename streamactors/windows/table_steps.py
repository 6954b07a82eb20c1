"""Filter and map_values on tables, and the way from a table to a stream.

Owner: WindowTask; no state. On a table, filter turns what does not match into a deletion; None to None is not forwarded
where old values are known."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from streamactors.windows.errors import OperatorFailed
from streamactors.windows.operator import Ident, Operator, Surroundings
from streamactors.windows.record import Record, WindowedRecord
from streamactors.windows.update import Update


class TableStep(Operator):
    """Turns the value of each update into another by `fn`, which never sees None."""

    def __init__(
        self, node: str, around: Surroundings, fn: Callable[[Any], Any], sends_old: bool, parent: Operator
    ) -> None:
        super().__init__(node, around)
        self._fn = fn
        self._sends_old = sends_old
        self._parent = parent

    def _value_of(self, value: Any) -> Any:
        raise NotImplementedError

    def _forwards(self, new: Any, old: Any) -> bool:
        return True

    def process(self, rows: Sequence[Update], out: list[Any]) -> None:
        for update in rows:
            ident, key, start, end, new, old, timestamp, context, final = update
            try:
                new = None if new is None else self._value_of(new)
                old = self._value_of(old) if self._sends_old and old is not None else None
            except Exception as error:  # noqa: BLE001 - whatever user code raises
                self.around.settle(OperatorFailed(self.node, "the function", update[4], key, start, end, error))
                continue
            if self._forwards(new, old):
                out.append((ident, key, start, end, new, old, timestamp, context, final))

    def read(self, key: Any, ident: Ident, start: int | None, end: int | None) -> tuple[Any, int | None] | None:
        found = self._parent.read(key, ident, start, end)
        if found is None:
            return None
        value = self._value_of(found[0])
        return None if value is None else (value, found[1])


class TableMapValues(TableStep):
    """`fn(value)` for every value."""

    def _value_of(self, value: Any) -> Any:
        return self._fn(value)


class TableFilter(TableStep):
    """Values for which `fn(value)` is false become deletions."""

    def _value_of(self, value: Any) -> Any:
        return value if self._fn(value) else None

    def _forwards(self, new: Any, old: Any) -> bool:
        return new is not None or old is not None or not self._sends_old


class ToStream(Operator):
    """Every update becomes an element: WindowedRecord, or Record where there is no window; None is a tombstone."""

    def __init__(self, around: Surroundings, windowed: bool, parent: Operator) -> None:
        super().__init__("to-stream", around)
        self._windowed = windowed
        self._parent = parent

    def process(self, rows: Sequence[Update], out: list[Any]) -> None:
        if self._windowed:
            out.extend(
                [
                    WindowedRecord(key, start, end, new, timestamp, context, final)  # type: ignore[arg-type]
                    for _, key, start, end, new, _, timestamp, context, final in rows
                ]
            )
        else:
            out.extend([Record(key, new, timestamp, context) for _, key, _, _, new, _, timestamp, context, _ in rows])

    def read(self, key: Any, ident: Ident, start: int | None, end: int | None) -> tuple[Any, int | None] | None:
        return self._parent.read(key, ident, start, end)
