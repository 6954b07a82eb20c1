"""Views of the state of a task for readers from outside: the entries of a table.

Owner: the reader; on the task's thread."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from streamactors.windows.operators.operator import Operator
from streamactors.windows.operators.table_aggregate import TableOperator
from streamactors.windows.state.serdes import KeyIdentity, Serdes, key_bytes
from streamactors.windows.tables.views import StoredView


class StoreView:
    """The entries of one table as downstream has seen them. A key of a windowed table is (key, start, end)."""

    def __init__(self, operator: Operator, serdes: Serdes) -> None:
        self._operator = operator
        self._identity = KeyIdentity(serdes)

    def get(self, key: Any) -> tuple[Any, int | None] | None:
        """Return (value, timestamp) of a key, or None."""
        return self._operator.read(self._identity.of(key), None, None)

    def fetch(self, key: Any, start: int, end: int | None = None) -> tuple[Any, int | None] | None:
        """Return (value, timestamp) of a window of a key, or None."""
        return self._operator.read(self._identity.of(key), start, end)

    def items(self) -> Iterator[tuple[Any, tuple[Any, int]]]:
        """Yield (key, (value, timestamp)) of each entry, ordered by the bytes of the keys. Tables without windows."""
        if isinstance(self._operator, StoredView):
            found = [
                ((key, start, end), value, time) for (key, start, end), value, time in self._operator.stored.items()
            ]
            entries = [(each[0] if each[1] is None else each, value, time) for each, value, time in found]
        elif isinstance(self._operator, TableOperator):
            entries = list(self._operator.items())
        else:
            raise TypeError(f"{self._operator.node} has no list of entries; use get or fetch")
        of = self._identity.of
        entries.sort(key=lambda entry: key_bytes(of(entry[0])))
        return ((key, (value, time)) for key, value, time in entries)


def view_of(operator: Operator, serdes: Serdes) -> StoreView:
    """Return the view of an operator that has a table."""
    return StoreView(operator, serdes)
