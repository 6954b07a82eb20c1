"""Schemas: Spark's, from DDL, a StructType, a class of records or a pa.Schema, and the Arrow schema whose batches Spark takes for it without a conversion."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from streamactors.engine.user_code import shortened
from streamactors.spark.errors import SparkSetupError
from streamactors.spark.typed_schema import struct_of_arrow, struct_of_class


@dataclass(frozen=True)
class RowSchema:
    """`spark`: the StructType. `arrow`: the schema of the record batches."""

    spark: Any
    arrow: pa.Schema


def row_schema(given: Any) -> RowSchema:
    """Return the schema of "name type, …", a StructType, a dataclass, a pydantic model, a msgspec struct, or a pa.Schema.

    Needs a running session for DDL and classes. Raises SparkSetupError."""
    from pyspark.errors import PySparkException
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import DataType, StructType

    if isinstance(given, str):
        try:
            parsed = DataType.fromDDL(given)
        except PySparkException as error:
            raise SparkSetupError(f"schema {given!r}: {_reason(error)}") from None
    elif isinstance(given, pa.Schema):
        parsed = struct_of_arrow(given)
    elif isinstance(given, type):
        parsed = struct_of_class(given)
    else:
        parsed = given
    if not isinstance(parsed, StructType) or not len(parsed):
        raise SparkSetupError(
            "schema must be DDL ('key string, n long'), a StructType, a dataclass, a pydantic model, a msgspec struct or a pa.schema, with "
            f"at least one field, got {shortened(given, 60)}"
        )
    names = parsed.fieldNames()
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise SparkSetupError(f"schema: the name {sorted(twice)[0]!r} occurs twice")
    try:
        return RowSchema(parsed, to_arrow_schema(parsed, timezone="UTC"))
    except PySparkException as error:
        raise SparkSetupError(f"schema {shortened(given, 60)}: {_reason(error)}") from None


def source_schema(given: Any) -> RowSchema:
    """As `row_schema`, for rows that come to Spark as a data source of Python, of which Spark takes no TIME. Raises SparkSetupError naming such a field."""
    rows = row_schema(given)
    name = _time_in(rows.spark)
    if name is not None:
        raise SparkSetupError(
            f"schema: field {name!r} is of type TIME, which Spark does not take from a data source of Python; "
            "make it a string, or a bigint of microseconds, and cast it in Spark"
        )
    return rows


def _time_in(kind: Any) -> str | None:
    """Return the path of the first TIME in a type of Spark; None if there is none."""
    if kind.typeName() == "time":
        return ""
    for name, part in (
        *((field.name, field.dataType) for field in getattr(kind, "fields", ())),
        *((part, getattr(kind, f"{part}Type", None)) for part in ("element", "key", "value")),
    ):
        found = None if part is None else _time_in(part)
        if found is not None:
            return f"{name}.{found}".rstrip(".")
    return None


def _reason(error: Exception) -> str:
    """Return the first line of Spark's message that says something; a parser's message begins with an empty one."""
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
