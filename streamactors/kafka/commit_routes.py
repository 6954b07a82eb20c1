"""What the Committers of a run and its committable sources know of each other.

A mark that has reached every Committer its source can reach says that all before it was committed by the user or dropped on purpose.
Only then does an offset count for itself alone; where a stage on the way hides marks, it counts for all before it, as in Alpakka."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from streamactors.actors.futures import StreamFuture
from streamactors.engine.marks import PositionMark
from streamactors.engine.progress import Progress
from streamactors.engine.run import Run
from streamactors.kafka.offsets import OffsetTracker

_log = logging.getLogger("streamactors.kafka")

Commit = Callable[[StreamFuture[None]], None]


class CommitRoutes:
    """Of one run. Committers are added before any stage starts, sources when they start."""

    def __init__(self) -> None:
        self.progress = Progress()
        self._committers: list[frozenset[Any]] = []
        self._commits: dict[Any, Commit] = {}

    def committer(self, committer: object, carries: frozenset[Any]) -> None:
        """A Committer to which the marks of these sources come."""
        self._committers.append(carries)
        self.progress.add_sink(committer, carries)

    def source(
        self, source: object, tracker: OffsetTracker, listener: Callable[[PositionMark], None], commit: Commit
    ) -> None:
        """A committable source; `listener` hears what is done by marks."""
        tracker.gap_aware = bool(self._committers) and all(source in carried for carried in self._committers)
        if tracker.gap_aware:
            self._commits[source] = commit
            self.progress.listen(source, listener)
        else:
            _log.warning(
                "a stage between a committable source and its Committer does not say what it holds: committing an offset "
                "commits everything before it; keep the order up to there"
            )

    def commits(self, mark: PositionMark) -> set[Commit]:
        """Return how the sources of a mark are told to commit."""
        return {self._commits[key[0]] for key in mark if key[0] in self._commits}


def routes_of(run: Run) -> CommitRoutes:
    """Return the routes of a run."""
    return run.shared(CommitRoutes, CommitRoutes)
