"""Session windows: rows of a key at most `gap` apart; a row that bridges sessions merges them.

Owner: WindowTask. A row at t joins every session of its key with end >= t - gap and start <= t + gap. The new session is
the union of those and [t, t]; its aggregate is init, merged with the joined ones by ascending end, then the row added.
Joined sessions are deleted first (value None, timestamp their end) unless the union is [t, t] itself. The row is late iff
the union's end lies before stream time - grace - gap.

Strict semantics never join a closed session, so its final result stays final. Kafka semantics join it as long as the
store shows it: while its end > newest end ever written - retention."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import wraps
from operator import attrgetter
from typing import Any, Final

from streamactors.windows.definitions.aggregator import ByArrival, as_values
from streamactors.windows.definitions.windows import SessionWindows
from streamactors.windows.operators.aggregate import AggregateSpec
from streamactors.windows.operators.operator import Found, Ident, TaskEnvironment, Update
from streamactors.windows.operators.windowed.closing import Closing, InclusiveOperator
from streamactors.windows.operators.windowed.late_rows import refuse
from streamactors.windows.record import Record, RecordContext
from streamactors.windows.state.reads import StoreEntry, StoreRequest
from streamactors.windows.state.serdes import ident_of_bytes, key_bytes
from streamactors.windows.state.session_store import Session, SessionLists, session_form, session_key, two_times
from streamactors.windows.state.store_log import pack_context, unpack_context
from streamactors.windows.state.stores import Stores
from streamactors.windows.values import snapshot

_SEGMENT_MS: Final = 60_000  # Kafka's smallest segment of a store
_birth_of: Final[Callable[[Session], int]] = attrgetter("born")


class SessionOperator(InclusiveOperator[Session]):
    """Sessions as updates, or with `closing` as final results when they close."""

    def __init__(
        self,
        spec: AggregateSpec[SessionWindows],
        env: TaskEnvironment,
        stores: Stores,
        closing: Closing[Session] | None = None,
    ) -> None:
        super().__init__(spec, env, closing, spec.windows.wait_ms)
        self._gap = spec.windows.gap_ms
        self._sessions = SessionLists(stores.listed(spec.store, session_form(self._session)), self._log)
        if closing is not None:
            closing.lie_in(stores, spec.store, self._closing_session)
        aggregator = spec.aggregator
        assert aggregator.merge is not None
        merge = aggregator.merge
        self._sends_replaced = not spec.old_from_init
        self._counts = aggregator.kind == "count"
        self._init = aggregator.init
        self._add = as_values(aggregator.add)
        self._by_arrival = isinstance(merge, ByArrival)
        self._arrivals = 0  # sessions that were begun, where the order of arrivals counts
        self._merge = as_values(wraps(merge)(lambda left, right: merge(left, snapshot(right))))

    def _update(self, ident: Ident, record: Record, timestamp: int, out: list[Any]) -> None:
        limit = self._limit()
        shown_from = self._newest - self._retention + 1 if self._kafka else limit
        joined = self._sessions.overlapping(ident, max(timestamp - self._gap, shown_from), timestamp + self._gap)
        start = end = timestamp
        for session in joined:
            if session.start < start:
                start = session.start
            if session.end > end:
                end = session.end
        if end < limit:
            refuse(self, record, start, end, limit, self._gap)
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
        same = None  # the session that is the union already; it stays in its place
        replaced = None  # its value, if its deletion is not forwarded
        for session in joined:
            if start != end and self._closing is None:  # the union is more than the row itself
                old = session.value
                out.append((ident, record.key, session.start, session.end, None, old, session.end, context, False))
            elif self._sends_replaced:
                replaced = session.value
            if session.start == start and session.end == end and value is not None:
                same = session
                continue
            self._sessions.remove(session)
            session.old = session.value
            session.context = context
        if same is not None:
            same.value, same.context = snapshot(value), context
            self._sessions.touch(same)
        elif value is not None:
            if not joined:
                self.env.identity.check(ident)
            key = joined[0].key if joined else snapshot(record.key)
            session = Session(ident, key, start, end, snapshot(value), context)
            if self._by_arrival:
                session.born = self._birth(joined)
            self._sessions.add(session)
            self._await_close(session)
        elif (hidden := self._sessions.find(ident, start, end)) is not None:  # in Kafka mode: not joined, yet deleted
            self._sessions.remove(hidden)
        if self._closing is None:
            out.append((ident, record.key, start, end, value, replaced, end, context, False))

    def _aggregate(self, joined: list[Session], value: Any) -> Any:
        if self._counts:
            return sum([session.value for session in joined], 1)
        aggregate = self._init()
        if self._by_arrival and len(joined) > 1:
            joined = sorted(joined, key=_birth_of)
        for session in joined:
            aggregate = self._merge(aggregate, session.value)
        return self._add(aggregate, value)

    def _birth(self, joined: list[Session]) -> int:
        """Return the number of the first row of a session: the oldest of those it joins, else a new one."""
        if joined:
            return min(map(_birth_of, joined))
        self._arrivals += 1
        return self._arrivals

    def _tie(self, session: Session) -> bytes:
        key, start = key_bytes(session.ident), session.start
        return key + two_times(session.end, start) if self._suppresses else start.to_bytes(8, "big") + key

    def _closing_session(self, end: int, tie: bytes) -> Session | None:
        """Return the session with this tie, None if it is gone."""
        key, start = (tie[:-16], tie[-8:]) if self._suppresses else (tie[8:], tie[:8])
        return self._sessions.find(ident_of_bytes(key), int.from_bytes(start, "big"), end)

    def _emit(self, due: list[Session], trigger: RecordContext | None, out: list[Update]) -> None:
        shown_from = self._newest - self._retention
        segment = max(self._retention // 2, _SEGMENT_MS)
        for session in due:
            context, end = session.context, session.end
            if self._kafka:
                if end // segment < shown_from // segment:
                    continue  # a jump of time dropped its segment of the store before the segment was read
                context = trigger or context
            key, value = (
                snapshot(session.key),
                snapshot(session.value),
            )  # the session stays readable until its retention is over
            out.append((session.ident, key, session.start, end, value, None, end, context, True))

    def _kept_from(self) -> int:
        """Sessions that end before it can neither be joined nor read."""
        return min(self.stream_time - self._wait, self._newest - self._retention + 1)

    def _sweep(self) -> None:
        self._sessions.forget(self._kept_from())

    def _sweep_store(self) -> None:
        self._sessions.sweep()

    def _windows(self) -> Iterator[Session]:
        return iter(self._sessions)

    def _end_of(self, session: Session) -> int:
        return session.end

    def entries(self, request: StoreRequest) -> Iterator[StoreEntry]:
        kept_from = self._kept_from()
        return (
            StoreEntry(each.key, each.value, each.end, each.start, each.end)
            for each in list(self._sessions)
            if each.end >= kept_from
        )

    def read(self, ident: Ident, start: int | None, end: int | None) -> Found | None:
        assert end is not None
        session = self._sessions.find(ident, start, end) if end >= self._kept_from() else None
        return None if session is None else (snapshot(session.value), session.end)

    def _entries(self) -> Iterator[tuple[bytes, list[Any]]]:
        for _, each in self._log.touched():
            fields = [each.key, each.start, each.end, each.value, pack_context(each.context)]
            yield session_key(each), [*fields, each.born] if self._by_arrival else fields

    def _state(self) -> dict[str, Any]:
        return super()._state() | ({"arrivals": self._arrivals} if self._by_arrival else {})

    def _restore_state(self, state: dict[str, Any]) -> None:
        super()._restore_state(state)
        self._arrivals = state.get("arrivals", 0)
        self._sessions.reach(self._newest)

    def _restore_entries(self, entries: Iterable[list[Any]]) -> None:
        self._sessions.take_back(map(self._session, entries))

    def _session(self, fields: Sequence[Any]) -> Session:
        """Return the session of a changelog entry."""
        key, start, end, value, context, *birth = fields
        session = Session(self.env.identity.of(key), key, start, end, value, unpack_context(context))
        session.born = birth[0] if birth else 0
        session.dirty, session.logged = False, True
        return session
