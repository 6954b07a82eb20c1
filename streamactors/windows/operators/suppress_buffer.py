"""Suppress: holds back the updates of a table until a window closes, or for a limit of stream time.

Owner: WindowTask. For each update the buffer moves its own stream time, stores the update, emits the entries that are due,
and then checks its bounds. An entry is due once stream time has passed its buffer time by `wait` or more. A later update
of an entry replaces the value but keeps the first buffer time (unless the timer restarts on updates). Emitted entries are
forgotten. Entries leave ordered by buffer time, then by serialised key. The rules are those of Kafka Streams (KIP-328)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, Final, TypeAlias

from streamactors.gauges import Gauge
from streamactors.windows.definitions.suppressed import Suppressed
from streamactors.windows.definitions.windows import FOREVER
from streamactors.windows.errors import BufferFull
from streamactors.windows.metrics import SuppressMetrics
from streamactors.windows.operators.buffered import Buffered, entry_bytes
from streamactors.windows.operators.operator import (
    NO_TIME,
    Found,
    Ident,
    Operator,
    TaskEnvironment,
    TimedOperator,
    Update,
)
from streamactors.windows.record import RecordContext
from streamactors.windows.state.calendar_queue import CalendarQueue
from streamactors.windows.state.reads import StoreEntry, StoreRequest
from streamactors.windows.state.serdes import key_bytes
from streamactors.windows.state.store_log import StoreReader, as_restored, pack_context, unpack_context
from streamactors.windows.state.stores import Form, Stores
from streamactors.windows.values import IMMUTABLE, snapshot

Where: TypeAlias = Ident | tuple[Ident, int, int]
"""Identifies an entry: the ident of the key, with start and end where there is a window."""

BUCKETS: Final = 64
"""The number of buckets into which a calendar queue divides the usual wait."""


class Held:
    """One entry: the last update of a key (and window), the value before the first update, and the buffer time."""

    __slots__ = (
        "context", "dirty", "key", "logged", "new", "next_early", "old", "prior", "size", "tie", "time", "timestamp",
        "where",
    )  # fmt: skip

    def __init__(self, where: Where, key: Any, prior: Any, time: int, tie: bytes) -> None:
        self.where = where
        self.key = key
        self.prior = prior
        self.time = time
        self.tie = tie
        self.new: Any = None
        self.old: Any = None
        self.timestamp = NO_TIME
        self.context: RecordContext | None = None
        self.size = 0
        self.next_early = NO_TIME
        self.dirty = True
        self.logged = False


class SuppressBuffer(TimedOperator):
    """`wait_ms`: how far stream time must pass a buffer time. `session`: keys are serialised as those of sessions.
    `parent`: the table whose updates are held back."""

    def __init__(
        self,
        node: str,
        store: str,
        env: TaskEnvironment,
        suppressed: Suppressed,
        wait_ms: int,
        session: bool,
        parent: Operator,
        report: SuppressMetrics,
        stores: Stores,
        bucket_ms: int = 0,
    ) -> None:
        super().__init__(node, store, f"suppressed {'final results' if suppressed.final else 'updates'}", env)
        self._final = suppressed.final
        self._wait = wait_ms
        self._session = session
        self._parent = parent
        self._report = report
        self._restarts = suppressed.restarts_timer
        self._early_every = suppressed.early_every_ms
        self._emits_early = suppressed.emits_early
        self._record_bound = suppressed.buffer.record_bound
        self._byte_bound = suppressed.buffer.byte_bound
        self._bounded = self._record_bound is not None or self._byte_bound is not None
        self._weighs = self._byte_bound is not None or report.detailed
        in_memory: CalendarQueue[Held] = CalendarQueue(bucket_ms or wait_ms // BUCKETS)
        form = Form(_fields, self._restored, on_demand=True)
        self._held, self._queue = stores.queued(store, form, self._tie_of, in_memory)
        self._bytes = 0
        bounded_by = f"{wait_ms} ms of stream time" if wait_ms < FOREVER else "the number of keys"
        self._gauge = Gauge(f"{node}: entries that are held back", unit="entries", bounded_by=bounded_by)
        self._byte_gauge: Gauge | None = None
        if self._record_bound is not None:
            self._gauge.bound = self._record_bound
        if self._byte_bound is not None:
            self._byte_gauge = Gauge(f"{node}: bytes of entries that are held back", self._byte_bound, "bytes")
        self.leaves_when_forwarded = False
        """Kafka mode: a reader of an entry that is being forwarded still sees the value before it (see `forwarded`)."""
        self.sends_released = False
        """Strict mode: the old value of a result is the result that was released before it. Kafka Streams sends the value that was held back last."""
        self._leaving: dict[Where, Held] = {}

    def process(self, rows: Sequence[Update], out: list[Any]) -> None:
        held, queue = self._held, self._queue
        stream_time, wait, final = self.stream_time, self._wait, self._final
        plain = not (self._weighs or self._bounded or self._restarts or self._early_every is not None)
        first_time = queue.first_time()
        for update in rows:
            ident, key, start, end, new, old, timestamp, context, _ = update
            if timestamp > stream_time:
                self.stream_time = stream_time = timestamp
            where = ident if start is None or end is None else (ident, start, end)
            entry = held.get(where)
            if entry is None:
                time = end if final and end is not None else timestamp
                tie = self._serialised(ident, start, end)
                entry = held[where] = Held(where, snapshot(key), snapshot(old), time, tie)
                queue.push(time, tie, entry)
                self._log.touch(where, entry)
                if time < first_time:
                    first_time = time
            elif not entry.dirty:
                self._log.touch(where, entry)
            entry.new = new if type(new) in IMMUTABLE else snapshot(new)
            entry.old = old if type(old) in IMMUTABLE else snapshot(old)
            entry.timestamp = timestamp
            entry.context = context
            if not plain:
                self._weigh_and_pass(entry, update, out)
            if first_time <= stream_time - wait:
                self._release(out)
                first_time = queue.first_time()
            if self._bounded:
                self._keep_bounds(out)
                first_time = queue.first_time()
        self._reached()

    def _advance(self, stream_time: int, out: list[Any]) -> None:
        super()._advance(stream_time, out)
        self._reached()

    def _reached(self) -> None:
        self._gauge.reached(len(self._held))
        if self._byte_gauge is not None:
            self._byte_gauge.reached(self._bytes)

    def _serialised(self, ident: Ident, start: int | None, end: int | None) -> bytes:
        key = key_bytes(ident)
        if start is None:
            return key
        if self._session:
            assert end is not None
            return key + end.to_bytes(8, "big") + start.to_bytes(8, "big")
        return key + start.to_bytes(8, "big")

    def _tie_of(self, where: Where) -> bytes:
        return self._serialised(*_parts(where))

    def _weigh_and_pass(self, entry: Held, update: Update, out: list[Any]) -> None:
        """The steps of an update that only some buffers need: restart the timer, weigh the entry, emit an early result."""
        if self._restarts and entry.timestamp > entry.time:
            entry.time = entry.timestamp
        if self._early_every is not None and (entry.new is None or self.stream_time >= entry.next_early):
            entry.next_early = self.stream_time + self._early_every
            if self.sends_released:
                update = (*update[:5], entry.prior, *update[6:])
                entry.prior = snapshot(entry.new)
            out.append(update)
        if self._weighs:
            self._bytes -= entry.size
            entry.size = self._size(entry)
            self._bytes += entry.size
            self._measure()

    def _release(self, out: list[Any]) -> None:
        """Emit everything that is due."""
        limit = self.stream_time - self._wait
        while self._queue.first_time() <= limit:
            self._emit_first(out)

    def _next_release(self) -> int | None:
        time = self._queue.first_time()
        return time + self._wait if time < FOREVER else None

    def _emit_first(self, out: list[Any]) -> None:
        """Emit the first entry; if its timer was restarted, move it to its new place instead."""
        time, tie, entry = self._queue.pop()
        if entry.time > time:
            self._queue.push(entry.time, tie, entry)
            return
        del self._held[entry.where]
        if self.leaves_when_forwarded:
            self._leaving[entry.where] = entry
        self._log.leave(tie, entry)
        self._bytes -= entry.size
        if entry.new is not None or not self._final:
            self._report.emitted += 1
            ident, start, end = _parts(entry.where)
            key, new, timestamp, context = entry.key, entry.new, entry.timestamp, entry.context
            if self.leaves_when_forwarded:
                key = snapshot(key)
            old = entry.prior if self.sends_released else entry.old
            out.append((ident, key, start, end, new, old, timestamp, context, self._final))
        if self._report.detailed:
            self._measure()

    def _is_full(self) -> bool:
        return (self._record_bound is not None and len(self._held) > self._record_bound) or (
            self._byte_bound is not None and self._bytes > self._byte_bound
        )

    def _keep_bounds(self, out: list[Any]) -> None:
        if not self._is_full():
            return
        if not self._emits_early:
            held = self.buffered()
            raise BufferFull(self.node, held.records, self._record_bound, held.bytes, self._byte_bound)
        while self._is_full():
            self._emit_first(out)

    def _size(self, entry: Held) -> int:
        return entry_bytes(self.env.serdes, len(entry.tie), entry.prior, entry.old, entry.new, entry.context)

    def _measure(self) -> None:
        if self._report.detailed:
            self._report.size.record(self._bytes)
            self._report.count.record(len(self._held))

    @property
    def holds(self) -> int:
        """Number of entries that are held back."""
        return len(self._held)

    def buffered(self) -> Buffered:
        """Return what is held back. O(1) if bytes are bounded or metrics detailed, else O(entries)."""
        size = self._bytes if self._weighs else sum(self._size(entry) for entry in self._held.values())
        return Buffered(len(self._held), size)

    def _flushed_until(self) -> int:
        if not self._final:
            return NO_TIME
        last = max((entry.time for entry in self._held.values()), default=None)
        return NO_TIME if last is None else last + self._wait

    def read(self, ident: Ident, start: int | None, end: int | None) -> Found | None:
        where = ident if start is None or end is None else (ident, start, end)
        entry = self._leaving.get(where) or self._held.get(where)
        if entry is None:
            return self._parent.read(ident, start, end)
        return None if entry.prior is None else (snapshot(entry.prior), None)  # its timestamp is not known

    def entries(self, request: StoreRequest) -> Iterator[StoreEntry]:
        """Return the table as it was last emitted: its entries, with the earlier values of those that are held back."""
        of = self.env.identity.of
        held = {_parts(entry.where): entry for entry in chain(self._held.values(), self._leaving.values())}
        for each in self._parent.entries(request):
            if (of(each.key), each.start, each.end) not in held:
                yield each
        for (_, start, end), entry in held.items():
            if entry.prior is not None:
                yield StoreEntry(entry.key, entry.prior, None, start, end)

    def forwarded(self) -> None:
        self._leaving.clear()

    def _entries(self) -> Iterator[tuple[bytes, list[Any]]]:
        for _, entry in self._log.touched():
            yield entry.tie, _fields(entry)

    def restore(self, reader: StoreReader) -> None:
        super().restore(reader)
        for entry in self._held.values():
            self._queue.push(entry.time, entry.tie, entry)
            self._bytes += entry.size
        if self._weighs:
            self._measure()

    def _restore_entries(self, entries: Iterable[list[Any]]) -> None:
        held, restored = self._held, self._restored
        for fields in entries:
            entry = restored(fields)
            held[entry.where] = entry

    def _restored(self, fields: list[Any]) -> Held:
        """Return the entry of a changelog entry."""
        key, start, end, new, old, prior, timestamp, context, time, next_early = fields
        ident = self.env.identity.of(key)
        where = ident if start is None else (ident, start, end)
        entry: Held = as_restored(Held(where, key, prior, time, self._serialised(ident, start, end)))
        entry.new, entry.old, entry.timestamp, entry.context = new, old, timestamp, unpack_context(context)
        entry.next_early = next_early
        if self._weighs:
            entry.size = self._size(entry)
        return entry


def _fields(entry: Held) -> list[Any]:
    window, context = _parts(entry.where)[1:], pack_context(entry.context)
    values = [entry.new, entry.old, entry.prior, entry.timestamp, context, entry.time, entry.next_early]
    return [entry.key, *window, *values]


def _parts(where: Where) -> tuple[Ident, int | None, int | None]:
    return where if isinstance(where, tuple) else (where, None, None)
