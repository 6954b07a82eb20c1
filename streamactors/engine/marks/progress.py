"""Progress: which positions are done at the sinks of a run.

A sink reports a mark when the effect of everything before the mark is done. Per (source, partition) the run's position is the minimum over
the sinks that the source can reach and that have not ended well. A sink that failed holds its positions for good: the run has failed.

Sources `listen` to the positions that become done. A sink that commits for the whole run asks `is_behind`, or is called when the
other sinks are no longer behind its mark (`when_done`), or when one of them has failed and will never be done. There is no polling."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Final

from streamactors.engine.marks.marks import NOWHERE, Key, Mark, Position, PositionMark, is_behind, merge_newer

if TYPE_CHECKING:
    from streamactors.engine.hops.ledger import HopLedger

Listener = Callable[[PositionMark], None]
Failed = Callable[[BaseException], object]
Chosen = Callable[[object], bool]
"""Chooses sinks: True for a sink that is asked about."""


@dataclass(slots=True)
class _Wait:
    """A call of `when_done` that is not answered yet."""

    target: PositionMark
    then: Callable[[], object]
    among: Chosen
    failed: Failed


@dataclass(slots=True)
class _Sink:
    """A sink that has not ended. `partition`: the only partition whose elements reach it; None: all partitions of its sources do."""

    sources: frozenset[object]
    partition: object
    done: PositionMark = field(default_factory=dict)
    failure: BaseException | None = None
    reported_at: float = field(default_factory=monotonic)
    waits: list[_Wait] = field(
        default_factory=list
    )  # each unanswered wait is kept at one sink that is behind its target

    def carries(self, key: Key) -> bool:
        return key[0] in self.sources and self.partition in (None, key[1])

    def is_behind(self, target: PositionMark) -> bool:
        if self.partition is not None:
            target = {key: place for key, place in target.items() if key[1] == self.partition}
        return is_behind(self.done, target, self.sources)


class SinkProgress:
    """Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sinks: dict[object, _Sink] = {}
        self.sinks: Final = self._sinks.keys()
        """The sinks that have not ended; read without the lock."""
        self._done: PositionMark = {}
        self._listeners: dict[object, Listener] = {}
        self._watcher: Listener | None = None
        self.hops: HopLedger | None = None
        """Where the run's hops are measured, if they are: it hears what each sink has done."""

    # ── sinks ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def add_sink(self, sink: object, sources: frozenset[object], partition: object = None) -> None:
        """Add a sink: a position of `sources` (of their `partition`, if given) is not done before the sink has reported it."""
        with self._lock:
            self._sinks[sink] = _Sink(sources, partition)

    def done(self, sink: object, mark: Mark) -> None:
        """A sink has finished with everything before `mark`."""
        if not isinstance(mark, dict):
            return
        with self._lock:
            known = self._sinks.get(sink)
            if known is None:
                return
            merge_newer(known.done, mark)
            known.reported_at = monotonic()
            self._advance(mark)
            answered = self._answer(known) if known.waits else ()
        if self.hops is not None:
            self.hops.done(sink, mark)
        for then in answered:
            then()

    def sink_ended(self, sink: object) -> None:
        """A sink has completed and no longer holds positions back."""
        self._remove(sink, has_done_all=True)

    def sink_failed(self, sink: object, error: BaseException) -> None:
        """A sink has failed: it holds its positions for good. Each wait for it is answered with the error, because the stage that would pass
        the error on may have completed before."""
        with self._lock:
            known = self._sinks.get(sink)
            if known is None:
                return
            known.failure = error
            if self.hops is not None:
                self.hops.sink_gone(sink)
            answered = [then for each in self._sinks.values() if each.waits for then in self._answer(each)]
        for then in answered:
            then()

    def forget(self, sink: object) -> None:
        """A sink has ended with its part of the graph, which is started again: elements that the sink has not done come again."""
        self._remove(sink, has_done_all=False)

    def _remove(self, sink: object, *, has_done_all: bool) -> None:
        with self._lock:
            gone = self._sinks.pop(sink, None)
            if gone is None:
                return
            if has_done_all:
                self._advance({key for each in (*self._sinks.values(), gone) for key in each.done}, gone.done)
            answered = self._answer(gone)
        if self.hops is not None:
            (self.hops.sink_ended if has_done_all else self.hops.sink_gone)(sink)
        for then in answered:
            then()

    # ── questions ─────────────────────────────────────────────────────────────────────────────────────────────────

    def listen(self, source: object, listener: Listener) -> None:
        """Call `listener` with the positions of `source` that become done; never two calls at once."""
        self._listeners[source] = listener

    def source_gone(self, source: object) -> None:
        """Forget a source that has ended with its part of the graph: its listener, and what was done of it."""
        with self._lock:
            self._listeners.pop(source, None)
            for key in [key for key in self._done if key[0] is source]:
                del self._done[key]

    def watch(self, watcher: Listener) -> None:
        """Call `watcher` with all positions that become done, before the listener of their source."""
        self._watcher = watcher

    def is_behind(self, target: PositionMark, among: Chosen) -> bool:
        """Return whether a chosen sink has not done everything before `target`."""
        return bool(self.behind(target, among))

    def has_done(self, sink: object, key: Key, place: Position) -> bool:
        """Return whether a sink has reported a position of one partition, or a later one."""
        with self._lock:
            known = self._sinks.get(sink)
            return known is not None and known.done.get(key, NOWHERE) >= place

    def behind(self, target: PositionMark, among: Chosen) -> list[object]:
        """Return the chosen sinks that have not done everything before `target`."""
        with self._lock:
            return [sink for sink, each in self._sinks.items() if among(sink) and each.is_behind(target)]

    def when_done(
        self,
        target: PositionMark,
        then: Callable[[], object],
        among: Chosen,
        failed: Failed = lambda error: None,
    ) -> None:
        """Call `then` once, as soon as no chosen sink is behind `target`: at once, or on the thread of the last sink's report.

        If a chosen sink that is behind fails, call `failed(error)` instead. Neither may wait. Neither is called if the run ends before."""
        with self._lock:
            answer = self._wait(_Wait(target.copy(), then, among, failed))
        if answer is not None:
            answer()

    def waiting_for(self) -> dict[object, tuple[PositionMark, float]]:
        """Return, for the snapshot, the positions that each live sink has reported, and the ms since its last report."""
        now = monotonic()
        with self._lock:
            return {sink: (dict(each.done), (now - each.reported_at) * 1000) for sink, each in self._sinks.items()}

    # ── inside; under the lock ────────────────────────────────────────────────────────────────────────────────────

    def _first_behind(self, target: PositionMark, among: Chosen, failed: bool = False) -> _Sink | None:
        """Return a chosen sink that is behind, with `failed` one that has failed; None if there is none."""
        for sink, each in self._sinks.items():
            if (each.failure is not None or not failed) and among(sink) and each.is_behind(target):
                return each
        return None

    def _wait(self, wait: _Wait) -> Callable[[], object] | None:
        """Return the call that ends a wait. None if a sink is still behind: then the wait is kept at this sink."""
        sink = self._first_behind(wait.target, wait.among)
        if sink is None:
            return wait.then
        failed = sink if sink.failure is not None else self._first_behind(wait.target, wait.among, failed=True)
        if failed is not None and failed.failure is not None:
            return partial(wait.failed, failed.failure)
        sink.waits.append(wait)
        return None

    def _answer(self, sink: _Sink) -> list[Callable[[], object]]:
        """A sink has reported or was removed: return the calls that no longer wait for a sink."""
        waits, sink.waits = sink.waits, []
        return [answer for wait in waits if (answer := self._wait(wait)) is not None]

    def _advance(self, keys: Iterable[Key], gone: PositionMark | None = None) -> None:
        moved: dict[object, PositionMark] = {}
        for key in keys:
            positions = [each.done.get(key) for each in self._sinks.values() if each.carries(key)]
            known = [position for position in positions if position is not None]
            if len(known) < len(positions):
                continue
            if known:
                low = min(known)
            else:
                low = NOWHERE if gone is None else gone.get(key, NOWHERE)  # the last report of the last sink
            if low > self._done.get(key, NOWHERE):
                self._done[key] = low
                moved.setdefault(key[0], {})[key] = low
        for source, positions_of in moved.items():
            if self._watcher is not None:
                self._watcher(positions_of)
            listener = self._listeners.get(source)
            if listener is not None:
                listener(positions_of)
