"""Changelog entries of one store: what a task writes at a commit and reads back when it is restored.

Owner: the operator that has the store. A commit writes each changed key once, and a tombstone for each key that left. One
more entry holds the store's metadata: format, application, partition, number of partitions, node, definition and the
operator's stream time. So a restart changes nothing, and the changelog of another task is refused. The codec encodes
all entries; nothing is unpickled."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from sys import intern
from typing import Any, Final, NamedTuple, Protocol

from streamactors.codec import CodecError, dumps, loads
from streamactors.windows.errors import RestoreError
from streamactors.windows.record import RecordContext, new_context

FORMAT_VERSION: Final = 1
META_KEY: Final = b"\x00meta"
ENTRY: Final = b"\x01"
"""The first byte of each entry's key; the metadata has another key."""
_WAYS_OUT: Final = {
    "group": "run it in the group that has written it, or give this run a group_id of its own",
    "partition": "the changelog topic holds entries of another partition; begin in another group, or with an empty changelog",
    "partition count": "the number of partitions of the input has changed; begin in another group, or with an empty changelog",
    "node": "the step had another name; give it that name back, or begin in another group, or with an empty changelog",
    "definition": "the step computes something else now; give it another name=, or begin in another group, or with an empty changelog",
}
_FIELDS: Final = tuple(_WAYS_OUT)


class Change(NamedTuple):
    """One changelog entry: the store's name, the key, and the value or None for a tombstone."""

    store: str
    key: bytes
    value: bytes | None


@dataclass(frozen=True, slots=True)
class TaskIdentity:
    """The owner of a state. `application` names the run that writes it; `partition`, of `partitions`, is the input's."""

    application: str = ""
    partition: int = 0
    partitions: int = 1


class Stateful(Protocol):
    """What a task keeps in changelogs: operators with a store, and stores that several operators share."""

    store: str | None

    def changes(self, identity: TaskIdentity) -> Iterable[Change]:
        """Return the changelog entries of the state that changed since the last call."""

    def restore(self, reader: StoreReader) -> None:
        """Rebuild the state from the changelog entries of the store."""


class NewestEntries:
    """The newest entries of the stores of a task, as read from their changelogs. Iteration gives them as changes, store by store."""

    def __init__(self) -> None:
        self.stores: dict[str, dict[bytes, bytes]] = {}
        """The values of each store by key, the entry that was written last after the others."""

    def add(self, store: str, keys: Sequence[bytes], values: Sequence[bytes | None]) -> None:
        """Take the next entries of a store. A value replaces an earlier one of its key; None removes it."""
        found = self.stores.setdefault(store, {})
        if None not in values:
            before = len(found)
            found.update(zip(keys, values, strict=True))  # type: ignore[arg-type]  # no value is None
            if len(found) == before + len(keys):  # every key was new
                return
        for key, value in zip(keys, values, strict=True):
            found.pop(key, None)
            if value is not None:
                found[key] = value

    def __iter__(self) -> Iterator[Change]:
        return (Change(store, key, value) for store, found in self.stores.items() for key, value in found.items())

    def __len__(self) -> int:
        return sum(map(len, self.stores.values()))


class Logged(Protocol):
    """An object in a store. `dirty`: it waits for the next commit. `logged`: the changelog has an entry of it, so its
    removal needs a tombstone. Without a changelog an object is dirty from the start and stays dirty."""

    dirty: bool
    logged: bool


