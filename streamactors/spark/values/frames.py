"""Frames of pandas as Arrow tables. A missing value of pandas (NaN, NaT, NA, None) is a null, as in Spark's createDataFrame."""

from __future__ import annotations

import sys
from typing import Any

import pyarrow as pa


def is_pandas(kind: type) -> bool:
    """Return whether a class is a DataFrame of pandas. Does not import pandas."""
    pandas = sys.modules.get("pandas")
    return pandas is not None and issubclass(kind, getattr(pandas, "DataFrame", ()))


def table_of(frame: Any) -> pa.Table:
    """Return a DataFrame as a table. Raises ValueError for an index with a name, which would be lost, and what pyarrow raises."""
    names = [name for name in frame.index.names if name is not None]
    if names:
        raise ValueError(f"its index {names[0]!r} is not a column; use frame.reset_index()")
    return pa.Table.from_pandas(frame, preserve_index=False).replace_schema_metadata()


def gaps(frame: Any, schema: pa.Schema) -> str:
    """Return what to do about a column that pandas made float64 because integers are missing in it; empty if there is none."""
    for field in schema:
        if pa.types.is_integer(field.type) and field.name in frame.columns:
            column = frame[field.name]
            if getattr(column.dtype, "kind", "") == "f" and bool(column.isna().any()):
                return f"; column {field.name!r} is {column.dtype} because it has missing values: use astype({{{field.name!r}: 'Int64'}})"
    return ""
