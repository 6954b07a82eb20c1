"""The rows of record batches as elements of a stream: tuples, dicts, the record batches themselves, or frames of pandas."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Literal

from streamactors.errors import BuildError

Elements = Literal["tuples", "dicts", "batches", "pandas"]


def tuples(batch: Any) -> list[tuple[Any, ...]]:
    """Return the rows as tuples, in the order of the columns."""
    if not batch.num_columns:
        return [()] * batch.num_rows
    return list(zip(*(column.to_pylist() for column in batch.columns), strict=True))


def dicts(batch: Any) -> list[dict[str, Any]]:
    """Return the rows as dicts."""
    names = batch.schema.names
    return [dict(zip(names, row, strict=True)) for row in tuples(batch)]


def batches(batch: Any) -> list[Any]:
    """Return the record batch as one element."""
    return [batch]


def frames(batch: Any) -> list[Any]:
    """Return the record batch as one DataFrame of pandas."""
    return [batch.to_pandas()]


_KINDS: Final[dict[str, Callable[[Any], list[Any]]]] = {
    "tuples": tuples,
    "dicts": dicts,
    "batches": batches,
    "pandas": frames,
}


def elements_of(who: str, kind: object) -> Callable[[Any], list[Any]]:
    """Return the function from a record batch to its elements. Raises BuildError naming what was given."""
    if not isinstance(kind, str) or kind not in _KINDS:
        raise BuildError(f"{who}: elements must be one of {', '.join(map(repr, _KINDS))}, got {kind!r}")
    return _KINDS[kind]