class StoreLog:
    """The changes of one store since the last commit. `on`: the task keeps a changelog.

    `expires`: the changelog deletes old entries, so the metadata is written with every commit and is never older than an entry."""

    __slots__ = ("_gone", "_last_meta", "_touched", "expires", "node", "on", "shape", "store")

    def __init__(self, store: str, node: str, shape: str, on: bool) -> None:
        self.store = store
        self.node = node
        self.shape = shape
        self.on = on
        self.expires = False
        self._touched: list[tuple[Any, Any]] = []
        self._gone: list[bytes] = []
        self._last_meta: bytes | None = None

    def touch(self, where: Any, cell: Logged) -> None:
        """`cell` is new, or changed and was not dirty; `touched` returns `where` with it."""
        if self.on:
            cell.dirty = True
            self._touched.append((where, cell))

    def leave(self, key: bytes, cell: Logged) -> None:
        """`cell` was removed from the store; `key` is its key in the changelog."""
        if self.on:
            cell.dirty = False
            if cell.logged:
                self._gone.append(key)

    def touched(self) -> Iterator[tuple[Any, Any]]:
        """Return each changed object that is still in the store once, and mark it as logged."""
        for where, cell in self._touched:
            if cell.dirty:
                cell.dirty = False
                cell.logged = True
                yield where, cell
        self._touched.clear()

    def changes(
        self, identity: TaskIdentity, state: dict[str, Any], changed: Iterable[tuple[bytes, list[Any]]]
    ) -> Iterator[Change]:
        """Return the entries to write: the metadata if it changed, the tombstones, and the `changed` (key, fields)."""
        owner = [identity.application, identity.partition, identity.partitions, self.node, self.shape]
        meta = dumps([FORMAT_VERSION, *owner, state])
        entries: dict[bytes, bytes] = {}
        key = b""
        try:
            for key, fields in changed:
                entries[key] = dumps(fields)
        except CodecError as error:
            raise CodecError(f"store {self.store}, key {key[:40]!r}: {error}") from error
        if meta != self._last_meta or (self.expires and entries):
            self._last_meta = meta
            yield Change(self.store, META_KEY, meta)
        for key in dict.fromkeys(self._gone):
            if key not in entries:
                yield Change(self.store, ENTRY + key, None)
        self._gone.clear()
        for key, value in entries.items():
            yield Change(self.store, ENTRY + key, value)


def as_restored(cell: Any) -> Any:
    """Mark `cell` as read from the changelog: it does not wait for a commit."""
    cell.dirty, cell.logged = False, True
    return cell


def pack_context(context: RecordContext | None) -> Any:
    return None if context is None else [context.topic, context.partition, context.offset, list(context.headers)]


def unpack_context(packed: Any) -> RecordContext | None:
    if packed is None:
        return None
    topic, partition, offset, headers = packed
    return new_context((intern(topic), partition, offset, tuple(headers) if headers else ()))


@dataclass(slots=True)
class StoreReader:
    """The entries of one store as read from its changelog, the newest of each key."""

    store: str
    identity: TaskIdentity
    _entries: dict[bytes, bytes] = field(default_factory=dict)

    def add(self, key: bytes, value: bytes | None) -> None:
        """Take the next entry. It replaces an earlier one of its key; a tombstone removes it."""
        self._entries.pop(key, None)
        if value is not None:
            self._entries[key] = value

    def add_all(self, entries: Mapping[bytes, bytes]) -> None:
        """Take the newest entries of the store, the first ones it gets."""
        self._entries.update(entries)

    def __len__(self) -> int:
        return len(self._entries)

    def state(self, log: StoreLog) -> dict[str, Any] | None:
        """Return the operator's own part of the metadata; None if the changelog is empty.

        Raises RestoreError if the changelog belongs to another task."""
        value = self._entries.get(META_KEY)
        if value is None:
            if self._entries:
                raise RestoreError(
                    f"changelog of {self.store} has {len(self._entries)} entries but no metadata: "
                    "it was not written by this package, or its beginning was deleted; use an empty topic"
                )
            return None
        fields = self._decode(META_KEY, value)
        if not isinstance(fields, list) or len(fields) != 2 + len(_FIELDS) or fields[0] != FORMAT_VERSION:
            version = fields[0] if isinstance(fields, list) and fields else fields
            raise RestoreError(
                f"changelog of {self.store} has format version {version!r}, this version reads {FORMAT_VERSION}: "
                "restore it with the version that wrote it, or begin with an empty changelog"
            )
        mine = self.identity
        wanted = (mine.application, mine.partition, mine.partitions, log.node, log.shape)
        for name, has, needs in zip(_FIELDS, fields[1:-1], wanted, strict=True):
            if has != needs:
                raise RestoreError(
                    f"changelog of {self.store} belongs to {name} {has!r}, this task has {needs!r}: {_WAYS_OUT[name]}"
                )
        state = fields[-1]
        assert isinstance(state, dict)
        return state

    def entries(self) -> Iterator[list[Any]]:
        """Return the fields of each entry except the metadata."""
        for key, value in self._entries.items():
            if key[:1] == ENTRY:
                try:
                    yield loads(value)
                except CodecError as error:
                    raise _damaged(self.store, key, error) from error
            elif key != META_KEY:
                raise RestoreError(f"changelog of {self.store} has the key {key[:40]!r}, which no store writes")

    def _decode(self, key: bytes, value: bytes) -> Any:
        try:
            return loads(value)
        except CodecError as error:
            raise _damaged(self.store, key, error) from error


def _damaged(store: str, key: bytes, error: CodecError) -> RestoreError:
    return RestoreError(f"changelog of {store}, key {key[:40]!r}: {error}")
