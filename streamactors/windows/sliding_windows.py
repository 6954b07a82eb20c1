"""Sliding windows [s, s + D], both inclusive: one for every distinct set of rows of a key that fits in D.

Owner: WindowTask. Which windows a row touches, and in which order, is sliding_plan's; here the plan is carried out. A
row is dropped iff t + D lies before stream time - grace; a single update is refused iff the end of its window does.

Kafka mode: windows whose start lies too far behind the newest one written are hidden."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Iterator, MutableMapping, Sequence
from typing import Any, Final

from streamactors.windows.aggregation import Aggregation
from streamactors.windows.aggregator import as_values
from streamactors.windows.buffered import Buffered
from streamactors.windows.changelog import Change, StoreLog, StoreReader, TaskIdentity, pack_context, unpack_context
from streamactors.windows.closing import Closing
from streamactors.windows.codec import dumps, key_bytes
from streamactors.windows.definitions import SlidingWindows, grace_of
from streamactors.windows.operator import FATAL, NO_TIME, AggregateOperator, Ident, Surroundings
from streamactors.windows.record import Record, RecordContext
from streamactors.windows.sliding_plan import Pane, Panes, Step, plan, plan_early
from streamactors.windows.stores import Stores

_STORE_SUFFIX: Final = bytes(4)  # the end of the store's keys


class SlidingOperator(AggregateOperator):
    """Sliding windows as updates, or with `closing` as final results when they close."""

    def __init__(
        self,
        spec: Aggregation[SlidingWindows],
        around: Surroundings,
        stores: Stores,
        closing: Closing[Pane] | None = None,
    ) -> None:
        super().__init__(spec.node, around)
        self.store = spec.store
        self._difference = spec.windows.difference_ms
        self._grace = grace_of(spec.windows)
        self._retention = spec.retention_ms
        self._keys: MutableMapping[Ident, Panes] = stores.keyed(spec.store)
        self._log = StoreLog(spec.store, spec.node, spec.shape, around.track_changes)
        self._init = spec.aggregator.init
        self._add = spec.aggregator.add if spec.aggregator.kind == "count" else as_values(spec.aggregator.add)
        self._finals = spec.finals
        self._kafka = spec.kafka
        self._closing = closing
        self._newest = NO_TIME  # the largest start ever written
        self._next_sweep = NO_TIME

    def process(self, rows: Sequence[Record], out: list[Any]) -> None:
        identity = self.around.identity
        text, identify = identity.text, identity.of
        closes = self._closing is not None
        for record in rows:
            ident = record.key
            timestamp = record.timestamp
            try:
                if ident is None or record.value is None:
                    self._reject(record)
                    continue
                if type(ident) is not text:
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

    def _shown_from(self) -> int:
        """Windows that start before this are hidden."""
        if not self._kafka:
            return 0
        return max(0, self._newest - self._retention + (self._closing is None))

    def _take(self, ident: Ident, record: Record, timestamp: int, out: list[Any]) -> None:
        limit = self.stream_time - self._grace
        difference = self._difference
        if timestamp + difference < limit:
            self._late(record, timestamp, timestamp + difference, limit)
            return
        panes = self._keys.get(ident)
        if panes is None:
            self.around.identity.check(ident)
            panes = self._keys[ident] = Panes()
        start: int | None = None
        try:
            plan_steps = plan_early if timestamp < difference else plan
            steps = plan_steps(panes, timestamp, difference, self._shown_from())
            for step in steps:
                start = step.start
                if step.copies:
                    step.new = step.old
                elif start + difference < limit:
                    step.refused = True
                else:
                    if step.old is None and step.pane is None:
                        step.old = self._init()
                    step.new = self._add(step.old, record.value)
        except Exception as error:  # noqa: BLE001 - whatever user code raises
            self._failed(error, record, start, None if start is None else start + difference)
            return
        for step in steps:
            if step.refused:
                self._late(record, step.start, step.start + difference, limit)
            else:
                self._apply(ident, panes, step, record, out)
        if panes.starts and panes.starts[0] < self._kept_from():
            self._forget(ident, panes, self._kept_from())

    def _apply(self, ident: Ident, panes: Panes, step: Step, record: Record, out: list[Any]) -> None:
        """Write one update to the store and forward it."""
        start, new = step.start, step.new
        old = None if step.copies else step.old
        timestamp = step.timestamp
        if not step.copies and (step.old is None or record.timestamp > timestamp):
            timestamp = record.timestamp
        if start > self._newest:
            self._newest = start
        pane = step.pane or panes.get(start)  # a hidden window of that start may still be there
        if new is None:
            if pane is not None:
                panes.remove(pane)
                pane.gone = True
                pane.old = old
                if self._log.on:
                    self._log.leave(self._log_key(ident, start), pane)
        elif pane is None:
            self._insert(ident, panes, Pane(ident, record.key, start, new, timestamp, record.context, old))
        else:
            pane.value, pane.timestamp, pane.context, pane.old = new, timestamp, record.context, old
            if not pane.dirty:
                self._log.touch(ident, pane)
        if self._closing is None:
            out.append((ident, record.key, start, start + self._difference, new, old, timestamp, record.context, False))

    def _insert(self, ident: Ident, panes: Panes, pane: Pane) -> None:
        panes.insert(pane)
        self._log.touch(ident, pane)
        closing = self._closing
        if closing is not None:
            suffix = pane.start.to_bytes(8, "big") if closing.suppresses else _STORE_SUFFIX
            closing.put(pane.start + self._difference, key_bytes(ident) + suffix, pane)

    def _release(self, out: list[Any], trigger: RecordContext | None = None) -> None:
        """Where results are final: give out the windows that stream time has closed."""
        closing = self._closing
        if closing is None:
            return
        due = closing.due(self.stream_time - self._grace)
        if not due:
            return
        began, emitted = time.perf_counter_ns(), len(out)
        hidden_before = self._newest - self._retention if self._kafka else -1
        for pane in due:
            start = pane.start
            if start < hidden_before:
                continue  # Kafka's store hides it after a jump of time
            context = (trigger or pane.context) if self._kafka else pane.context
            old = pane.old if closing.suppresses else None
            end = start + self._difference
            out.append((pane.ident, pane.key, start, end, pane.value, old, pane.timestamp, context, True))
        closing.report.record(len(out) - emitted, began)

    def _next_release(self) -> int | None:
        end = None if self._closing is None else self._closing.first_end()
        return None if end is None else end + self._grace + 1

    def buffered(self) -> Buffered:
        """What a suppress buffer would hold."""
        assert self._closing is not None
        return self._closing.buffered(self.around.serdes)

    def _kept_from(self) -> int:
        """No row that can still come looks at windows that start before this."""
        limit = self.stream_time - self._grace
        return min(limit - 3 * self._difference, self._newest - self._retention)

    def _forget(self, ident: Ident, panes: Panes, kept_from: int) -> None:
        cut = bisect_left(panes.starts, kept_from)
        if self._log.on:
            for pane in panes.panes[:cut]:
                self._log.leave(self._log_key(ident, pane.start), pane)
        del panes.starts[:cut], panes.panes[:cut]

    def _sweep(self) -> None:
        """Forget windows of keys that no row looked at; once per retention, so a row pays a constant share."""
        kept_from = self._kept_from()
        for ident, panes in self._keys.items():
            if panes.starts and panes.starts[0] < kept_from:
                self._forget(ident, panes, kept_from)
        for ident in [ident for ident, panes in self._keys.items() if not panes.starts]:
            del self._keys[ident]
        self._next_sweep = self.stream_time + max(self._retention, 1)

    def _flushed_until(self) -> int:
        if not self._finals:
            return NO_TIME
        starts = [panes.starts[-1] for panes in self._keys.values() if panes.starts]
        if not starts:
            return NO_TIME
        return max(starts) + self._difference + self._grace + 1

    def read(self, key: Any, ident: Ident, start: int | None, end: int | None) -> tuple[Any, int | None] | None:
        panes = self._keys.get(ident)
        assert start is not None
        pane = None if panes is None else panes.get(start)
        return None if pane is None else (pane.value, pane.timestamp)

    @staticmethod
    def _log_key(ident: Ident, start: int) -> bytes:
        return key_bytes(ident) + start.to_bytes(8, "big")

    def changes(self, identity: TaskIdentity) -> Iterator[Change]:
        entries = {
            self._log_key(ident, pane.start): dumps(
                [pane.key, pane.start, pane.value, pane.timestamp, pack_context(pane.context), pane.prior, pane.old]
            )
            for ident, pane in self._log.touched()
        }
        return self._log.changes(identity, {"stream_time": self.lasting_time, "newest": self._newest}, entries)

    def restore(self, reader: StoreReader) -> None:
        state = reader.state(self._log)
        if state is None:
            return
        self.stream_time, self._newest = state["stream_time"], state["newest"]
        limit = self.stream_time - self._grace
        closing = self._closing
        for _, (key, start, value, timestamp, context, prior, old) in reader.entries():
            ident = self.around.identity.of(key)
            self._closing = closing if start + self._difference >= limit else None  # else it was given out already
            pane = Pane(ident, key, start, value, timestamp, unpack_context(context), prior)
            self._insert(ident, self._keys.setdefault(ident, Panes()), pane)
            pane.old, pane.dirty, pane.logged = old, False, True
        self._closing = closing
