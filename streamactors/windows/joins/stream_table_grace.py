"""A stream joined with a versioned table, with grace: a row of the stream waits, so that late rows of the table can come first.

Owner: WindowTask. A row is due once the stream's own time is its time plus the grace, or later. Rows that are due leave in the order of
their times, then of the bytes of their keys, then of their arrival. If a row is late when it comes, Kafka mode joins it at once, and strict
mode drops and counts it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from streamactors.errors import StreamError
from streamactors.gauges import Gauge
from streamactors.windows.joins.stream_table import StreamTableJoin
from streamactors.windows.operators.operator import END_OF_TIME, NO_TIME, Operator, SilentTime, TaskEnvironment
from streamactors.windows.operators.windowed.late_rows import refuse_row
from streamactors.windows.record import Record
from streamactors.windows.state.serdes import key_bytes
from streamactors.windows.state.store_log import (
    Change,
    StoreLog,
    StoreReader,
    TaskIdentity,
    as_restored,
    pack_context,
    unpack_context,
)
from streamactors.windows.state.stores import Form, Stores
from streamactors.windows.values import snapshot

_SEQUENCES: Final = 1 << 31


class HeldRow:
    """A row that waits for the table."""

    __slots__ = ("dirty", "logged", "row")

    def __init__(self, row: Record) -> None:
        self.row = row
        self.dirty = True
        self.logged = False

    def fields(self) -> list[Any]:
        """The fields of its changelog entry."""
        row = self.row
        return [row.key, row.value, row.timestamp, pack_context(row.context)]


def _held(fields: list[Any]) -> HeldRow:
    key, value, timestamp, context = fields
    return HeldRow(Record(key, value, timestamp, unpack_context(context)))


HELD_FORM: Final[Form[HeldRow]] = Form(
    HeldRow.fields, lambda fields: as_restored(_held(fields[1:])), on_demand=True
)  # fmt: skip


class MissingKey(StreamError):
    """Kafka mode: a left join with grace met a row without key, which ends Kafka Streams' task."""


class GracefulTableJoin(StreamTableJoin):
    """The operator of the stream: a row waits in its store until the stream's time has passed the row's time plus the grace."""

    def __init__(
        self,
        node: str,
        store: str,
        env: TaskEnvironment,
        stores: Stores,
        table: Operator,
        fn: Callable[[Any, Any], Any],
        *,
        left: bool,
        grace_ms: int,
        kafka: bool,
    ) -> None:
        super().__init__(node, env, table, fn, left=left, as_of=True)
        self.store = store
        self._grace = grace_ms
        self._kafka = kafka
        self._stream_time = NO_TIME
        self._silent = SilentTime()
        self._sequence = 0
        self._first_time = END_OF_TIME  # no row is held with a smaller time
        self._held = stores.ordered(store, HELD_FORM)
        self._count = 0  # number of rows held; on disk without those from before the restart
        self._gauge = Gauge(
            f"{node}: rows that wait for the table", unit="rows", bounded_by=f"the grace of {grace_ms} ms"
        )
        self._log = StoreLog(store, node, f"rows held for {grace_ms} ms", env.track_changes)

    def process(self, rows: Sequence[Record], out: list[Any]) -> None:
        metrics, left = self.env.metrics, self._left
        for row in rows:
            if row.value is None or (row.key is None and not left):
                metrics.dropped_null += 1
                continue
            if row.key is None:
                if self._kafka:
                    raise MissingKey(f"{self.node}: {row!r} has no key, on which Kafka Streams fails; filter such rows")
                self.join(row, None, out)
                continue
            time = row.timestamp
            if time > self._stream_time:
                self._stream_time = time
            limit = self._stream_time - self._grace
            if time < limit:
                if self._kafka:
                    self.join(row, row.key, out)
                else:
                    refuse_row(self.node, self.env, row, time, time, self._stream_time, self._grace)
                continue
            self._hold(row)
            self._release(limit, out)
        self._gauge.reached(self._count)

    def _hold(self, row: Record) -> None:
        self._sequence = (self._sequence + 1) % _SEQUENCES
        key = key_bytes(self._ident(row.key))
        where = row.timestamp.to_bytes(8, "big") + key + self._sequence.to_bytes(4, "big")
        entry = HeldRow(Record(snapshot(row.key), snapshot(row.value), row.timestamp, row.context))
        self._held.put(where, entry)
        self._count += 1
        self._log.touch(where, entry)
        if row.timestamp < self._first_time:
            self._first_time = row.timestamp

    def _release(self, limit: int, out: list[Any]) -> None:
        if limit < self._first_time:
            return
        until = None if limit >= END_OF_TIME else (limit + 1).to_bytes(8, "big")
        for where, entry in self._held.scan(None, until):
            self._held.remove(where)
            self._log.leave(where, entry)
            self._count -= 1
            self.join(entry.row, entry.row.key, out)
        self._look_again()

    def _look_again(self) -> None:
        """Find the first row that is held."""
        low = None if self._first_time == END_OF_TIME else self._first_time.to_bytes(8, "big")
        first = self._held.first(low)
        self._first_time = END_OF_TIME if first is None else int.from_bytes(first[0][:8], "big")

    def new_input(self) -> None:
        self._silent.over()

    def idle(self, beyond_ms: int, out: list[Any]) -> None:
        self._stream_time = self._silent.moved(self._stream_time, beyond_ms)
        self._release(self._stream_time - self._grace, out)

    def due_at(self) -> int | None:
        due = None if self._first_time == END_OF_TIME else self._first_time + self._grace
        return self._silent.due_in(self._stream_time, due)

    def end(self, out: list[Any]) -> None:
        self._release(END_OF_TIME, out)

    def changes(self, identity: TaskIdentity) -> Iterable[Change]:
        state = {"stream_time": self._stream_time, "sequence": self._sequence}
        touched = ((where, [where, *entry.fields()]) for where, entry in self._log.touched())
        return self._log.changes(identity, state, touched)

    def restore(self, reader: StoreReader) -> None:
        state = reader.state(self._log)
        if state is not None:
            self._stream_time, self._sequence = state["stream_time"], state["sequence"]
            for where, *fields in reader.entries():
                self._held.put(where, as_restored(_held(fields)))
                self._count += 1
            self._look_again()
