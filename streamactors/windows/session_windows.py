"""Session windows: rows of a key at most `gap` apart; sessions that a row bridges are merged.

Owner: WindowTask. A row at t joins every session of its key with end >= t - gap and start <= t + gap. The union of
those and [t, t] is the new session; its aggregate is init, merged with the joined ones by ascending end, then the row
added. Joined sessions are deleted first (value None, timestamp their end) unless the union is [t, t] itself. The row is
late iff the union's end lies before stream time - grace - gap.

Strict: a closed session is never joined, so its final result stays final. Kafka: it is joined as long as the store
still shows it, that is while its end > newest end ever written - retention."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, MutableMapping, Sequence
from operator import attrgetter
from typing import Any, Final

from streamactors.windows.aggregator import Aggregator, as_values, snapshot
from streamactors.windows.changelog import Change, StoreLog, StoreReader, TaskIdentity, pack_context, unpack_context
from streamactors.windows.codec import dumps, key_bytes
from streamactors.windows.definitions import SessionWindows, grace_of
from streamactors.windows.emitter import Emitter
from streamactors.windows.operator import FATAL, NO_TIME, AggregateOperator, Ident, Surroundings
from streamactors.windows.record import Record, RecordContext
from streamactors.windows.stores import Stores

_SEGMENT_MS: Final = 60_000  # Kafka's smallest segment of a store
_FEW: Final = 8  # so many sessions are looked through faster than searched
_end_of = attrgetter("end")


class Session:
    """[start, end] of a key with its aggregate. `gone`: merged into another or deleted."""

    __slots__ = ("context", "dirty", "end", "gone", "key", "logged", "start", "value")

    def __init__(self, key: Any, start: int, end: int, value: Any, context: RecordContext | None) -> None:
        self.key = key
        self.start = start
        self.end = end
        self.value = value
        self.context = context
        self.gone = False
        self.dirty = True
        self.logged = False


class SessionOperator(AggregateOperator):
    """Sessions as updates, or with an `emitter` as final results when they close.

    `finals`: something downstream, or the operator itself, gives final results."""

    def __init__(
        self,
        node: str,
        store: str,
        around: Surroundings,
        windows: SessionWindows,
        aggregator: Aggregator,
        stores: Stores,
        retention_ms: int,
        finals: bool,
        kafka: bool,
        emitter: Emitter[Session] | None = None,
    ) -> None:
        super().__init__(node, around)
        self.store = store
        self._gap = windows.gap_ms
        self._wait = windows.gap_ms + grace_of(windows)
        self._retention = retention_ms
        self._sessions: MutableMapping[Ident, list[Session]] = stores.keyed(store)  # of a key by (end, start)
        self._log = StoreLog(store, node, f"{aggregator.kind} over {windows.shape}", around.track_changes)
        self._counting = aggregator.kind == "count"
        self._init = aggregator.init
        self._add = as_values(aggregator.add)
        assert aggregator.merge is not None
        merge = aggregator.merge
        self._merge = as_values(lambda left, right: merge(left, snapshot(right)))
        self._finals = finals
        self._kafka = kafka
        self._emitter = emitter
        self._newest = NO_TIME  # the largest end ever written
        self._next_sweep = NO_TIME

    def process(self, rows: Sequence[Record], out: list[Any]) -> None:
        identity = self.around.identity
        text, identify = identity.text, identity.of
        emits = self._emitter is not None
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
                if emits and timestamp == self.stream_time:
                    self._release(out, record.context)
            except FATAL:
                raise
            except Exception as error:  # noqa: BLE001 - whatever user code raises
                self._failed(error, record)
        if self.stream_time > self._next_sweep:
            self._sweep()

    def _shown_from(self) -> int:
        """Sessions that end before this are not looked at any more."""
        return self._newest - self._retention + 1 if self._kafka else self.stream_time - self._wait

    def _take(self, ident: Ident, record: Record, timestamp: int, out: list[Any]) -> None:
        sessions = self._sessions.get(ident)
        start = end = timestamp
        joined: list[Session] = []
        if sessions:
            ends_from = max(timestamp - self._gap, self._shown_from())
            starts_to = timestamp + self._gap
            first = bisect_left(sessions, ends_from, key=_end_of) if len(sessions) > _FEW else 0
            for session in sessions[first:]:
                if session.end >= ends_from:
                    if session.start <= starts_to:
                        joined.append(session)
                        start = min(start, session.start)
                        end = max(end, session.end)
                    elif not self._kafka:
                        break  # strict sessions never overlap: the next ones start still later
        limit = self.stream_time - self._wait
        if end < limit:
            self._late(record, start, end, limit)
            return
        try:
            value = self._aggregate(joined, record.value)
        except Exception as error:  # noqa: BLE001
            self._failed(error, record, start, end)
            return
        context = record.context
        if context is not None and context.headers:
            context = context.without_headers()
        if sessions is None:
            self.around.identity.check(ident)
            sessions = self._sessions[ident] = []
        forwards = self._emitter is None
        for session in joined:
            self._remove(ident, sessions, session)
            if start != end and forwards:  # the union is more than the row itself
                out.append(
                    (ident, session.key, session.start, session.end, None, session.value, session.end, context, False)
                )
        self._newest = max(self._newest, end)
        if value is not None:
            self._insert(ident, sessions, Session(record.key, start, end, value, record.context))
        elif not sessions:
            del self._sessions[ident]
        if forwards:
            out.append((ident, record.key, start, end, value, None, end, context, False))

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
        while at and (sessions[at - 1].end, sessions[at - 1].start) > (session.end, session.start):
            at -= 1
        sessions.insert(at, session)
        self._log.touch(ident, session)
        if self._emitter is not None:
            tie = session.start.to_bytes(8, "big") + key_bytes(ident)
            self._emitter.put(session.end, tie, ident, session)

    def _remove(self, ident: Ident, sessions: list[Session], session: Session) -> None:
        sessions.remove(session)
        session.gone = True
        if self._log.on:
            self._log.leave(self._log_key(ident, session), session)

    def _release(self, out: list[Any], trigger: RecordContext | None = None) -> None:
        """With an emitter: give out the sessions that stream time has closed."""
        if self._emitter is None:
            return
        shown_from = self._newest - self._retention
        segment = max(self._retention // 2, _SEGMENT_MS)
        for ident, session in self._emitter.due(self.stream_time - self._wait):
            context = session.context
            if self._kafka:
                if session.end // segment < shown_from // segment:
                    continue  # its segment of the store was dropped by a jump of time before it was read
                context = trigger or context
            else:
                self._remove(ident, self._sessions[ident], session)
            key, start, end, value = session.key, session.start, session.end, session.value
            out.append((ident, key, start, end, value, None, end, context, True))

    def _sweep(self) -> None:
        """Forget closed sessions beyond retention; once per retention, so a row pays a constant share."""
        kept_from = min(self._shown_from(), self.stream_time - self._wait, self._newest - self._retention + 1)
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
        for _, (key, start, end, value, context) in reader.entries():
            ident = self.around.identity.of(key)
            session = Session(key, start, end, value, unpack_context(context))
            emitter, self._emitter = self._emitter, self._emitter if end >= limit else None  # given out already
            self._insert(ident, self._sessions.setdefault(ident, []), session)
            self._emitter = emitter
            session.dirty, session.logged = False, True
