"""Suppress: hold back the updates of a table until a window closes, or for a limit of stream time.

Owner: WindowTask. For every update, in this order: move the own stream time, put it into the buffer, give out what is
due, then look at the bounds. An entry is due once its buffer time lies `wait` or more behind. A later update of an
entry replaces its value but keeps the first buffer time (unless the timer restarts on updates), and what left is
forgotten. Out they come by buffer time, then by serialised key. Kafka Streams' rules (KIP-328)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, TypeAlias

from streamactors.windows.buffered import Buffered, entry_bytes
from streamactors.windows.changelog import Change, StoreLog, StoreReader, TaskIdentity, pack_context, unpack_context
from streamactors.windows.codec import dumps, key_bytes
from streamactors.windows.definitions import FOREVER
from streamactors.windows.errors import BufferFull
from streamactors.windows.metrics import SuppressMetrics
from streamactors.windows.operator import NO_TIME, Ident, Operator, Surroundings, TimedOperator
from streamactors.windows.record import RecordContext
from streamactors.windows.suppressed import Suppressed
from streamactors.windows.time_index import TimeIndex
from streamactors.windows.update import Update

Where: TypeAlias = Ident | tuple[Ident, int, int]
"""What an entry is found by: the key's stand-in, with the window where there is one."""

_BUCKETS: Final = 64  # into so many parts the time that things wait is cut


class Held:
    """One entry: the last update of a key (and window), the value before the first, the time it is held from."""

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


