"""Chunks of rows as tables of Arrow, pandas or polars, and back."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, is_dataclass
from typing import Any, Final

from streamactors.engine.user_code import shortened
from streamactors.errors import BuildError

_MODULES: Final = {"to_arrow": "pyarrow", "to_pandas": "pandas", "to_polars": "polars"}
_SLICE: Final = 1_024


def table_maker(operator: str, schema: Any) -> Callable[[list[Any]], Any]:
    """Return the function that makes a table of a list of rows. Raises BuildError when the library is not installed."""
    name = _MODULES[operator]
    try:
        library: Any = importlib.import_module(name)
    except ImportError:
        raise BuildError(f"{operator} needs {name}: pip install {name}") from None

    def make(rows: list[Any]) -> Any:
        named = [_mapping(operator, row) for row in rows]
        if operator == "to_arrow":
            return library.Table.from_pylist(named, schema=schema)
        if operator == "to_polars":
            return library.DataFrame(named, schema=schema, infer_schema_length=None)
        frame = library.DataFrame(named)
        return frame if schema is None else frame.astype(schema)

    return make


def _mapping(operator: str, row: Any) -> Any:
    if isinstance(row, Mapping):
        return row
    if is_dataclass(row) and not isinstance(row, type):
        return asdict(row)
    if isinstance(row, tuple) and hasattr(row, "_asdict"):
        return row._asdict()
    raise TypeError(
        f"{operator} expects rows with names (dicts, dataclasses, named tuples), got {type(row).__name__} {shortened(row, 60)}"
    )


def rows_of(table: Any) -> Iterator[dict[str, Any]]:
    """Yield the rows of a table as dicts; the values are Python's own where the library says how."""
    home = type(table).__module__.partition(".")[0]
    kind = type(table).__name__
    if home == "pyarrow" and kind in ("Table", "RecordBatch"):
        for start in range(0, table.num_rows, _SLICE):
            yield from table.slice(start, _SLICE).to_pylist()
    elif home == "pandas" and kind == "DataFrame":
        for start in range(0, len(table), _SLICE):
            yield from table.iloc[start : start + _SLICE].to_dict("records")
    elif home == "polars" and kind == "DataFrame":
        yield from table.iter_rows(named=True)
    else:
        raise TypeError(
            f"rows expects tables of pyarrow, pandas or polars, got {home}.{kind} {shortened(table, 60)}; for a LazyFrame: "
            "map(lambda frame: frame.collect())"
        )
