"""The requests of readers from outside to a store, and the answers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from streamactors.mime_bundles import Bundle

KINDS: Final = ("get", "range", "prefix", "windows")


class StoreEntry(NamedTuple):
    """One entry of a store. `timestamp`: None where the store keeps none. `start` and `end`: the window, None without windows."""

    key: Any
    value: Any
    timestamp: int | None = None
    start: int | None = None
    end: int | None = None


class ShownEntries(list[StoreEntry]):
    """Entries that a notebook shows as a table."""

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> Bundle:
        return entries_bundle(f"{len(self):,} entr{'y' if len(self) == 1 else 'ies'}", self)


def entries_bundle(title: str, entries: Iterable[StoreEntry]) -> Bundle:
    """Return entries as a table for a notebook, without the columns that none of them has."""
    from streamactors.mime_bundles import table_bundle

    found = list(entries)
    used = [index for index in range(len(StoreEntry._fields)) if index < 2 or any(e[index] is not None for e in found)]
    columns = [StoreEntry._fields[index] for index in used]
    return table_bundle(title, columns, ([entry[index] for index in used] for entry in found))


class StoreRequest(NamedTuple):
    """What is asked of a store. get: `key`; range: `key` to `last`, both included, None for no bound; prefix: `key`; windows: those of `key` that
    begin from `first_ms` to `last_ms`."""

    kind: str
    key: Any = None
    last: Any = None
    first_ms: int | None = None
    last_ms: int | None = None
