"""Session windows: rows of a key at most `gap` apart; sessions that a row bridges are merged.

Owner: WindowTask. A row at t joins every session of its key with end >= t - gap and start <= t + gap. The union of
those and [t, t] is the new session; its aggregate is init, merged with the joined ones by ascending end, then the row
added. Joined sessions are deleted first (value None, timestamp their end) unless the union is [t, t] itself. The row is
late iff the union's end lies before stream time - grace - gap.

Strict: a closed session is never joined, so its final result stays final. Kafka: it is joined as long as the store
still shows it, that is while its end > newest end ever written - retention."""

from __future__ import annotations

import struct
import time
from bisect import bisect_left
from collections.abc import Iterator, MutableMapping, Sequence
from operator import attrgetter
from typing import Any, Final

from streamactors.windows.aggregation import Aggregation
from streamactors.windows.aggregator import as_values, snapshot
from streamactors.windows.buffered import Buffered
from streamactors.windows.changelog import Change, StoreLog, StoreReader, TaskIdentity, pack_context, unpack_context
from streamactors.windows.closing import Closing
from streamactors.windows.codec import dumps, key_bytes
from streamactors.windows.definitions import SessionWindows
from streamactors.windows.operator import FATAL, NO_TIME, AggregateOperator, Ident, Surroundings
from streamactors.windows.record import Record, RecordContext
from streamactors.windows.stores import Stores

_SEGMENT_MS: Final = 60_000  # Kafka's smallest segment of a store
_FEW: Final = 8  # so many sessions are looked through faster than searched
_end_of = attrgetter("end")
_TWO_TIMES: Final = struct.Struct(">QQ").pack


class Session:
    """[start, end] of a key with its aggregate. `gone`: merged into another or deleted; `old` is then what it was."""

    __slots__ = ("context", "dirty", "end", "gone", "ident", "key", "logged", "old", "prior", "start", "value")

    def __init__(self, ident: Ident, key: Any, start: int, end: int, value: Any, context: RecordContext | None) -> None:
        self.ident = ident
        self.key = key
        self.start = start
        self.end = end
        self.value = value
        self.context = context
        self.prior: Any = None
        self.old: Any = None
        self.gone = False
        self.dirty = True
        self.logged = False

    def __lt__(self, other: object) -> bool:
        return False


