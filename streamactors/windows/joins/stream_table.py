"""A stream joined with a table: each row of the stream meets the value that the table has at that moment.

Owner: WindowTask. The rows of the table give nothing. Time and context of a result are those of the stream's row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from streamactors.codec import CodecError
from streamactors.windows.errors import InvalidRecord, OperatorFailed
from streamactors.windows.operators.operator import Operator, TaskEnvironment
from streamactors.windows.record import Record


class StreamTableJoin(Operator):
    """Emits fn(value, table's value). Inner: only where the table has one; left: with None where it has none.

    A row without value is dropped and counted; a row without key (or whose mapped key is None) too, but in a left join it
    gives fn(value, None). `key`: the key in the table of a row (global tables); None: the row's own. `as_of`: the table is
    versioned, and the version valid at the row's time counts."""

    def __init__(
        self,
        node: str,
        env: TaskEnvironment,
        table: Operator,
        fn: Callable[[Any, Any], Any],
        *,
        left: bool,
        key: Callable[[Any], Any] | None = None,
        as_of: bool = False,
    ) -> None:
        super().__init__(node, env)
        self._table = table
        self._fn = fn
        self._left = left
        self._key = key
        self._as_of = as_of

    def process(self, rows: Sequence[Record], out: list[Any]) -> None:
        left, key_of, metrics = self._left, self._key, self.env.metrics
        for row in rows:
            try:
                key = row.key if key_of is None else key_of(row)
            except Exception as error:  # noqa: BLE001 - whatever user code raises
                self._failed("the key function", row, error)
                continue
            if row.value is None or (key is None and not left):
                metrics.dropped_null += 1
            else:
                self.join(row, key, out)

    def join(self, row: Record, key: Any, out: list[Any]) -> None:
        """Join one row that has a value; `key` is its key in the table."""
        found = None
        if key is not None:
            ident: Any = key if type(key) is self.env.identity.text else self._ident(key)
            table = self._table
            try:
                found = table.read_as_of(ident, row.timestamp) if self._as_of else table.read(ident, None, None)
            except OperatorFailed as failure:
                self.env.settle(failure.met_by(row, row.key))
                return
        if found is None and not self._left:
            return
        try:
            result = self._fn(row.value, None if found is None else found[0])
        except Exception as error:  # noqa: BLE001 - whatever user code raises
            self._failed("the joiner", row, error)
            return
        out.append(Record(row.key, result, row.timestamp, row.context))

    def _ident(self, key: Any) -> str | bytes:
        try:
            return self.env.identity.of(key)
        except CodecError as error:
            raise InvalidRecord(f"{self.node}: key {key!r}: {error}") from error

    def _failed(self, what: str, row: Record, error: Exception) -> None:
        self.env.settle(OperatorFailed(self.node, what, row, row.key, None, None, error))
