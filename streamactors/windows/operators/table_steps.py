"""The steps on a table: filter, map_values and to_stream.

Owner: WindowTask; no state. On a table, filter turns a value that does not match into a deletion. Where old values are
known, an update from None to None is not forwarded."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from streamactors.windows.errors import OperatorFailed
from streamactors.windows.operators.operator import Found, Ident, Operator, TaskEnvironment, Update
from streamactors.windows.record import Record, WindowedRecord
from streamactors.windows.state.reads import StoreEntry, StoreRequest
from streamactors.windows.values import IMMUTABLE, is_unchanged, snapshot


class TableStepOperator(Operator):
    """Maps the value of each update by `fn`. `fn` is not called for None."""

    def __init__(
        self, node: str, env: TaskEnvironment, fn: Callable[[Any], Any], sends_old: bool, parent: Operator
    ) -> None:
        super().__init__(node, env)
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
                self.env.settle(OperatorFailed(self.node, "the function", update[4], key, start, end, error))
                continue
            if self._forwards(new, old):
                out.append((ident, key, start, end, new, old, timestamp, context, final))

    def read(self, ident: Ident, start: int | None, end: int | None) -> Found | None:
        return self._viewed(self._parent.read(ident, start, end))

    def read_as_of(self, ident: Ident, time_ms: int) -> Found | None:
        return self._viewed(self._parent.read_as_of(ident, time_ms))

    def entries(self, request: StoreRequest) -> Iterator[StoreEntry]:
        for each in self._parent.entries(request):
            found = self._viewed((each.value, each.timestamp))
            if found is not None:
                yield each._replace(value=found[0])

    def _viewed(self, found: Found | None) -> Found | None:
        if found is None:
            return None
        try:
            value = self._value_of(found[0])
        except Exception as error:
            raise OperatorFailed(self.node, "the function", None, None, None, None, error) from error
        return None if value is None else (value, found[1])


class TableMapValues(TableStepOperator):
    """The table of `fn(value)`."""

    def _value_of(self, value: Any) -> Any:
        return self._fn(value)


class TableFilter(TableStepOperator):
    """The table of the values for which `fn(value)` is true; other values become deletions."""

    def _value_of(self, value: Any) -> Any:
        return value if self._fn(value) else None

    def _forwards(self, new: Any, old: Any) -> bool:
        return new is not None or old is not None or not self._sends_old


class TableOnChange(TableStepOperator):
    """The same table; updates that change no value are not forwarded. Final results are: they have no update before them."""

    def process(self, rows: Sequence[Update], out: list[Any]) -> None:
        for update in rows:
            _, key, start, end, new, old, _, _, final = update
            try:
                if final or not is_unchanged(new, old):
                    out.append(update)
            except Exception as error:  # noqa: BLE001 - the user's __eq__
                self.env.settle(OperatorFailed(self.node, "the comparison", new, key, start, end, error))

    def _value_of(self, value: Any) -> Any:
        return value


class ToStream(Operator):
    """Turns each update into an element: WindowedRecord, or Record without windows. The value None is a tombstone.

    The key of an element is its own: updates of one row share a key, and other steps on the table still need it."""

    def __init__(self, env: TaskEnvironment, windowed: bool, parent: Operator) -> None:
        super().__init__("to-stream", env)
        self._windowed = windowed
        self._parent = parent

    def process(self, rows: Sequence[Update], out: list[Any]) -> None:
        if self._windowed:
            out.extend(
                [
                    WindowedRecord(
                        key if type(key) in IMMUTABLE else snapshot(key),
                        start,  # type: ignore[arg-type]
                        end,  # type: ignore[arg-type]
                        new,
                        timestamp,
                        context,
                        final,  # type: ignore[arg-type]
                    )
                    for _, key, start, end, new, _, timestamp, context, final in rows
                ]
            )
        else:
            for _, key, _, _, new, _, timestamp, context, _ in rows:
                out.append(Record(key if type(key) in IMMUTABLE else snapshot(key), new, timestamp, context))

    def read(self, ident: Ident, start: int | None, end: int | None) -> Found | None:
        return self._parent.read(ident, start, end)