class SessionOperator(AggregateOperator):
    """Sessions as updates, or with `closing` as final results when they close."""

    def __init__(
        self,
        spec: Aggregation[SessionWindows],
        around: Surroundings,
        stores: Stores,
        closing: Closing[Session] | None = None,
    ) -> None:
        super().__init__(spec.node, around)
        self.store = spec.store
        self._gap = spec.windows.gap_ms
        self._wait = spec.windows.wait_ms
        self._retention = spec.retention_ms
        self._sessions: MutableMapping[Ident, list[Session]] = stores.keyed(spec.store)  # of a key by (end, start)
        self._log = StoreLog(spec.store, spec.node, spec.shape, around.track_changes)
        aggregator = spec.aggregator
        assert aggregator.merge is not None
        merge = aggregator.merge
        self._counting = aggregator.kind == "count"
        self._init = aggregator.init
        self._add = as_values(aggregator.add)
        self._merge = as_values(lambda left, right: merge(left, snapshot(right)))
        self._finals = spec.finals
        self._kafka = spec.kafka
        self._closing = closing
        self._newest = NO_TIME  # the largest end ever written
        self._next_sweep = NO_TIME

    def process(self, rows: Sequence[Record], out: list[Any]) -> None:
        identity = self.around.identity
        text, identify = identity.text, identity.of
        closes = self._closing is not None
        for record in rows:
            ident = record.key
            timestamp = record.timestamp
            try:
                if type(ident) is not text:
                    if ident is None:
                        self._reject(record)
                        continue
                    ident = identify(ident)
                if timestamp > self.stream_time:
                    self.stream_time = timestamp
                elif timestamp < 0:
                    self._reject(record)
                    continue
                self._take(ident, record, timestamp, out)
                if closes and timestamp == self.stream_time:
                    self._release(out, record.context)
            except FATAL:
                raise
            except Exception as error:  # noqa: BLE001 - whatever user code raises
                self._failed(error, record)
        if self.stream_time > self._next_sweep:
            self._sweep()

    def _take(self, ident: Ident, record: Record, timestamp: int, out: list[Any]) -> None:
        sessions = self._sessions.get(ident)
        joined = self._joined(sessions, timestamp) if sessions else []
        start = end = timestamp
        for session in joined:
            if session.start < start:
                start = session.start
            if session.end > end:
                end = session.end
        limit = self.stream_time - self._wait
        if end < limit:
            self._late(record, start, end, limit)
            return
        try:
            value = self._aggregate(joined, record.value)
        except Exception as error:  # noqa: BLE001 - whatever user code raises
            self._failed(error, record, start, end)
            return
        context = record.context
        if context is not None and context.headers:
            context = context.without_headers()
        if sessions is None:
            self.around.identity.check(ident)
            sessions = self._sessions[ident] = []
        if end > self._newest:
            self._newest = end
        if start == end and joined and value is not None:  # once more the instant that is a session already
            session = joined[0]
            session.value, session.context = value, context
            if not session.dirty:
                self._log.touch(ident, session)
        else:
            if joined:
                self._leave(ident, sessions, joined, context, start != end, out)
            if value is not None:
                self._insert(ident, sessions, Session(ident, record.key, start, end, value, context))
            elif not sessions:
                del self._sessions[ident]
        if self._closing is None:
            out.append((ident, record.key, start, end, value, None, end, context, False))

    def _joined(self, sessions: list[Session], timestamp: int) -> list[Session]:
        """The sessions that a row at `timestamp` belongs to, by ascending end."""
        ends_from = timestamp - self._gap
        shown_from = self._newest - self._retention + 1 if self._kafka else self.stream_time - self._wait
        if shown_from > ends_from:
            ends_from = shown_from
        starts_to = timestamp + self._gap
        if len(sessions) > _FEW:
            sessions = sessions[bisect_left(sessions, ends_from, key=_end_of) :]
        return [session for session in sessions if session.end >= ends_from and session.start <= starts_to]

    def _leave(
        self,
        ident: Ident,
        sessions: list[Session],
        joined: list[Session],
        context: RecordContext | None,
        forwards: bool,
        out: list[Any],
    ) -> None:
        """Take the joined sessions out; `forwards`: the union is more than the row itself, so say that they are gone."""
        for session in joined:
            sessions.remove(session)
            session.gone = True
            session.old = session.value
            session.context = context
            if self._log.on:
                self._log.leave(self._log_key(ident, session), session)
            if forwards and self._closing is None:
                key, start, end, value = session.key, session.start, session.end, session.value
                out.append((ident, key, start, end, None, value, end, context, False))

    def _aggregate(self, joined: list[Session], value: Any) -> Any:
        if self._counting:
            return sum([session.value for session in joined], 1)
        aggregate = self._init()
        for session in joined:
            aggregate = self._merge(aggregate, session.value)
        return self._add(aggregate, value)

    def _insert(self, ident: Ident, sessions: list[Session], session: Session) -> None:
        """Put a new session in its place by (end, start)."""
        at = len(sessions)
        while at and sessions[at - 1].end >= session.end:
            if sessions[at - 1].end == session.end and sessions[at - 1].start <= session.start:
                break
            at -= 1
        sessions.insert(at, session)
        if self._log.on:
            self._log.touch(ident, session)
        closing = self._closing
        if closing is not None:
            key, start, end = key_bytes(ident), session.start, session.end
            tie = key + _TWO_TIMES(end, start) if closing.suppresses else start.to_bytes(8, "big") + key
            closing.put(end, tie, session)

    def _release(self, out: list[Any], trigger: RecordContext | None = None) -> None:
        """Where results are final: give out the sessions that stream time has closed."""
        if self._closing is None:
            return
        due = self._closing.due(self.stream_time - self._wait)
        if not due:
            return
        began, emitted = time.perf_counter_ns(), len(out)
        shown_from = self._newest - self._retention
        segment = max(self._retention // 2, _SEGMENT_MS)
        for session in due:
            ident, key, start, end, value, context = (
                session.ident,
                session.key,
                session.start,
                session.end,
                session.value,
                session.context,
            )
            if self._kafka:
                if end // segment < shown_from // segment:
                    continue  # its segment of the store was dropped by a jump of time before it was read
                context = trigger or context
            else:
                self._sessions[ident].remove(session)
                if self._log.on:
                    self._log.leave(self._log_key(ident, session), session)
            out.append((ident, key, start, end, value, None, end, context, True))
        self._closing.report.record(len(out) - emitted, began)

    def buffered(self) -> Buffered:
        """What a suppress buffer would hold."""
        assert self._closing is not None
        return self._closing.buffered(self.around.serdes)

    def _sweep(self) -> None:
        """Forget closed sessions beyond retention; once per retention, so a row pays a constant share."""
        kept_from = min(self.stream_time - self._wait, self._newest - self._retention + 1)
        empty = []
        for ident, sessions in self._sessions.items():
            if not sessions or sessions[0].end < kept_from:
                for session in [session for session in sessions if session.end < kept_from]:
                    sessions.remove(session)
                    if self._log.on:
                        self._log.leave(self._log_key(ident, session), session)
            if not sessions:
                empty.append(ident)
        for ident in empty:
            del self._sessions[ident]
        self._next_sweep = self.stream_time + max(self._retention, 1)

    def _flushed_until(self) -> int:
        if not self._finals:
            return NO_TIME
        ends = [session.end for sessions in self._sessions.values() for session in sessions]
        return max(ends, default=NO_TIME - 1 - self._wait) + 1 + self._wait

    def read(self, key: Any, ident: Ident, start: int | None, end: int | None) -> tuple[Any, int | None] | None:
        for session in self._sessions.get(ident, ()):
            if (session.start, session.end) == (start, end):
                return session.value, session.end
        return None

    @staticmethod
    def _log_key(ident: Ident, session: Session) -> bytes:
        return key_bytes(ident) + session.end.to_bytes(8, "big") + session.start.to_bytes(8, "big")

    def changes(self, identity: TaskIdentity) -> Iterator[Change]:
        entries = {
            self._log_key(ident, session): dumps(
                [session.key, session.start, session.end, session.value, pack_context(session.context)]
            )
            for ident, session in self._log.touched()
        }
        return self._log.changes(identity, {"stream_time": self.lasting_time, "newest": self._newest}, entries)

    def restore(self, reader: StoreReader) -> None:
        state = reader.state(self._log)
        if state is None:
            return
        self.stream_time, self._newest = state["stream_time"], state["newest"]
        limit = self.stream_time - self._wait
        closing = self._closing
        for _, (key, start, end, value, context) in reader.entries():
            ident = self.around.identity.of(key)
            session = Session(ident, key, start, end, value, unpack_context(context))
            self._closing = closing if end >= limit else None  # else it was given out already
            self._insert(ident, self._sessions.setdefault(ident, []), session)
            session.dirty, session.logged = False, True
        self._closing = closing
