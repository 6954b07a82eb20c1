"""Sliding windows [s, s + D], both ends inclusive: one for each distinct set of rows of a key that fits in D.

Owner: WindowTask. `sliding_plan.py` decides which windows a row updates and in which order; this operator carries the plan
out. A row is late iff t + D lies before stream time - grace. Of an accepted row, a single update is refused iff the end of
its window lies before that limit.

Kafka mode hides windows whose start is more than the retention before the newest start ever written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter
from typing import Any, ClassVar, Final

from streamactors.windows.definitions.aggregator import as_values
from streamactors.windows.definitions.windows import SlidingWindows
from streamactors.windows.operators.aggregate import AggregateSpec
from streamactors.windows.operators.operator import Found, Ident, TaskEnvironment, Update
from streamactors.windows.operators.windowed.closing import Closing, InclusiveOperator
from streamactors.windows.operators.windowed.late_rows import refuse
from streamactors.windows.operators.windowed.sliding_plan import Pane, Panes, PaneUpdate, plan, plan_early
from streamactors.windows.operators.windowed.time_finals import STORE_SUFFIX
from streamactors.windows.record import Record, RecordContext
from streamactors.windows.state.key_lists import KeyLists, ListForm
from streamactors.windows.state.reads import StoreEntry, StoreRequest
from streamactors.windows.state.serdes import ident_of_bytes, key_bytes
from streamactors.windows.state.store_log import Logged, unpack_context
from streamactors.windows.state.stores import Stores, cell_key
from streamactors.windows.values import IMMUTABLE, snapshot

_PANES: Final = attrgetter("panes")


class SlidingOperator(InclusiveOperator[Pane]):
    """Sliding windows as updates, or with `closing` as final results when they close."""

    needs_value: ClassVar[bool] = True

    def __init__(
        self,
        spec: AggregateSpec[SlidingWindows],
        env: TaskEnvironment,
        stores: Stores,
        closing: Closing[Pane] | None = None,
    ) -> None:
        super().__init__(spec, env, closing, spec.windows.wait_ms)
        self._difference = spec.windows.difference_ms
        form = ListForm(8, self._pane, Panes.of, _PANES, Panes.drop, lambda ident, pane: cell_key(ident, pane.start))
        self._keys: KeyLists[Panes, Pane] = stores.listed(spec.store, form)
        if closing is not None:
            closing.lie_in(stores, spec.store, self._closing_pane)
        self._old_from_init = spec.old_from_init
        self._init = spec.aggregator.init
        self._uses_values = spec.aggregator.kind != "count"
        self._add = spec.aggregator.add if spec.aggregator.kind == "count" else as_values(spec.aggregator.add)

    def _shown_from(self) -> int:
        """Windows that start before this are hidden."""
        if not self._kafka:
            return 0
        return max(0, self._newest - self._retention + (self._closing is None))

    def _update(self, ident: Ident, record: Record, timestamp: int, out: list[Any]) -> None:
        limit = self._limit()
        difference = self._difference
        if timestamp + difference < limit:
            refuse(self, record, timestamp, timestamp + difference, limit)
            return
        panes = self._keys.get(ident)
        if panes is None:
            self.env.identity.check(ident)
            panes = Panes([], [])
            self._keys.put(ident, panes)
        start: int | None = None
        try:
            planned = plan_early if timestamp < difference else plan
            updates = planned(panes, timestamp, difference, self._shown_from())
            value = record.value
            copies = self._uses_values and len(updates) > 1 and type(value) not in IMMUTABLE
            for update in updates:
                start = update.start
                if update.copies:
                    update.new = update.old
                elif start + difference < limit:
                    update.refused = True
                else:
                    if update.old is None and update.pane is None:
                        update.old = self._init()
                    update.new = self._add(update.old, snapshot(value) if copies else value)
        except Exception as error:  # noqa: BLE001 - whatever user code raises
            self._failed(error, record, start, None if start is None else start + difference)
            return
        for update in updates:
            if update.refused:
                refuse(self, record, update.start, update.start + difference, limit)
            else:
                self._apply(ident, panes, update, record, out)
        kept_from = self._kept_from()
        if panes.starts and panes.starts[0] < kept_from:
            self._forget(ident, panes, kept_from)

    def _forget(self, ident: Ident, panes: Panes, kept_from: int) -> None:
        if not self._log.on:
            panes.drop(kept_from)
            return
        if self._closing is not None:  # a jump of time comes before what it closes
            kept_from = min(kept_from, self._closing.first_end() - self._difference)
        gone = panes.drop(kept_from)
        self._leave((cell_key(ident, pane.start), pane) for pane in gone)
        self._keys.changed(ident, -len(gone))

    def _apply(self, ident: Ident, panes: Panes, update: PaneUpdate, record: Record, out: list[Any]) -> None:
        """Write one update to the store and forward it."""
        start, new = update.start, update.new
        pane = update.pane or panes.get(start)  # a hidden window with that start may still exist
        if self._old_from_init:
            old = None if update.copies else update.old
        else:
            old = None if pane is None else pane.value
        kept = new
        if type(new) not in IMMUTABLE:
            kept = snapshot(new)
            if update.pane is None:
                old = snapshot(old)  # the value of another window, which stays
                if update.copies:
                    new = snapshot(new)
        timestamp = update.timestamp
        if not update.copies and (update.old is None or record.timestamp > timestamp):
            timestamp = record.timestamp
        if start > self._newest:
            self._newest = start
        if new is None:
            if pane is not None:
                panes.remove(pane)
                pane.gone = True
                pane.old = old
                if self._log.on:
                    self._log.leave(cell_key(ident, start), pane)
                    self._keys.changed(ident, -1)
        elif pane is None:
            pane = Pane(ident, snapshot(record.key), start, kept, timestamp, record.context, old)
            panes.insert(pane)
            self._touch(pane, 1)
            self._await_close(pane)
        else:
            pane.value, pane.timestamp, pane.context, pane.old = kept, timestamp, record.context, old
            if not pane.dirty:
                self._touch(pane, 0)
        if self._closing is None:
            out.append((ident, record.key, start, start + self._difference, new, old, timestamp, record.context, False))

    def _touch(self, pane: Pane, by: int) -> None:
        """A pane has changed; its key has `by` panes more."""
        if self._log.on:
            self._log.touch(pane.ident, pane)
            self._keys.changed(pane.ident, by)
            self._keys.reach(pane.start)

    def _tie(self, pane: Pane) -> bytes:
        return key_bytes(pane.ident) + (pane.start.to_bytes(8, "big") if self._suppresses else STORE_SUFFIX)

    def _closing_pane(self, end: int, tie: bytes) -> Pane | None:
        """Return the pane with this tie, None if it is gone."""
        suffix = 8 if self._suppresses else len(STORE_SUFFIX)
        panes = self._keys.get(ident_of_bytes(tie[:-suffix]))
        return None if panes is None else panes.get(end - self._difference)

    def _emit(self, due: list[Pane], trigger: RecordContext | None, out: list[Update]) -> None:
        hidden_before = self._newest - self._retention if self._kafka else -1
        for pane in due:
            start, end = pane.start, pane.start + self._difference
            if start < hidden_before:
                continue  # a jump of time made Kafka's store hide it
            context = (trigger or pane.context) if self._kafka else pane.context
            old = pane.old if self._suppresses else None
            key, value = snapshot(pane.key), snapshot(pane.value)
            out.append((pane.ident, key, start, end, value, snapshot(old), pane.timestamp, context, True))

    def _kept_from(self) -> int:
        """No later row looks at windows that start before this, and no reader sees them."""
        limit = self.stream_time - self._wait
        return min(limit - 3 * self._difference, self._newest - self._retention)

    def _leave(self, gone: Iterable[tuple[bytes, Logged]]) -> None:
        for key, pane in gone:
            self._log.leave(key, pane)

    def _sweep(self) -> None:
        """Forget windows of keys that have no new rows."""
        self._leave(self._keys.expire(self._kept_from()))

    def _sweep_store(self) -> None:
        self._leave(self._keys.sweep())

    def _windows(self) -> Iterator[Pane]:
        return self._keys.objects()

    def _end_of(self, pane: Pane) -> int:
        return pane.start + self._difference

    def entries(self, request: StoreRequest) -> Iterator[StoreEntry]:
        kept_from = self._kept_from()
        return (
            StoreEntry(each.key, each.value, each.timestamp, each.start, each.start + self._difference)
            for each in list(self._windows())
            if each.value is not None and each.start >= kept_from
        )

    def read(self, ident: Ident, start: int | None, end: int | None) -> Found | None:
        assert start is not None
        panes = self._keys.get(ident) if start >= self._kept_from() else None
        pane = None if panes is None else panes.get(start)
        return None if pane is None else (snapshot(pane.value), pane.timestamp)

    def _entries(self) -> Iterator[tuple[bytes, list[Any]]]:
        for ident, pane in self._log.touched():
            yield cell_key(ident, pane.start), pane.fields(pane.start)

    def _restore_state(self, state: dict[str, Any]) -> None:
        super()._restore_state(state)
        self._keys.reach(self._newest)

    def _restore_entries(self, entries: Iterable[list[Any]]) -> None:
        get, put = self._keys.get, self._keys.put
        for pane in map(self._pane, entries):
            panes = get(pane.ident)
            if panes is None:
                put(pane.ident, Panes([pane], [pane.start]))
            else:
                panes.insert(pane)

    def _pane(self, fields: Sequence[Any]) -> Pane:
        """Return the pane of a changelog entry."""
        key, start, value, timestamp, context, prior, old = fields
        pane = Pane(self.env.identity.of(key), key, start, value, timestamp, unpack_context(context), prior)
        pane.old, pane.dirty, pane.logged = old, False, True
        return pane
