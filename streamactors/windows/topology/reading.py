"""Views of the state of a task for readers from outside: the entries of a table.

Owner: the reader; on the task's thread."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from streamactors.windows.operators.operator import Operator
from streamactors.windows.state.key_order import KeyPlaces
from streamactors.windows.state.reads import StoreRequest
from streamactors.windows.state.serdes import KeyIdentity, Serdes
from streamactors.windows.values import snapshot


class StoreView:
    """The entries of one table as downstream has seen them. A key of a windowed table is (key, start, end)."""

    def __init__(self, operator: Operator, serdes: Serdes) -> None:
        self._operator = operator
        self._serdes = serdes
        self._identity = KeyIdentity(serdes)

    def get(self, key: Any) -> tuple[Any, int | None] | None:
        """Return (value, timestamp) of a key, or None."""
        return self._operator.read(self._identity.of(key), None, None)

    def fetch(self, key: Any, start: int, end: int | None = None) -> tuple[Any, int | None] | None:
        """Return (value, timestamp) of a window of a key, or None."""
        return self._operator.read(self._identity.of(key), start, end)

    def items(self) -> Iterator[tuple[Any, tuple[Any, int | None]]]:
        """Yield (key, (value, timestamp)) of each entry, in the order of the keys. A key of a windowed table is (key, start, end)."""
        entries = KeyPlaces(self._serdes).in_order(self._operator.entries(StoreRequest("range")))
        return (
            (
                snapshot(each.key) if each.start is None else (snapshot(each.key), each.start, each.end),
                (snapshot(each.value), each.timestamp),
            )
            for each in entries
        )


def view_of(operator: Operator, serdes: Serdes) -> StoreView:
    """Return the view of an operator that has a table."""
    return StoreView(operator, serdes)
