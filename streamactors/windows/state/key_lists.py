"""Objects in one list for each key: sessions, sliding windows. A list is in the order of times, and expires from its front.

Owner: one operator of one task. In memory the lists lie in a dict. On disk (`disk/disk_lists.py`) the list of a key is read when the key
is used, and forgotten when the key has not been used for long; so `changed` tells which lists the next cut must write."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sized
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from streamactors.windows.state.serdes import Ident
from streamactors.windows.state.store_log import Logged

G = TypeVar("G", bound=Sized)
E = TypeVar("E", bound=Logged)
E_co = TypeVar("E_co", covariant=True)


@dataclass(frozen=True, slots=True)
class ListForm(Generic[G, E]):
    """How lists G of objects E lie in a store. Their key in the changelog is the key's bytes, 8 bytes of time, and what tells apart objects
    of equal time: `suffix` bytes after the key, together."""

    suffix: int
    of: Callable[[list[Any]], E]
    """Returns the object of a changelog entry's fields, marked as restored."""
    listed: Callable[[Iterable[E]], G]
    """Returns the list of objects that come in the order of their times."""
    objects: Callable[[G], Iterable[E]]
    """Returns the objects of a list."""
    drop: Callable[[G, int], Iterable[E]]
    """Removes the objects with a smaller time from a list, and returns them."""
    key: Callable[[Ident, E], bytes]
    """Returns the key in the changelog of an object of a key."""


class KeyLists(Protocol[G, E_co]):
    """Lists by key."""

    def get(self, ident: Ident, /) -> G | None:
        """Return the list of a key; None if there is none, or an empty one."""

    def put(self, ident: Ident, listed: G, /) -> None:
        """Keep the list of a key that has none."""

    def changed(self, ident: Ident, by: int) -> None:
        """The list of a key, got in this call of the task, has changed, and has `by` objects more."""

    def objects(self) -> Iterator[E_co]:
        """Return the objects of all lists, in no order."""

    def expire(self, before_ms: int) -> Iterator[tuple[bytes, Logged]]:
        """Remove the objects with time < before_ms, now or in `sweep`; return those removed now with their keys in the changelog. O(keys)."""

    def sweep(self) -> Iterator[tuple[bytes, Logged]]:
        """A cut begins: remove objects that `expire` has left; return them with their keys in the changelog."""

    def reach(self, newest_ms: int) -> None:
        """The store may have objects up to this time."""


class MemoryLists(dict[Ident, G], Generic[G, E]):
    """KeyLists in memory."""

    __slots__ = ("_form",)

    def __init__(self, form: ListForm[G, E]) -> None:
        super().__init__()
        self._form = form

    put = dict.__setitem__

    def changed(self, ident: Ident, by: int) -> None:
        """All lists are in memory: nothing to know."""

    def objects(self) -> Iterator[E]:
        of = self._form.objects
        return (each for listed in self.values() for each in of(listed))

    def expire(self, before_ms: int) -> Iterator[tuple[bytes, Logged]]:
        form = self._form
        gone = [
            (form.key(ident, each), each) for ident, listed in self.items() for each in form.drop(listed, before_ms)
        ]
        for ident in [ident for ident, listed in self.items() if not len(listed)]:
            del self[ident]
        return iter(gone)

    def sweep(self) -> Iterator[tuple[bytes, Logged]]:
        return iter(())

    def reach(self, newest_ms: int) -> None:
        """All objects are in memory: nothing to know."""
