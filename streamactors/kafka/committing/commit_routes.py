"""The Committers and the committable sources of a run, and how a Committer asks a source to commit.

A mark that has reached every Committer its source can reach says: the user has committed all offsets before the mark, or dropped their
records on purpose. Then an offset acknowledges its own record only. Where a stage on the way hides marks, an offset acknowledges all
records before it, as in Alpakka."""

from __future__ import annotations

import logging
import threading
import weakref
from collections.abc import Callable
from typing import Any

from streamactors.actors.futures import StreamFuture
from streamactors.engine.island.run import Run
from streamactors.engine.marks.marks import PositionMark
from streamactors.engine.marks.progress import SinkProgress
from streamactors.kafka.reading.offset_tracker import DrainListener, OffsetTracker

_log = logging.getLogger("streamactors.kafka")

Commit = Callable[[StreamFuture[None]], None]


class CommitRoutes:
    """Of one run. Committers are added before any stage starts, sources when they start."""

    def __init__(self) -> None:
        self.progress = SinkProgress()
        self._lock = threading.Lock()
        self._committers: list[frozenset[Any]] = []
        self._listeners: weakref.WeakSet[DrainListener] = weakref.WeakSet()  # the Committers
        self._trackers: dict[Any, OffsetTracker] = {}
        self._commits: dict[Any, Commit] = {}

    def committer(self, committer: DrainListener, carries: frozenset[Any]) -> None:
        """Add a Committer that receives the marks of these sources."""
        with self._lock:
            self._committers.append(carries)
            self._listeners.add(committer)
            for tracker in self._trackers.values():
                tracker.tell_of_drains(committer)
        self.progress.add_sink(committer, carries)

    def source(
        self, source: object, tracker: OffsetTracker, listener: Callable[[PositionMark], None], commit: Commit
    ) -> None:
        """Add a committable source; `listener` is called with the positions that are done by marks."""
        with self._lock:
            self._trackers[source] = tracker
            for committer in self._listeners:
                tracker.tell_of_drains(committer)
        tracker.gap_aware = bool(self._committers) and all(source in carried for carried in self._committers)
        if tracker.gap_aware:
            self._commits[source] = commit
            self.progress.listen(source, listener)
        else:
            _log.warning(
                "a stage between a committable source and its Committer hides marks: committing an offset commits every offset "
                "before it; keep the records in order up to the Committer"
            )

    @property
    def drains(self) -> bool:
        """True while a revocation waits until the records in flight of a source are done."""
        return any(tracker.drains for tracker in list(self._trackers.values()))

    def commits(self, mark: PositionMark) -> set[Commit]:
        """Return the commit functions of the sources of a mark."""
        return {self._commits[key[0]] for key in mark if key[0] in self._commits}


def routes_of(run: Run) -> CommitRoutes:
    """Return the routes of a run."""
    return run.shared(CommitRoutes, CommitRoutes)
