"""The entries of one task's stores on disk, and of the cuts that are not committed yet.

Owner: the task reads and calls `take`, on its own thread; whoever commits calls `commit`, on any one thread. The bytes of an entry
are those of the changelog, so a store on disk is a copy of its changelog up to an offset, and the offset is in the same batch:

    cut -> `take` -> the entries are visible, in memory -> commit of the transaction -> `commit` -> one batch with the offsets

A crash loses layers that were taken and not committed, which is right: the changelog has no committed entries of them either."""

from __future__ import annotations

import heapq
import threading
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from itertools import islice
from typing import Final, NamedTuple

from streamactors.codec import CodecError, dumps, loads
from streamactors.windows.state.disk.errors import ForeignState, StateDamaged, StateDiskFull
from streamactors.windows.state.disk.rocks import Rocks
from streamactors.windows.state.store_log import ENTRY, Change

FORMAT_VERSION: Final = 1
_OWN: Final = b"\x00"
_ENTRIES: Final = b"\x01"
_SPILLED: Final = b"\x02"
_ABOUT: Final = _OWN + b"about"
_OFFSET: Final = _OWN + b"offset"
_ORIGIN: Final = _OWN + b"origin"
_REPLAY_BATCH: Final = 20_000

Layer = dict[bytes, "bytes | None"]


class Origin(NamedTuple):
    """The changelog that entries on disk are from. `topic_id` tells it from a later topic of the same name; `leader_epoch`: the newest one seen of its
    partition, -1 for none."""

    topic_id: str
    leader_epoch: int


class TaskDisk:
    """The stores of one task on disk. `stores`: their names. `time_first`: those whose keys end with 8 bytes of time, which come first on disk, so that the
    entries of one window lie together. `check_quota`: called after each batch; raises StateDiskFull.

    Raises ForeignState for a database of a newer format, StateDamaged."""

    def __init__(
        self,
        rocks: Rocks,
        stores: Iterable[str],
        check_quota: Callable[[], None] = lambda: None,
        time_first: Container[str] = (),
    ) -> None:
        self.rocks = rocks
        self._check_quota = check_quota
        self._layers: tuple[Layer, ...] = ()  # the newest first; replaced, never changed, so that readers need no lock
        self._lock = threading.Lock()
        self._numbers = self._known_stores()
        missing = [store for store in stores if store not in self._numbers]
        if missing:
            for store in missing:
                self._numbers[store] = max(self._numbers.values(), default=0) + 1
            rocks.write({_ABOUT: dumps([FORMAT_VERSION, self._numbers])})
        self._prefixes = {store: _ENTRIES + number.to_bytes(2, "big") for store, number in self._numbers.items()}
        self._time_first = {store for store in self._numbers if store in time_first}

    def _known_stores(self) -> dict[str, int]:
        about = self.rocks.get(_ABOUT)
        if about is None:
            return {}
        try:
            version, numbers = loads(about)
        except (CodecError, TypeError, ValueError) as error:
            raise StateDamaged(f"state in {self.rocks.path}: its first entry is {about[:40]!r}: {error}") from error
        if version != FORMAT_VERSION:
            raise ForeignState(
                f"state in {self.rocks.path} has format {version}, this version reads {FORMAT_VERSION}; "
                "use the version that wrote it, or another folder"
            )
        return dict(numbers)

    @property
    def stores(self) -> tuple[str, ...]:
        """The names of all stores that have ever been in the database."""
        return tuple(self._numbers)

    # ── reading ───────────────────────────────────────────────────────────────────────────────────────────────────

    def get(self, store: str, key: bytes) -> bytes | None:
        """Return the newest bytes of an entry, None if there is none; cuts that are not committed count."""
        full = self._prefixes[store] + key
        for layer in self._layers:
            if full in layer:
                return layer[full]
        return self.rocks.get(full)

    def committed(self, store: str, key: bytes) -> bytes | None:
        """Return the bytes of an entry as of the last commit."""
        return self.rocks.get(self._prefixes[store] + key)

    def scan(
        self,
        store: str,
        lower: bytes = b"",
        upper: bytes | None = None,
        *,
        backwards: bool = False,
        committed: bool = False,
    ) -> Iterator[tuple[bytes, bytes]]:
        """Return the entries with lower <= key < upper (None: to the end), by the bytes of the key."""
        prefix = self._prefixes[store]
        low, high = prefix + lower, after(prefix) if upper is None else prefix + upper
        layers = () if committed else self._layers
        found = self.rocks.scan(low, high, backwards=backwards)
        cut = len(prefix)
        if not layers:
            for key, value in found:
                yield key[cut:], value
            return
        newer: Layer = {}
        for layer in reversed(layers):
            newer.update({key: value for key, value in layer.items() if low <= key < high})
        ordered = sorted(newer.items(), reverse=backwards)
        unchanged = ((key, value) for key, value in found if key not in newer)
        for key, kept in heapq.merge(unchanged, ordered, key=lambda entry: entry[0], reverse=backwards):
            if kept is not None:
                yield key[cut:], kept

    def offset(self, store: str) -> int:
        """Return the changelog offset up to which the database has the store's entries; 0 for none."""
        found = self.rocks.get(_OFFSET + self._prefixes[store])
        return 0 if found is None else int.from_bytes(found, "big")

    def origin(self, store: str) -> Origin | None:
        """Return which changelog the entries of a store are from; None for a database of a version that did not note it."""
        found = self.rocks.get(_ORIGIN + self._prefixes[store])
        if found is None:
            return None
        topic_id, leader_epoch = loads(found)
        return Origin(topic_id, leader_epoch)

    def set_origin(self, store: str, origin: Origin) -> None:
        """Note which changelog the entries of a store are from. Raises StateDiskFull."""
        if self.origin(store) != origin:
            self.rocks.write({_ORIGIN + self._prefixes[store]: dumps([origin.topic_id, origin.leader_epoch])})

    # ── writing ───────────────────────────────────────────────────────────────────────────────────────────────────

    def take(self, changes: Iterable[Change]) -> None:
        """Take the entries of a cut; they are visible from now on, and written by the `commit` of this cut."""
        prefixes, time_first = self._prefixes, self._time_first
        layer: Layer = {
            prefixes[store] + (with_time_first(key) if store in time_first else key): value
            for store, key, value in changes
        }
        with self._lock:
            self._layers = (layer, *self._layers)

    def commit(self, offsets: Mapping[str, int] | None = None) -> None:
        """The oldest cut is committed: write it, with the changelog's offsets after it. Raises StateDiskFull, StateDamaged."""
        layers = self._layers
        batch = dict(layers[-1]) if layers else {}
        for store, offset in (offsets or {}).items():
            batch[_OFFSET + self._prefixes[store]] = offset.to_bytes(8, "big")
        if batch:
            self.rocks.write(batch)
        if layers:
            with self._lock:
                self._layers = self._layers[:-1]
        self._check_quota()

    def replay(self, store: str, entries: Iterable[tuple[bytes, bytes | None]], offset: int) -> None:
        """Write entries that were read from the changelog before `offset`, and the offset with them."""
        prefix = self._prefixes[store]
        batch: Layer = {}
        moves = store in self._time_first
        for key, value in entries:
            batch[prefix + (with_time_first(key) if moves else key)] = value
            if len(batch) >= _REPLAY_BATCH:
                self.rocks.write(batch)
                batch = {}
        batch[_OFFSET + prefix] = offset.to_bytes(8, "big")
        self.rocks.write(batch)
        self._check_quota()

    def clear(self, store: str) -> None:
        """Remove all entries of a store and its offset: its changelog is read from the beginning."""
        prefix = self._prefixes[store]
        self.rocks.write({_OFFSET + prefix: None, _ORIGIN + prefix: None})
        _remove_all(self.rocks, prefix)

    def spill(self, store: str) -> Spill:
        """Return an empty place on disk for keys that a run writes beside the entries of a store."""
        return Spill(self.rocks, _SPILLED + self._prefixes[store][len(_ENTRIES) :])

    @property
    def uncommitted(self) -> int:
        """Number of entries that were taken and not committed."""
        return sum(map(len, self._layers))

    def close(self) -> None:
        """Close the database. Entries that are not committed are forgotten. Idempotent."""
        self.rocks.close()


