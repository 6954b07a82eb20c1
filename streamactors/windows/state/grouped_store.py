"""Entries in groups: all entries of one group are read together, in the order of their keys.

Owner: one operator of one task. The key in the changelog is the group's bytes, then the member's; so no group's bytes may begin with those
of another group. In memory a group is sorted when it is read, if an entry has been added since: adding costs no search."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, Protocol, TypeVar

from streamactors.windows.state.ordered_store import OrderedStore, after_prefix

T = TypeVar("T")


class GroupedStore(Protocol[T]):
    """Objects by group and member."""

    def get(self, group: bytes, member: bytes) -> T | None:
        """Return an object, or None."""

    def put(self, group: bytes, member: bytes, entry: T) -> None:
        """Keep or replace an object."""

    def remove(self, group: bytes, member: bytes) -> T | None:
        """Remove an object; return it, or None if there is none."""

    def of(self, group: bytes) -> Sequence[T]:
        """Return the objects of a group, by the bytes of their members."""


class MemoryGroupedStore(Generic[T]):
    """A GroupedStore of a dict for each group."""

    __slots__ = ("_groups", "_unsorted")

    def __init__(self) -> None:
        self._groups: dict[bytes, dict[bytes, T]] = {}
        self._unsorted: set[bytes] = set()

    def __len__(self) -> int:
        """Return the number of objects. O(groups)."""
        return sum(map(len, self._groups.values()))

    def get(self, group: bytes, member: bytes) -> T | None:
        members = self._groups.get(group)
        return None if members is None else members.get(member)

    def put(self, group: bytes, member: bytes, entry: T) -> None:
        members = self._groups.get(group)
        if members is None:
            self._groups[group] = {member: entry}
            return
        if member not in members:
            self._unsorted.add(group)
        members[member] = entry

    def remove(self, group: bytes, member: bytes) -> T | None:
        members = self._groups.get(group)
        if members is None:
            return None
        entry = members.pop(member, None)
        if not members:
            del self._groups[group]
            self._unsorted.discard(group)
        return entry

    def of(self, group: bytes) -> Sequence[T]:
        members = self._groups.get(group)
        if members is None:
            return ()
        if group in self._unsorted:
            self._unsorted.discard(group)
            members = self._groups[group] = {member: members[member] for member in sorted(members)}
        return list(members.values())


class GroupsInOrder(Generic[T]):
    """A GroupedStore on top of an ordered one."""

    def __init__(self, entries: OrderedStore[T]) -> None:
        self._entries = entries

    def get(self, group: bytes, member: bytes) -> T | None:
        return self._entries.get(group + member)

    def put(self, group: bytes, member: bytes, entry: T) -> None:
        self._entries.put(group + member, entry)

    def remove(self, group: bytes, member: bytes) -> T | None:
        return self._entries.remove(group + member)

    def of(self, group: bytes) -> Sequence[T]:
        return [entry for _, entry in self._entries.scan(group, after_prefix(group))]
