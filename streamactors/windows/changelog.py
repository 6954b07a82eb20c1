"""Changelog entries: what a task's state is written as, and what it is restored from.

Owner: each store's entries belong to the operator that has the store; the task hands them out at a commit and takes
them back at a start. On a commit each changed key is written once, with a tombstone if it left. A store's meta data is
an entry of its own: format, application, node, definition, partition and number of partitions, beside the operator's
stream time, so that a restart changes nothing and a foreign changelog is refused. Written and read with the exact
codec, never pickle."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from streamactors.windows.codec import CodecError, dumps, loads
from streamactors.windows.errors import RestoreError
from streamactors.windows.record import RecordContext

FORMAT_VERSION: Final = 1
META_KEY: Final = b"\x00meta"
_ENTRY: Final = b"\x01"
_FIELDS: Final = ("application", "partition", "partition count", "node", "definition")


class Change(NamedTuple):
    """One changelog entry: the store it belongs to, its key, its value or None for a tombstone."""

    store: str
    key: bytes
    value: bytes | None


@dataclass(frozen=True, slots=True)
class TaskIdentity:
    """Whose state it is. `application` names the run that writes it, `partition` is the input's, of `partitions`."""

    application: str = ""
    partition: int = 0
    partitions: int = 1


class StoreLog:
    """What changed in one store since the last commit: the cells that were touched, the keys that left.

    A cell has two flags: `dirty`, it is listed here and waits for the next commit; `logged`, the changelog has it, so
    its end needs a tombstone. While nobody keeps a changelog cells stay dirty from birth and nothing is listed."""

    __slots__ = ("_gone", "_last_meta", "_touched", "node", "on", "shape", "store")

    def __init__(self, store: str, node: str, shape: str, on: bool) -> None:
        self.store = store
        self.node = node
        self.shape = shape
        self.on = on
        self._touched: list[tuple[Any, Any]] = []
        self._gone: list[bytes] = []
        self._last_meta: bytes | None = None

    def touch(self, where: Any, cell: Any) -> None:
        """`cell` changed (and was not dirty), or is new; `where` is what its key is made of."""
        if self.on:
            cell.dirty = True
            self._touched.append((where, cell))

    def leave(self, key: bytes, cell: Any) -> None:
        """`cell` is no longer in the store; `key` is the one `drain` would have given it."""
        if self.on:
            cell.dirty = False
            if cell.logged:
                self._gone.append(key)

    def touched(self) -> Iterator[tuple[Any, Any]]:
        """The changed cells that are still there, each once; they count as logged from now on."""
        for where, cell in self._touched:
            if cell.dirty:
                cell.dirty = False
                cell.logged = True
                yield where, cell
        self._touched.clear()

    def changes(self, identity: TaskIdentity, state: dict[str, Any], entries: dict[bytes, bytes]) -> Iterator[Change]:
        """The entries to write: the meta data if it changed, tombstones, and `entries`, made of what `touched` gave."""
        meta = dumps(
            [
                FORMAT_VERSION,
                identity.application,
                identity.partition,
                identity.partitions,
                self.node,
                self.shape,
                state,
            ]
        )
        if meta != self._last_meta:
            self._last_meta = meta
            yield Change(self.store, META_KEY, meta)
        for key in dict.fromkeys(self._gone):
            if key not in entries:
                yield Change(self.store, _ENTRY + key, None)
        self._gone.clear()
        for key, value in entries.items():
            yield Change(self.store, _ENTRY + key, value)


def pack_context(context: RecordContext | None) -> Any:
    if context is None:
        return None
    return [context.topic, context.partition, context.offset, list(context.headers)]


def unpack_context(packed: Any) -> RecordContext | None:
    if packed is None:
        return None
    topic, partition, offset, headers = packed
    return RecordContext(topic, partition, offset, tuple(headers))


@dataclass(slots=True)
class StoreReader:
    """The entries of one store as read from its changelog, the newest of each key."""

    store: str
    identity: TaskIdentity
    _entries: dict[bytes, bytes] = field(default_factory=dict)

    def add(self, key: bytes, value: bytes | None) -> None:
        """Take the next entry; a later one replaces an earlier one, a tombstone removes it."""
        self._entries.pop(key, None)
        if value is not None:
            self._entries[key] = value

    def __len__(self) -> int:
        return len(self._entries)

    def state(self, log: StoreLog) -> dict[str, Any] | None:
        """The operator's own part of the meta data; None if the changelog is empty.

        Raises RestoreError if the changelog is not this task's."""
        value = self._entries.get(META_KEY)
        if value is None:
            if self._entries:
                raise RestoreError(
                    f"changelog of {self.store} has {len(self._entries)} entries but no meta data: "
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
                    f"changelog of {self.store} belongs to {name} {has!r}, this task has {needs!r}: "
                    "use another application id, or begin with an empty changelog"
                )
        state = fields[-1]
        assert isinstance(state, dict)
        return state

    def entries(self) -> Iterator[tuple[bytes, Any]]:
        """Every entry but the meta data: (key, decoded value)."""
        for key, value in self._entries.items():
            if key != META_KEY:
                if not key.startswith(_ENTRY):
                    raise RestoreError(f"changelog of {self.store} has the key {key[:40]!r}, which no store writes")
                yield key[len(_ENTRY) :], self._decode(key, value)

    def _decode(self, key: bytes, value: bytes) -> Any:
        try:
            return loads(value)
        except CodecError as error:
            raise RestoreError(f"changelog of {self.store}, key {key[:40]!r}: {error}") from error