class Spill:
    """Keys on disk, of one run; the run before may have left some."""

    def __init__(self, rocks: Rocks, prefix: bytes) -> None:
        self._rocks = rocks
        self._prefix = prefix
        _remove_all(rocks, prefix)

    def put(self, keys: Iterable[bytes]) -> None:
        """Write keys. Raises StateDiskFull, StateDamaged."""
        batch: Layer = {self._prefix + key: b"" for key in keys}
        if batch:
            self._rocks.write(batch)

    def all(self) -> Iterator[bytes]:
        """Return all keys, in order."""
        return (key[len(self._prefix) :] for key, _ in self._rocks.scan(self._prefix, after(self._prefix)))

    def take(self, low: bytes, most: int) -> list[bytes]:
        """Remove the first keys >= low, at most `most`; return them in order."""
        found = [key for key, _ in islice(self._rocks.scan(self._prefix + low, after(self._prefix)), most)]
        if found:
            self._rocks.write(dict.fromkeys(found))
        return [key[len(self._prefix) :] for key in found]


def _remove_all(rocks: Rocks, prefix: bytes) -> None:
    batch: Layer = {}
    for key, _ in rocks.scan(prefix, after(prefix)):
        batch[key] = None
        if len(batch) >= _REPLAY_BATCH:
            rocks.write(batch)
            batch = {}
    if batch:
        rocks.write(batch)


def with_time_first(key: bytes) -> bytes:
    """Return the key of an entry of a window with its time in front; the metadata's key stays."""
    return key if not key.startswith(ENTRY) else ENTRY + key[-8:] + key[1:-8]


def after(prefix: bytes) -> bytes:
    """Return the smallest key after all keys that begin with `prefix`, which is not empty and not all 0xff."""
    stripped = prefix.rstrip(b"\xff")
    return stripped[:-1] + bytes([stripped[-1] + 1])


def refuse_above(quota_bytes: int, used: int, path: object) -> None:
    """Raise StateDiskFull if more bytes are used than the quota allows."""
    if used > quota_bytes:
        raise StateDiskFull(
            f"state in {path} takes {used >> 20} MB, its quota is {quota_bytes >> 20} MB; raise State.on_disk(quota=…), or let state "
            "end earlier: ttl=, shorter windows"
        )
