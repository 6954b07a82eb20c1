"""Progress: which positions are done at every sink of a run, and who wants to hear of it.

A sink reports a mark when the effect of everything before it is done; per (source, partition) the run's position is the minimum over
the sinks that the source can reach and that have not ended well. A sink that failed blocks for ever: the run has failed."""

from __future__ import annotations

import threading
from collections.abc import Callable
from time import monotonic

from streamactors.engine.marks import Mark, Position, PositionMark, Signal, merge_newer

Listener = Callable[[PositionMark], None]
SignalListener = Callable[[Signal], None]


class Progress:
    """Thread-safe. `sinks[name]` is the set of sources whose marks reach that sink."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sinks: dict[object, frozenset[object]] = {}
        self._done: dict[object, PositionMark] = {}
        self._since: dict[object, float] = {}  # when each sink last said something, by the machine's clock
        self._said: PositionMark = {}
        self._only: dict[object, object] = {}  # sinks that one partition reaches, and which
        self._listeners: dict[object, Listener] = {}

    def add_sink(self, sink: object, sources: frozenset[object], partition: object = None) -> None:
        """Count on a sink: nothing of `sources` (given a partition: nothing of that) is done before it says so."""
        with self._lock:
            if partition is not None:
                self._only[sink] = partition
            self._sinks[sink] = sources
            self._done[sink] = {}
            self._since[sink] = monotonic()

    def listen(self, source: object, listener: Listener) -> None:
        """Have `listener` called with the positions of `source` that have become done; never two calls at once."""
        self._listeners[source] = listener

    def done(self, sink: object, mark: Mark) -> None:
        """A sink has finished with everything before `mark`."""
        if not isinstance(mark, dict):
            return
        with self._lock:
            known = self._done.get(sink)
            if known is None:
                return
            merge_newer(known, mark)
            self._since[sink] = monotonic()
            self._advance(list(mark))

    def sink_ended(self, sink: object) -> None:
        """A sink ended well; it holds nobody back any more."""
        with self._lock:
            gone = self._done.pop(sink, None)
            self._since.pop(sink, None)
            self._sinks.pop(sink, None)
            self._only.pop(sink, None)
            if gone is not None:
                self._advance(list({key for marks in (*self._done.values(), gone) for key in marks}), gone)

    def forget(self, sink: object) -> None:
        """A sink is gone with the part of the graph it stood in, which is begun anew: what it has not done comes again."""
        with self._lock:
            self._done.pop(sink, None)
            self._since.pop(sink, None)
            self._sinks.pop(sink, None)
            self._only.pop(sink, None)

    def position(self, key: tuple[object, object]) -> Position | None:
        """Return the position that is done, None when nothing is."""
        return self._said.get(key)

    def sources_of(self, sink: object) -> frozenset[object]:
        """Return the sources whose marks reach a sink; none when it has ended."""
        return self._sinks.get(sink, frozenset())

    def waiting_for(self) -> dict[object, tuple[PositionMark, float]]:
        """Return what each live sink has reported, and how many ms ago it last did, for the snapshot."""
        now = monotonic()
        with self._lock:
            return {sink: (dict(marks), (now - self._since[sink]) * 1000) for sink, marks in self._done.items()}

    def _advance(self, keys: list[tuple[object, object]], gone: PositionMark | None = None) -> None:
        moved: dict[object, PositionMark] = {}
        for key in keys:
            positions = [
                self._done[sink].get(key)
                for sink, sources in self._sinks.items()
                if key[0] in sources and self._only.get(sink, key[1]) == key[1]
            ]
            if None in positions:
                continue
            known = [position for position in positions if position is not None]
            if not known:
                low = gone.get(key) if gone is not None else None  # the last sink's last word
            else:
                low = min(known)
            if low is not None and low > self._said.get(key, (0, -1)):
                self._said[key] = low
                moved.setdefault(key[0], {})[key] = low
        for source, positions_of in moved.items():
            listener = self._listeners.get(source)
            if listener is not None:
                listener(positions_of)
