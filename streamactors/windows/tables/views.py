"""Views of a table with a store of their own: filter and map_values that have a name.

Owner: WindowTask. Without a name the view is computed when it is read (`operators/table_steps.py`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from streamactors.windows.operators.operator import Found, Ident, Operator, TaskEnvironment, Update
from streamactors.windows.operators.table_steps import TableFilter, TableMapValues, TableOnChange, TableStepOperator
from streamactors.windows.state.reads import StoreEntry, StoreRequest
from streamactors.windows.tables.stored import StoredTable


class FilterNot(TableFilter):
    """The table of the values for which `fn(value)` is false."""

    def _value_of(self, value: Any) -> Any:
        return None if self._fn(value) else value


class VersionedFilter(TableFilter):
    """A filter of a versioned table: forwards every update, because an older version may be valid again."""

    def _forwards(self, new: Any, old: Any) -> bool:
        return True


class VersionedFilterNot(FilterNot):
    """As VersionedFilter."""

    def _forwards(self, new: Any, old: Any) -> bool:
        return True


class StoredView(Operator):
    """A view that keeps what it forwards. The old value of an update is what the store has."""

    def __init__(
        self, view: TableStepOperator, stored: StoredTable, env: TaskEnvironment, *, sends_old: bool, skips_empty: bool
    ) -> None:
        """`skips_empty`: an update from nothing to nothing is not forwarded."""
        super().__init__(view.node, env)
        self.stored = stored
        self._view = view
        self._sends_old = sends_old
        self._skips_empty = skips_empty and sends_old

    def process(self, rows: Sequence[Update], out: list[Any]) -> None:
        mapped: list[Update] = []
        self._view.process(rows, mapped)
        stored = self.stored
        for ident, key, start, end, new, _, timestamp, context, final in mapped:
            found = stored.get(ident, start, end) if self._sends_old else None
            old = None if found is None else found[0]
            if new is None and old is None and self._skips_empty:
                continue
            stored.put(ident, key, start, end, new, timestamp)
            out.append((ident, key, start, end, new, old, timestamp, context, final))

    def read(self, ident: Ident, start: int | None, end: int | None) -> Found | None:
        return self.stored.get(ident, start, end)

    def entries(self, request: StoreRequest) -> Iterator[StoreEntry]:
        return self.stored.entries(request)


ON_CHANGE: Final = "on-change"
"""The kind of a view that forwards only what changes a value."""
VIEWS: dict[str, Callable[..., TableStepOperator]] = {
    ON_CHANGE: TableOnChange,
    "filter": TableFilter,
    "filter-not": FilterNot,
    "map-values": TableMapValues,
}
VERSIONED_VIEWS: dict[str, Callable[..., TableStepOperator]] = {
    "filter": VersionedFilter,
    "filter-not": VersionedFilterNot,
    "map-values": TableMapValues,
}
