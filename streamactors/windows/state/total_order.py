"""The order of values in min, max and top: Python's, with NaN as the largest number.

Python's comparisons with NaN are all false, so results would depend on the order of the rows. Spark and PostgreSQL order NaN the same way. It
holds for float, Decimal and NumPy's numbers, alone and inside tuples and lists, which are compared part by part."""

from __future__ import annotations

from typing import Any, Final


class _Largest:
    """NaN in comparisons: equal to itself, larger than everything else."""

    __slots__ = ()

    def __lt__(self, other: object) -> bool:
        return False

    def __le__(self, other: object) -> bool:
        return other is self

    def __gt__(self, other: object) -> bool:
        return other is not self

    def __ge__(self, other: object) -> bool:
        return True


_NAN: Final = _Largest()
_ORDERED: Final = frozenset({int, str, bytes, bool})


def rank(value: Any) -> Any:
    """Return the object by which a value is compared: the value itself, unless NaN is part of it."""
    kind = type(value)
    if kind in _ORDERED:
        return value
    if kind is tuple or kind is list:
        return kind(map(rank, value))
    return value if value == value else _NAN
