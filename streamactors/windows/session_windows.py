"""Session windows: rows of a key at most `gap` apart; sessions that a row bridges are merged.

Owner: WindowTask. A row at t joins every session of its key with end >= t - gap and start <= t + gap. The union of
those and [t, t] is the new session; its aggregate is init, merged with the joined ones by ascending end, then the row
added. Joined sessions are deleted first (value None, timestamp their end) unless the union is [t, t] itself. The row is
late iff the union's end lies before stream time - grace - gap.

Strict: a closed session is never joined, so its final result stays final. Kafka: it is joined as long as the store
still shows it, that is while its end > newest end ever written - retention."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any, Final

from streamactors.windows.aggregation import Aggregation
from streamactors.windows.aggregator import as_values, snapshot
from streamactors.windows.buffered import Buffered
from streamactors.windows.changelog import Change, StoreLog, StoreReader, TaskIdentity
from streamactors.windows.closing import Closing
from streamactors.windows.codec import key_bytes
from streamactors.windows.definitions import SessionWindows
from streamactors.windows.operator import FATAL, NO_TIME, AggregateOperator, Ident, Surroundings
from streamactors.windows.record import Record, RecordContext
from streamactors.windows.session_store import Session, SessionStore, two_times
from streamactors.windows.stores import Stores

_SEGMENT_MS: Final = 60_000  # Kafka's smallest segment of a store


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
        self._log = StoreLog(spec.store, spec.node, spec.shape, around.track_changes)
        self._sessions = SessionStore(stores.keyed(spec.store), self._log)
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
        shown_from = self._newest - self._retention + 1 if self._kafka else self.stream_time - self._wait
        ends_from = timestamp - self._gap
        joined = self._sessions.overlapping(ident, max(ends_from, shown_from), timestamp + self._gap)
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
        if end > self._newest:
            self._newest = end
        same = None  # the one that is the union already: it stays in its place
        for session in joined:
            if start != end and self._closing is None:  # the union is more than the row itself
                key, old = session.key, session.value
                out.append((ident, key, session.start, session.end, None, old, session.end, context, False))
            if session.start == start and session.end == end and value is not None:
                same = session
                continue
            self._sessions.remove(session)
            session.gone = True
            session.old = session.value
            session.context = context
        if same is not None:
            same.value, same.context = value, context
            if not same.dirty:
                self._log.touch(None, same)
        elif value is not None:
            if not joined:
                self.around.identity.check(ident)
            session = Session(ident, record.key, start, end, value, context)
            self._sessions.add(session)
            self._await_close(session)
        elif (hidden := self._sessions.find(ident, start, end)) is not None:  # in Kafka mode: not joined, yet deleted
            self._sessions.remove(hidden)
            hidden.gone = True
        if self._closing is None:
            out.append((ident, record.key, start, end, value, None, end, context, False))

    def _aggregate(self, joined: list[Session], value: Any) -> Any:
        if self._counting:
            return sum([session.value for session in joined], 1)
        aggregate = self._init()
        for session in joined:
            aggregate = self._merge(aggregate, session.value)
        return self._add(aggregate, value)

    def _await_close(self, session: Session) -> None:
        closing = self._closing
        if closing is not None:
            key, start, end = key_bytes(session.ident), session.start, session.end
            tie = key + two_times(end, start) if closing.suppresses else start.to_bytes(8, "big") + key
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
            context, end = session.context, session.end
            if self._kafka:
                if end // segment < shown_from // segment:
                    continue  # its segment of the store was dropped by a jump of time before it was read
                context = trigger or context
            else:
                self._sessions.remove(session)
            ident, key, start, value = session.ident, session.key, session.start, session.value
            out.append((ident, key, start, end, value, None, end, context, True))
        self._closing.report.record(len(out) - emitted, began)

    def _next_release(self) -> int | None:
        end = None if self._closing is None else self._closing.first_end()
        return None if end is None else end + self._wait + 1

    def buffered(self) -> Buffered:
        """What a suppress buffer would hold."""
        assert self._closing is not None
        return self._closing.buffered(self.around.serdes)

    def _sweep(self) -> None:
        """Forget closed sessions beyond retention; once per retention, so a row pays a constant share."""
        self._sessions.forget(min(self.stream_time - self._wait, self._newest - self._retention + 1))
        self._next_sweep = self.stream_time + max(self._retention, 1)

    def _flushed_until(self) -> int:
        ends = [session.end for session in self._sessions] if self._finals else []
        return max(ends) + self._wait + 1 if ends else NO_TIME

    def read(self, key: Any, ident: Ident, start: int | None, end: int | None) -> tuple[Any, int | None] | None:
        session = self._sessions.find(ident, start, end)
        return None if session is None else (session.value, session.end)

    def changes(self, identity: TaskIdentity) -> Iterator[Change]:
        state = {"stream_time": self.lasting_time, "newest": self._newest}
        return self._log.changes(identity, state, self._sessions.entries())

    def restore(self, reader: StoreReader) -> None:
        state = reader.state(self._log)
        if state is None:
            return
        self.stream_time, self._newest = state["stream_time"], state["newest"]
        for session in self._sessions.restored(reader, self.around.identity):
            if session.end >= self.stream_time - self._wait:  # else it was given out already
                self._await_close(session)