class Suppress(TimedOperator):
    """`wait_ms` is what stream time must pass a buffer time by; `session`: keys are serialised as sessions';
    `parent` is the table that is suppressed."""

    def __init__(
        self,
        node: str,
        store: str,
        around: Surroundings,
        suppressed: Suppressed,
        wait_ms: int,
        session: bool,
        parent: Operator,
        report: SuppressMetrics,
        bucket_ms: int = 0,
    ) -> None:
        super().__init__(node, around)
        self.store = store
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
        self._held: dict[Where, Held] = {}
        self._index: TimeIndex[Held] = TimeIndex(bucket_ms or wait_ms // _BUCKETS)
        self._bytes = 0
        shape = "final results" if suppressed.final else "updates"
        self._log = StoreLog(store, node, f"suppressed {shape}", around.track_changes)

    def process(self, rows: Sequence[Update], out: list[Any]) -> None:
        held, index = self._held, self._index
        stream_time, wait, final = self.stream_time, self._wait, self._final
        plain = not (self._weighs or self._bounded or self._restarts or self._early_every is not None)
        first_time = index.first_time()
        for update in rows:
            ident, key, start, end, new, old, timestamp, context, _ = update
            if timestamp > stream_time:
                self.stream_time = stream_time = timestamp
            where = ident if start is None or end is None else (ident, start, end)
            entry = held.get(where)
            if entry is None:
                time = end if final and end is not None else timestamp
                tie = self._serialised(ident, start, end)
                entry = held[where] = Held(where, key, old, time, tie)
                index.push(time, tie, entry)
                self._log.touch(where, entry)
                if time < first_time:
                    first_time = time
            elif not entry.dirty:
                self._log.touch(where, entry)
            entry.new = new
            entry.old = old
            entry.timestamp = timestamp
            entry.context = context
            if not plain:
                self._weigh_and_pass(entry, update, out)
            if first_time <= stream_time - wait:
                self._release(out)
                first_time = index.first_time()
            if self._bounded:
                self._keep_bounds(out)
                first_time = index.first_time()

    def _serialised(self, ident: Ident, start: int | None, end: int | None) -> bytes:
        key = key_bytes(ident)
        if start is None:
            return key
        if self._session:
            assert end is not None
            return key + end.to_bytes(8, "big") + start.to_bytes(8, "big")
        return key + start.to_bytes(8, "big")

    def _weigh_and_pass(self, entry: Held, update: Update, out: list[Any]) -> None:
        """What only some buffers do with an update: restart the timer, weigh the entry, pass an early result."""
        if self._restarts and entry.timestamp > entry.time:
            entry.time = entry.timestamp
        if self._weighs:
            self._bytes -= entry.size
            entry.size = self._size(entry)
            self._bytes += entry.size
            self._measure()
        if self._early_every is not None and (entry.new is None or self.stream_time >= entry.next_early):
            entry.next_early = self.stream_time + self._early_every
            out.append(update)

    def _release(self, out: list[Any]) -> None:
        """Give out everything that is due."""
        limit = self.stream_time - self._wait
        while self._index.first_time() <= limit:
            self._give_out_first(out)

    def _next_release(self) -> int | None:
        time = self._index.first_time()
        return time + self._wait if time < FOREVER else None

    def _give_out_first(self, out: list[Any]) -> None:
        """Give out the first entry; one whose timer was restarted takes its new place instead."""
        time, tie, entry = self._index.pop()
        if entry.time > time:
            self._index.push(entry.time, tie, entry)
            return
        del self._held[entry.where]
        self._log.leave(tie, entry)
        self._bytes -= entry.size
        if entry.new is not None or not self._final:
            self._report.emitted += 1
            ident, start, end = _parts(entry.where)
            key, new, old, timestamp, context = entry.key, entry.new, entry.old, entry.timestamp, entry.context
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
            self._give_out_first(out)

    def _size(self, entry: Held) -> int:
        return entry_bytes(self.around.serdes, len(entry.tie), entry.prior, entry.old, entry.new, entry.context)

    def _measure(self) -> None:
        if self._report.detailed:
            self._report.size.record(self._bytes)
            self._report.count.record(len(self._held))

    def buffered(self) -> Buffered:
        """What is held back now. O(1) if bytes are bounded or metrics detailed, else O(entries)."""
        size = self._bytes if self._weighs else sum(self._size(entry) for entry in self._held.values())
        return Buffered(len(self._held), size)

    def _flushed_until(self) -> int:
        if not self._final:
            return NO_TIME
        last = max((entry.time for entry in self._held.values()), default=None)
        return NO_TIME if last is None else last + self._wait

    def read(self, key: Any, ident: Ident, start: int | None, end: int | None) -> tuple[Any, int | None] | None:
        entry = self._held.get(ident if start is None or end is None else (ident, start, end))
        if entry is None:
            return self._parent.read(key, ident, start, end)
        return None if entry.prior is None else (entry.prior, None)  # its timestamp is not known

    def changes(self, identity: TaskIdentity) -> Iterator[Change]:
        entries = {
            entry.tie: dumps(
                [
                    entry.key,
                    *_parts(entry.where)[1:],
                    entry.new,
                    entry.old,
                    entry.prior,
                    entry.timestamp,
                    pack_context(entry.context),
                    entry.time,
                    entry.next_early,
                ]
            )
            for _, entry in self._log.touched()
        }
        return self._log.changes(identity, {"stream_time": self.lasting_time}, entries)

    def restore(self, reader: StoreReader) -> None:
        state = reader.state(self._log)
        if state is None:
            return
        self.stream_time = state["stream_time"]
        for _, (key, start, end, new, old, prior, timestamp, context, time, next_early) in reader.entries():
            ident = self.around.identity.of(key)
            tie = self._serialised(ident, start, end)
            where = ident if start is None else (ident, start, end)
            entry = self._held[where] = Held(where, key, prior, time, tie)
            entry.new, entry.old, entry.timestamp, entry.context = new, old, timestamp, unpack_context(context)
            entry.next_early, entry.dirty, entry.logged = next_early, False, True
            self._index.push(time, tie, entry)
            if self._weighs:
                entry.size = self._size(entry)
                self._bytes += entry.size
        self._measure()


def _parts(where: Where) -> tuple[Ident, int | None, int | None]:
    return where if isinstance(where, tuple) else (where, None, None)
