"""Sliding windows [s, s + D], both ends inclusive: one for each distinct set of rows of a key that fits in D.

Owner: WindowTask. `sliding_plan.py` decides which windows a row updates and in which order; this operator carries the plan
out. A row is late iff t + D lies before stream time - grace. Of an accepted row, a single update is refused iff the end of
its window lies before that limit.

Kafka mode hides windows whose start lies more than the retention behind the newest start ever written."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, MutableMapping
from typing import Any, ClassVar

from streamactors.windows.definitions.aggregator import as_values
from streamactors.windows.definitions.windows import SlidingWindows
from streamactors.windows.operators.aggregate import AggregateSpec
from streamactors.windows.operators.closing import Closing, InclusiveOperator
from streamactors.windows.operators.late_rows import refuse
from streamactors.windows.operators.operator import Found, Ident, TaskEnvironment, Update
from streamactors.windows.operators.sliding_plan import Pane, Panes, PaneUpdate, plan, plan_early
from streamactors.windows.operators.time_finals import STORE_SUFFIX
from streamactors.windows.record import Record, RecordContext
from streamactors.windows.state.reads import StoreEntry, StoreRequest
from streamactors.windows.state.serdes import key_bytes
from streamactors.windows.state.store_log import as_restored, unpack_context
from streamactors.windows.state.stores import Stores, cell_key


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
        self._keys: MutableMapping[Ident, Panes] = stores.keyed(spec.store)
        self._old_from_init = spec.old_from_init
        self._init = spec.aggregator.init
        self._add = spec.aggregator.add if spec.aggregator.kind == "count" else as_values(spec.aggregator.add)

    def _shown_from(self) -> int:
        """Windows that start before this are hidden."""
        if not self._kafka:
            return 0
        return max(0, self._newest - self._retention + (self._closing is None))

    def _update(self, ident: Ident, record: Record, timestamp: int, out: list[Any]) -> None:
        limit = self.stream_time - self._wait
        difference = self._difference
        if timestamp + difference < limit:
            refuse(self, record, timestamp, timestamp + difference, limit)
            return
        panes = self._keys.get(ident)
        if panes is None:
            self.env.identity.check(ident)
            panes = self._keys[ident] = Panes()
        start: int | None = None
        try:
            planned = plan_early if timestamp < difference else plan
            updates = planned(panes, timestamp, difference, self._shown_from())
            for update in updates:
                start = update.start
                if update.copies:
                    update.new = update.old
                elif start + difference < limit:
                    update.refused = True
                else:
                    if update.old is None and update.pane is None:
                        update.old = self._init()
                    update.new = self._add(update.old, record.value)
        except Exception as error:  # noqa: BLE001 - whatever user code raises
            self._failed(error, record, start, None if start is None else start + difference)
            return
        for update in updates:
            if update.refused:
                refuse(self, record, update.start, update.start + difference, limit)
            else:
                self._apply(ident, panes, update, record, out)
        if panes.starts and panes.starts[0] < self._kept_from():
            self._forget(ident, panes, self._kept_from())

    def _apply(self, ident: Ident, panes: Panes, update: PaneUpdate, record: Record, out: list[Any]) -> None:
        """Write one update to the store and forward it."""
        start, new = update.start, update.new
        old = None if update.copies or (update.pane is None and not self._old_from_init) else update.old
        timestamp = update.timestamp
        if not update.copies and (update.old is None or record.timestamp > timestamp):
            timestamp = record.timestamp
        if start > self._newest:
            self._newest = start
        pane = update.pane or panes.get(start)  # a hidden window with that start may still exist
        if new is None:
            if pane is not None:
                panes.remove(pane)
                pane.gone = True
                pane.old = old
                if self._log.on:
                    self._log.leave(cell_key(ident, start), pane)
        elif pane is None:
            pane = Pane(ident, record.key, start, new, timestamp, record.context, old)
            panes.insert(pane)
            self._log.touch(ident, pane)
            self._await_close(pane)
        else:
            pane.value, pane.timestamp, pane.context, pane.old = new, timestamp, record.context, old
            if not pane.dirty:
                self._log.touch(ident, pane)
        if self._closing is None:
            out.append((ident, record.key, start, start + self._difference, new, old, timestamp, record.context, False))

    def _await_close(self, pane: Pane) -> None:
        closing = self._closing
        if closing is not None:
            suffix = pane.start.to_bytes(8, "big") if closing.suppresses else STORE_SUFFIX
            closing.put(pane.start + self._difference, key_bytes(pane.ident) + suffix, pane)

    def _emit(self, due: list[Pane], trigger: RecordContext | None, out: list[Update]) -> None:
        assert self._closing is not None
        suppresses = self._closing.suppresses
        hidden_before = self._newest - self._retention if self._kafka else -1
        for pane in due:
            start, end = pane.start, pane.start + self._difference
            if start < hidden_before:
                continue  # a jump of time made Kafka's store hide it
            context = (trigger or pane.context) if self._kafka else pane.context
            old = pane.old if suppresses else None
            out.append((pane.ident, pane.key, start, end, pane.value, old, pane.timestamp, context, True))

    def _kept_from(self) -> int:
        """No later row looks at windows that start before this."""
        limit = self.stream_time - self._wait
        return min(limit - 3 * self._difference, self._newest - self._retention)

    def _forget(self, ident: Ident, panes: Panes, kept_from: int) -> None:
        cut = bisect_left(panes.starts, kept_from)
        if self._log.on:
            for pane in panes.panes[:cut]:
                self._log.leave(cell_key(ident, pane.start), pane)
        del panes.starts[:cut], panes.panes[:cut]

    def _sweep(self) -> None:
        """Forget windows of keys that have no new rows."""
        kept_from = self._kept_from()
        for ident, panes in self._keys.items():
            if panes.starts and panes.starts[0] < kept_from:
                self._forget(ident, panes, kept_from)
        for ident in [ident for ident, panes in self._keys.items() if not panes.starts]:
            del self._keys[ident]

    def _last_end(self) -> int | None:
        starts = [panes.starts[-1] for panes in self._keys.values() if panes.starts]
        return max(starts) + self._difference if starts else None

    def entries(self, request: StoreRequest) -> Iterator[StoreEntry]:
        return (
            StoreEntry(each.key, each.value, each.timestamp, each.start, each.start + self._difference)
            for panes in list(self._keys.values())
            for each in panes.panes
            if each.value is not None
        )

    def read(self, ident: Ident, start: int | None, end: int | None) -> Found | None:
        assert start is not None
        panes = self._keys.get(ident)
        pane = None if panes is None else panes.get(start)
        return None if pane is None else (pane.value, pane.timestamp)

    def _entries(self) -> Iterator[tuple[bytes, list[Any]]]:
        for ident, pane in self._log.touched():
            yield cell_key(ident, pane.start), pane.fields(pane.start)

    def _restore_entry(self, *fields: Any) -> None:
        key, start, value, timestamp, context, prior, old = fields
        ident = self.env.identity.of(key)
        pane = as_restored(Pane(ident, key, start, value, timestamp, unpack_context(context), prior))
        pane.old = old
        self._keys.setdefault(ident, Panes()).insert(pane)
        if start + self._difference >= self.stream_time - self._wait:  # else it was emitted before the restart
            self._await_close(pane)
