"""Rows to Arrow, a chunk at a time: tuples, dicts and records become one record batch; Arrow data passes unchanged, frames of pandas become Arrow data.

A chunk is converted column by column. Only when this fails are the values tried one by one, to name the row and the field that do not fit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any

import pyarrow as pa

from streamactors.engine.user_code import shortened
from streamactors.spark.errors import RowError
from streamactors.spark.values.arrow_data import chosen, requires
from streamactors.spark.values.columns import Fields
from streamactors.spark.values.frames import gaps, is_pandas, table_of

BadRow = Callable[[Any, RowError], object]


class Rows:
    """Converts chunks for one schema. `on_bad_row(row, error)`, if given, gets the rows that do not fit; else the first raises."""

    def __init__(self, schema: pa.Schema, on_bad_row: BadRow | None = None) -> None:
        self._schema = schema
        self._fields = Fields(schema)
        self._requires = any(map(requires, schema))
        self._on_bad_row = on_bad_row

    def batches(self, chunk: Sequence[Any]) -> list[pa.RecordBatch]:
        """Return the chunk as record batches without empty ones. Raises RowError naming the row and the field."""
        kinds = set(map(type, chunk))
        if _has_arrow(kinds):
            return list(chain.from_iterable(map(self._arrow, chunk)))
        try:
            found = self._batch(chunk, kinds)
        except Exception:  # noqa: BLE001  # whatever a value does when it is looked at
            found = self._good(chunk)
        return [found] if found.num_rows else []

    # ── arrow ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def _arrow(self, element: Any) -> list[pa.RecordBatch]:
        frame = None
        if is_pandas(type(element)):
            frame = element
            try:
                element = table_of(element)
            except (ValueError, pa.ArrowException) as error:
                self._refuse(element, f"a DataFrame of pandas does not fit the schema: {error}")
                return []
        if not isinstance(element, (pa.RecordBatch, pa.Table)):
            found = self._good([element])
            return [found] if found.num_rows else []
        if self._requires or element.schema != self._schema:
            try:
                element = self._fitted(element)
            except ValueError as error:
                hint = "" if frame is None else gaps(frame, self._schema)
                told = f"Arrow data does not fit the schema: {error}; it has {_named(element.schema)}{hint}"
                self._refuse(element, told)
                return []
        batches = [element] if isinstance(element, pa.RecordBatch) else element.to_batches()
        return [batch for batch in batches if batch.num_rows]

    def _fitted(self, element: pa.RecordBatch | pa.Table) -> pa.RecordBatch | pa.Table:
        columns = chosen(self._schema, element.schema.names, element.column, element.num_rows, "")
        if element.schema == self._schema:
            return element  # its nulls are where they may be
        return type(element).from_arrays(columns, schema=self._schema)

    # ── rows ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def _batch(self, rows: Sequence[Any], kinds: set[type]) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays(self._fields.arrays(rows, kinds), schema=self._schema)

    def _good(self, rows: Sequence[Any]) -> pa.RecordBatch:
        """Return the rows that fit as a record batch."""
        fitting = self._fitting(rows)
        return self._batch(fitting, set(map(type, fitting)))

    def _fitting(self, rows: Sequence[Any]) -> list[Any]:
        """Return the rows that fit; the others go to `on_bad_row`, or the first of them raises."""
        good = []
        for row in rows:
            try:
                self._fields.check(row)
            except Exception as error:  # noqa: BLE001  # whatever a row does when it is looked at
                self._refuse(row, f"row {shortened(row, 120)}: {error}")
            else:
                good.append(row)
        return good

    def _refuse(self, row: Any, why: str) -> None:
        bad = RowError(why)
        if self._on_bad_row is None:
            raise bad from None
        self._on_bad_row(row, bad)


def largest(chunk: Sequence[Any]) -> int:
    """Return the rows of the largest element: more than one only where there are tables."""
    return max(1, *map(_rows_in, chunk)) if has_arrow(chunk) else 1


def _rows_in(element: Any) -> int:
    return len(element) if is_pandas(type(element)) else getattr(element, "num_rows", 1)


def has_arrow(chunk: Sequence[Any]) -> bool:
    """Return whether a chunk has Arrow data, or frames of pandas, in it."""
    return _has_arrow(set(map(type, chunk)))


def _has_arrow(kinds: set[type]) -> bool:
    return any(issubclass(kind, (pa.RecordBatch, pa.Table)) or is_pandas(kind) for kind in kinds)


def _named(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)
