"""What both operators over tumbling, hopping and unlimited windows share: which windows are open, state and restore.

Owner: its operator. The windows of a timestamp are the same for a whole slot of gcd(size, advance) milliseconds, so
they are looked up once per slot, not once per row."""

from __future__ import annotations

import math
from collections.abc import Iterator, MutableMapping
from typing import Any, Final

from streamactors.windows.aggregation import Aggregation
from streamactors.windows.changelog import Change, StoreLog, StoreReader, TaskIdentity, pack_context, unpack_context
from streamactors.windows.codec import dumps, key_bytes
from streamactors.windows.definitions import FOREVER, TimeWindows, UnlimitedWindows, grace_of
from streamactors.windows.operator import NO_TIME, AggregateOperator, Ident, Surroundings
from streamactors.windows.record import RecordContext
from streamactors.windows.stores import Stores, WindowStore

NEVER: Final = 1 << 70
"""A stream time that does not come."""


class Cell:
    """A window of a key: the aggregate, its newest timestamp, the last contributing row's context.

    `prior` and `old` are what a suppress buffer would remember: the aggregate before the first and the last update."""

    __slots__ = ("context", "dirty", "key", "logged", "old", "prior", "timestamp", "value")

    def __init__(self, key: Any, value: Any, timestamp: int, context: RecordContext | None, prior: Any) -> None:
        self.key = key
        self.value = value
        self.timestamp = timestamp
        self.context = context
        self.prior = prior
        self.old = prior
        self.dirty = True
        self.logged = False


class TimeWindowOperator(AggregateOperator):
    """State and time of an aggregation over TimeWindows or UnlimitedWindows."""

    def __init__(
        self, spec: Aggregation[TimeWindows] | Aggregation[UnlimitedWindows], around: Surroundings, stores: Stores
    ) -> None:
        super().__init__(spec.node, around)
        self.store = spec.store
        self._windows = spec.windows
        self._aggregator = spec.aggregator
        self._cells: WindowStore[Cell] = stores.windowed(spec.store)
        self._log = StoreLog(spec.store, spec.node, spec.shape, around.track_changes)
        self._retention = spec.retention_ms
        self._finals = spec.finals
        self._newest = NO_TIME  # the largest start ever written
        windows = spec.windows
        if isinstance(windows, TimeWindows):
            self._granule = math.gcd(windows.size_ms, windows.advance_ms)
            self._size = windows.size_ms
            self._grace = grace_of(windows)
            self._span = self._size + self._grace  # from a start to the stream time that closes the window
        else:
            self._granule = windows.start_ms or FOREVER
            self._size = FOREVER - windows.start_ms
            self._grace = 0
            self._span = FOREVER

    def _open(self, timestamp: int) -> tuple[list[tuple[int, MutableMapping[Ident, Cell]]], list[int]]:
        """The open windows of a timestamp with their cells, and the starts of its closed ones, ascending."""
        closed_through = self.stream_time - self._span
        opened, closed = [], []
        for start in self._windows.starts(timestamp):
            if start <= closed_through:
                closed.append(start)
            else:
                opened.append((start, self._cells.window(start)))
                if start > self._newest:
                    self._newest = start
        return opened, closed

    def _close_at(self) -> int:
        """The stream time that closes the first window there is."""
        first = self._cells.first()
        return NEVER if first is None else first + self._span

    def _log_key(self, ident: Ident, start: int) -> bytes:
        return key_bytes(ident) + start.to_bytes(8, "big")

    def _state(self) -> dict[str, Any]:
        return {"stream_time": self.lasting_time, "newest": self._newest}

    def _flushed_until(self) -> int:
        if self._span == FOREVER or not self._finals:
            return NO_TIME
        return (
            max((start for start, cells in self._cells.windows() if cells), default=NO_TIME - self._span) + self._span
        )

    def changes(self, identity: TaskIdentity) -> Iterator[Change]:
        entries = {
            self._log_key(ident, start): dumps(
                [cell.key, start, cell.value, cell.timestamp, pack_context(cell.context), cell.prior, cell.old]
            )
            for (start, ident), cell in self._log.touched()
        }
        return self._log.changes(identity, self._state(), entries)

    def restore(self, reader: StoreReader) -> None:
        state = reader.state(self._log)
        if state is None:
            return
        self.stream_time, self._newest = state["stream_time"], state["newest"]
        identify = self.around.identity.of
        for _, (key, start, value, timestamp, context, prior, old) in reader.entries():
            cell = Cell(key, value, timestamp, unpack_context(context), prior)
            cell.old, cell.dirty, cell.logged = old, False, True
            self._cells.window(start)[identify(key)] = cell
