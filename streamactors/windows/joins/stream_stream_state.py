"""What the two sides of a stream-stream join share: their rows, the rows that wait without a match, and the time of the join.

Owner: one join of one task."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from streamactors.gauges import Gauge
from streamactors.windows.operators.operator import NO_TIME, Ident, SilentTime, TaskEnvironment
from streamactors.windows.state.row_store import StoredRow, row_key
from streamactors.windows.state.serdes import key_bytes
from streamactors.windows.state.store_log import Change, StoreLog, StoreReader, TaskIdentity, as_restored
from streamactors.windows.state.stores import Form, Stores
from streamactors.windows.values import snapshot

NEVER: Final = 1 << 63
_SEGMENT_MS: Final = 60_000  # the shortest segment of Kafka Streams' stores
_SEQUENCES: Final = 1 << 32
LEFT: Final = b"\x01"
RIGHT: Final = b"\x00"


class JoinClock:
    """The stream time of a join, of both sides together. `min_time`: a lower bound of the times of waiting rows (Kafka mode)."""

    def __init__(self) -> None:
        self.stream_time = NO_TIME
        self.min_time = NEVER
        self.silent = SilentTime()


class SideRows:
    """The rows of one side. `newest`: the largest time put."""

    def __init__(
        self,
        store: str,
        node: str,
        shape: str,
        env: TaskEnvironment,
        stores: Stores,
        clock: JoinClock,
        retention_ms: int,
    ) -> None:
        self.store: str | None = store
        self.newest = NO_TIME
        self.retention_ms = retention_ms
        self._env = env
        self._clock = clock
        self._rows = stores.rows(store)
        self._log = StoreLog(store, node, shape, env.track_changes)
        env.expires(self._log, retention_ms)
        self._sequence = 0
        self._held = 0  # number of rows at `_held_at`; on disk without those from before the restart
        self._held_at = 0  # the sequence at the last count; each row that is put increases it by one
        self._gauge = Gauge(
            f"{store}: rows that wait for the other side",
            unit="rows",
            bounded_by=f"windows and grace, {retention_ms} ms",
        )
        self.sweeps_at = NO_TIME
        """`expire` removes rows only when it is called with a later time than this."""
        self.between = self._rows.between

    def shown(self, ident: Ident, first_ms: int, last_ms: int) -> Sequence[StoredRow]:
        """As `between`, without the rows that Kafka Streams' store hides: time <= newest - retention."""
        return self._rows.between(ident, max(first_ms, self.newest - self.retention_ms + 1), last_ms)

    def put(self, ident: Ident, key: Any, time: int, value: Any) -> None:
        """Keep a row. The store owns `value` from now on."""
        row = StoredRow(snapshot(key), time, self._sequence, value)
        self._sequence = (self._sequence + 1) % _SEQUENCES
        if time > self.newest:
            self.newest = time
        self._rows.add(ident, row)
        if self._log.on:
            self._log.touch(ident, row)

    def refuses(self, time: int) -> bool:
        """True if Kafka Streams' store on disk would not take a row: its segment of the store is dead already."""
        segment = max(self.retention_ms // 2, _SEGMENT_MS)
        return time // segment < (self.newest - self.retention_ms) // segment

    def expire(self, before_ms: int) -> None:
        """Forget the rows before a time; once in a while, so that a row pays a constant share."""
        if before_ms > self.sweeps_at:
            self.sweeps_at = before_ms + self.retention_ms
            self._reached()
            for key, row in self._rows.expire(before_ms):
                self._held -= 1
                self._log.leave(key, row)

    def _reached(self) -> None:
        """Report the number of rows: before some expire, and with each cut, so that a row costs nothing."""
        self._held += (self._sequence - self._held_at) % _SEQUENCES
        self._held_at = self._sequence
        self._gauge.reached(max(0, self._held))

    def forget(self, ident: Ident, time: int) -> None:
        """Remove the rows of a key and time: their window has closed, and their results without a match are out."""
        for row in self._rows.take(ident, time):
            self._held -= 1
            self._log.leave(row_key(ident, row), row)

    def changes(self, identity: TaskIdentity) -> Iterable[Change]:
        """Return the changelog entries since the last call."""
        for key, row in self._rows.sweep():
            self._held -= 1
            self._log.leave(key, row)
        self._reached()
        clock = self._clock
        state = {
            "stream_time": clock.stream_time,
            "min_time": None if clock.min_time == NEVER else clock.min_time,
            "newest": self.newest,
            "sequence": self._sequence,
        }
        touched = ((row_key(ident, row), row.fields()) for ident, row in self._log.touched())
        return self._log.changes(identity, state, touched)

    def restore(self, reader: StoreReader) -> None:
        """Take back the rows of the changelog."""
        state = reader.state(self._log)
        if state is None:
            return
        clock = self._clock
        clock.stream_time = max(clock.stream_time, state["stream_time"])
        if state["min_time"] is not None:
            clock.min_time = min(clock.min_time, state["min_time"])
        self.newest, self._sequence = state["newest"], state["sequence"]
        self._held_at = self._sequence
        self._rows.reach(self.newest)
        for key, time, sequence, value in sorted(reader.entries(), key=lambda fields: fields[1:3]):
            self._rows.add(self._env.identity.of(key), as_restored(StoredRow(key, time, sequence, value)))
            self._held += 1


class UnmatchedValues:
    """The values of rows of one key, time and side that have no match yet."""

    __slots__ = ("dirty", "key", "logged", "values")

    def __init__(self, key: Any, values: list[Any]) -> None:
        self.key = key
        self.values = values
        self.dirty = True
        self.logged = False


WAITING_FORM: Final[Form[UnmatchedValues]] = Form(
    lambda waiting: [waiting.key, waiting.values],
    lambda fields: as_restored(UnmatchedValues(*fields[1:])),
    on_demand=True,
)


class WaitingRows:
    """The rows of both sides that have no match yet, ordered by time, right before left, key.

    `first_time`: no row waits with a smaller time; NEVER if none waits."""

    def __init__(self, store: str, node: str, shape: str, env: TaskEnvironment, stores: Stores) -> None:
        self.store: str | None = store
        self._entries = stores.ordered(store, WAITING_FORM)
        self._log = StoreLog(store, node, shape, env.track_changes)
        self._count = 0  # number of entries; on disk without those from before the restart
        self._gauge = Gauge(
            f"{store}: keys and times without a match", unit="entries", bounded_by="windows and grace of the join"
        )
        self.first_time = NEVER

    def put(self, ident: Ident, key: Any, time: int, side: bytes, value: Any) -> None:
        """Add a row. The store owns `value` from now on."""
        where = _where(ident, time, side)
        entry = self._entries.get(where)
        if entry is None:
            entry = UnmatchedValues(snapshot(key), [value])
            self._entries.put(where, entry)
            self._count += 1
            self._gauge.reached(self._count)
            self._log.touch(where, entry)
            if time < self.first_time:
                self.first_time = time
        else:
            entry.values.append(value)
            if not entry.dirty:
                self._entries.put(where, entry)
                self._log.touch(where, entry)

    def matched(self, ident: Ident, time: int, side: bytes) -> None:
        """Rows of this key, time and side have a match, so they do not wait any longer."""
        if time >= self.first_time:
            self.remove(_where(ident, time, side))

    def remove(self, where: bytes) -> None:
        """Remove the rows of an entry, if there are any."""
        entry = self._entries.remove(where)
        if entry is not None:
            self._count -= 1
            self._log.leave(where, entry)

    def in_order(self, before_ms: int = NEVER) -> Iterator[tuple[bytes, int, bool, UnmatchedValues]]:
        """Return (place, time, whether they are left rows, rows) of each entry with time < before_ms."""
        for where, entry in self._entries.scan(None, before_ms.to_bytes(8, "big")):
            yield where, int.from_bytes(where[:8], "big"), where[8:9] == LEFT, entry

    def look_again(self) -> None:
        """Entries were removed: find the first that is left."""
        low = None if self.first_time == NEVER else self.first_time.to_bytes(8, "big")
        first = self._entries.first(low)
        self.first_time = NEVER if first is None else int.from_bytes(first[0][:8], "big")

    def changes(self, identity: TaskIdentity) -> Iterable[Change]:
        """Return the changelog entries since the last call."""
        touched = ((where, [where, entry.key, entry.values]) for where, entry in self._log.touched())
        return self._log.changes(identity, {}, touched)

    def restore(self, reader: StoreReader) -> None:
        """Take back the rows of the changelog."""
        if reader.state(self._log) is not None:
            for where, key, values in reader.entries():
                self._entries.put(where, as_restored(UnmatchedValues(key, values)))
                self._count += 1
            self.look_again()


def _where(ident: Ident, time: int, side: bytes) -> bytes:
    return time.to_bytes(8, "big") + side + key_bytes(ident)
