"""Results and late rows in one frame of Spark: results in the column `row`, late rows in the column `late`. In each row one of the two is null.

A task runs once for both kinds. The driver splits the batch again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from streamactors.spark.errors import RowError
from streamactors.spark.rows import Rows
from streamactors.spark.schema import RowSchema, row_schema

ROW, LATE = "row", "late"


def both(rows: RowSchema, late: RowSchema) -> RowSchema:
    """Return the schema of batches with two kinds of rows."""
    from pyspark.sql.types import StructField, StructType

    return row_schema(StructType([StructField(ROW, rows.spark), StructField(LATE, late.spark)]))


def results_of(frame: Any) -> Any:
    """Return the results of a batch as the frame that a sink wants."""
    return _part(frame, ROW)


def late_of(frame: Any) -> Any:
    """Return the late rows of a batch as the frame that their sink wants."""
    return _part(frame, LATE)


def _part(frame: Any, name: str) -> Any:
    return frame.where(f"{name} IS NOT NULL").select(f"{name}.*")


class KindOfRow:
    """Converts rows of one kind: record batches of the schema of both, with nulls in the other column."""

    def __init__(self, schema: pa.Schema, name: str) -> None:
        self._schema = schema
        self._name = name
        self._parts = list(schema.field(name).type)
        self._rows = Rows(pa.schema(self._parts))

    def batches(self, chunk: Sequence[Any]) -> list[pa.RecordBatch]:
        """As `Rows.batches`. The error names the row and the field as the user knows them."""
        try:
            found = self._rows.batches(chunk)
        except RowError as error:
            if self._name == LATE:
                raise RowError(f"late rows: {error}") from None
            raise
        return [self._placed(batch) for batch in found]

    def _placed(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        own = pa.StructArray.from_arrays(batch.columns, fields=self._parts)
        columns = [own if field.name == self._name else pa.nulls(batch.num_rows, field.type) for field in self._schema]
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)
