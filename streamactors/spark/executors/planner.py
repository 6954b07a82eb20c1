"""Planner: answers Spark's driver process. It says where the next batch ends and what its tasks are, and learns what the checkpoint covers.

Spark calls `latest(start)` once its checkpoint covers everything before `start`. The planner then commits the group's offsets, which lag
tools read, and deletes the states that no batch needs any more. Owner: the one thread of Spark's source process."""

from __future__ import annotations

import logging
import os
import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from streamactors.kafka.client.admin import EARLIEST, LATEST, Admin
from streamactors.kafka.client.ranges import TO_SKIP
from streamactors.kafka.errors import KafkaError, RecordsGone
from streamactors.kafka.settings import ConsumerSettings
from streamactors.kafka.subscriptions import ManualSubscription, Subscription
from streamactors.spark.errors import CheckpointError
from streamactors.spark.executors import offsets as places
from streamactors.spark.executors.folders import folder_at
from streamactors.spark.executors.offsets import Offsets
from streamactors.spark.executors.ranges import Range, split
from streamactors.spark.executors.states import States
from streamactors.spark.query.source_identity import SourceIdentity, difference
from streamactors.spark.sink.batch_size import BatchSize

_log = logging.getLogger("streamactors.spark")

WAIT_S: Final = 0.5
"""How long `latest` waits for records before it reports none; Spark asks again at once."""
LOOK_S: Final = 0.02
NEW_PARTITIONS_S: Final = 30.0


@dataclass
class Plans:
    """What the planner needs to know, made by the driver."""

    settings: ConsumerSettings
    subscription: Subscription
    first: dict[str, int]
    """Where the query has begun, by the names of offsets. If offsets have a `source`: where a query without a checkpoint begins."""
    ends: dict[str, int] | None
    """The ends of a bounded read; None: it never ends."""
    commits: bool
    windows: bool
    idle_after_ms: int | None
    state_folder: str
    max_rows: int
    target_ms: float
    skip_lost: bool
    to_skip: str = field(default=TO_SKIP, kw_only=True)
    """How the user asks for `skip_lost`."""
    topics: tuple[str, ...] = field(default=())
    pattern: str = ""
    """A regular expression of whole names of topics, in place of `topics`: topics that are created later are read, too."""
    tasks: int | None = None
    """At least so many tasks read a batch, as far as it has so many offsets; None: one for each partition. Without windows only."""
    drain_file: str = ""
    """While this file exists on the driver's host, no further batch begins."""
    note: str = ""
    """What is committed with the group's positions."""
    source: SourceIdentity | None = None
    """What is read, where Spark's offsets must say it because the query has no checkpoint of ours."""


def matching(pattern: str, known: Iterable[str]) -> list[str]:
    """Return the topics whose whole name matches a regular expression, without Kafka's own."""
    expression = re.compile(pattern)
    return sorted(name for name in known if expression.fullmatch(name) and not name.startswith("__"))


class Planner:
    """Plans the batches of one query. `begin`: asked where a query without a checkpoint begins; of `Plans.first` only the names count then."""

    def __init__(self, plans: Plans, begin: Callable[[], dict[str, int]] | None = None) -> None:
        self._plans = plans
        self._begin = begin
        self._admin = Admin(plans.settings)
        self._states = States(folder_at(plans.state_folder)) if plans.windows else None
        self._size = BatchSize(plans.max_rows, plans.target_ms)
        self._given: tuple[Offsets, int, float] | None = (
            None  # the batch that Spark has now: its end, rows, and when it was given
        )
        self._done: Offsets | None = None
        self._checked = False
        self._is_first = True
        self._stop_at: dict[str, int] | None = None
        self._silent_since: dict[str, tuple[tuple[int, ...], float]] = {}
        self._due: dict[str, tuple[str, int | None]] = {}
        self._looked_at = time.monotonic()
        self._seen: dict[str, int] | None = None

    def initial(self) -> Offsets:
        """Return where the first batch begins."""
        first = self._plans.first if self._begin is None else self._begin()
        return places.initial(first, windows=self._plans.windows, source=self._plans.source)

    def prepare_available_now(self) -> None:
        """The query ends with the records that are there now, those of new partitions included."""
        self._looked_at = float("-inf")
        self._stop_at = self._plans.ends or self._ends(self._plans.first)

    def latest(self, start: Offsets) -> Offsets:
        """Return the end of the next batch; `start` itself when there is nothing to do."""
        self._check_source(start)
        self._acknowledge(start)
        if not self._checked:
            self._check(start)
        deadline = time.monotonic() + WAIT_S
        while True:
            if self._plans.drain_file and os.path.exists(self._plans.drain_file):
                return start
            found = self._next(start)
            if found is not start or self._stop_at is not None or time.monotonic() > deadline:
                return found
            time.sleep(LOOK_S)

    def ends(self) -> dict[str, int] | None:
        """Return the ends of the partitions as they were found last, for Spark's progress; None before the first look."""
        return self._seen

    def ranges(self, start: Offsets, end: Offsets) -> list[Range]:
        """Return the tasks of a batch."""
        self._check_source(end)  # Spark repeats a batch before it asks for the next one
        self._check_windows(places.positions(end).keys() - self._plans.first.keys())
        first = self._plans.first if self._plans.source is None else end.get(places.FIRST, {})
        found = places.ranges(start, end, first)  # a partition that is not in `first` has come later, and begins at 0
        tasks = end.get(places.TASKS)
        return found if tasks is None else split(found, tasks)

    # ── inside ────────────────────────────────────────────────────────────────────────────────────────────────────

    def _next(self, start: Offsets) -> Offsets:
        stop_at = self._stop_at if self._stop_at is not None else self._plans.ends
        ends = stop_at if stop_at is not None else self._ends(start)
        self._check_windows(ends.keys() - self._plans.first.keys())
        self._seen = dict(sorted(ends.items()))
        is_live = stop_at is None and self._plans.idle_after_ms is not None
        silent = self._silence(start, ends, self._plans.idle_after_ms or 0) if is_live else {}
        found = places.following(start, ends, self._size.rows, is_end=self._plans.ends is not None, silent=silent)
        if found is not start:
            if self._plans.tasks is not None:
                found[places.TASKS] = self._plans.tasks
            if self._plans.skip_lost:
                self._warn_of_lost(start)
            before = places.positions(start)
            rows = sum(place - before.get(name, 0) for name, place in places.positions(found).items())
            self._given = (found, rows, time.monotonic())
        return found

    def _acknowledge(self, start: Offsets) -> None:
        if start == self._done:
            return
        if self._given is not None and self._given[0] == start:
            _, rows, since = self._given
            self._size.took(rows, (time.monotonic() - since) * 1_000)
        before, self._done = self._done, start
        plans = self._plans
        if plans.commits and plans.settings.group_id:
            wanted = {places.key_of(name): place for name, place in places.positions(start).items()}
            try:
                self._admin.commit(plans.settings.group_id, wanted, plans.note)
            except KafkaError as error:  # the checkpoint is the truth; the next batch commits again
                _log.warning("the offsets of group %s were not committed: %s", plans.settings.group_id, error)
        if self._states is not None and before is not None:
            self._states.collect(
                {
                    str(places.key_of(name)): [
                        places.at(offsets, name, plans.first, beside) for offsets in (before, start)
                    ]
                    for name, beside in places.tasks(start).items()
                }
            )

    def _check(self, start: Offsets) -> None:
        """Check once that the records after the checkpoint exist. Raises RecordsGone."""
        self._checked = True
        keys = [places.key_of(name) for name in places.positions(start)]
        lows = self._admin.offsets(dict.fromkeys(keys, EARLIEST))
        highs = self._admin.offsets(dict.fromkeys(keys, LATEST))
        limits = {places.name_of(key): (lows[key], highs[key]) for key in keys}
        gone, beyond = places.lost(start, limits)
        if beyond:
            raise RecordsGone(
                f"the checkpoint continues beyond the end of {', '.join(beyond)}; was the topic deleted and created again?"
            )
        if gone and not self._plans.skip_lost:
            raise RecordsGone(
                f"retention has passed the checkpoint: {', '.join(gone)} {'is' if len(gone) == 1 else 'are'} not there any more; "
                f"{self._plans.to_skip} continues after them"
            )

    def _warn_of_lost(self, start: Offsets) -> None:
        """Log the records of a batch that begins at `start` that retention has deleted. The driver has done it for the first batch of a graph."""
        first, self._is_first = self._is_first, False
        if first and self._plans.source is None:
            return
        lows = self._admin.offsets(dict.fromkeys(map(places.key_of, places.positions(start)), EARLIEST))
        gone, _ = places.lost(
            start, {places.name_of(key): (low, start[places.name_of(key)]) for key, low in lows.items()}
        )
        if gone:
            _log.warning("retention has deleted records before they were read; the query skips %s", ", ".join(gone))

    def _check_source(self, offsets: Offsets) -> None:
        """Check that offsets of Spark's checkpoint belong to this source, if they name their source. Raises CheckpointError naming both."""
        read = self._plans.source
        if read is None:
            return
        kept = places.source_of(offsets)
        differs = ("another kind of source", read.label) if kept is None else difference([kept], [read])
        if differs is not None:
            raise CheckpointError(
                f"the query's checkpoint was written for {differs[0]}, and this frame reads {differs[1]}; "
                "give the query a checkpointLocation of its own"
            )

    def _ends(self, start: Offsets) -> dict[str, int]:
        names = set(places.positions(start))
        now = time.monotonic()
        if now - self._looked_at > NEW_PARTITIONS_S:
            self._looked_at = now
            names |= self._new_partitions(start)
        committed = str(self._plans.settings.properties.get("isolation.level", "read_committed")) == "read_committed"
        found = self._admin.offsets({places.key_of(name): LATEST for name in names}, committed=committed)
        return {places.name_of(key): place for key, place in found.items()}

    def _new_partitions(self, start: Offsets) -> set[str]:
        plans = self._plans
        if isinstance(plans.subscription, ManualSubscription):
            return set()
        known = {topic.name: topic.partitions for topic in self._admin.topics()}
        topics = matching(plans.pattern, known) if plans.pattern else plans.topics
        there = {f"{places.SOURCE}{topic}-{i}" for topic in topics for i in range(known.get(topic, 0))}
        new = places.new_among(there, start)
        self._check_windows(new)
        return set(new)

    def _check_windows(self, new: Iterable[str]) -> None:
        """Check that a graph with windows has no new partitions, given those that the query has not begun with. Raises CheckpointError naming them."""
        plans = self._plans
        names = ", ".join(sorted(name.removeprefix(places.SOURCE) for name in new))
        if names and plans.windows:
            raise CheckpointError(
                f"topic {', '.join(plans.topics)} has grown by {names}, and keys would move to partitions that do not have their windows; "
                "drain the graph, and begin with a new checkpoint"
            )

    def _silence(self, start: Offsets, ends: Mapping[str, int], idle_after_ms: int) -> dict[str, int]:
        """Return the tasks that have been silent long enough to close a window, with their silence beyond idle_after."""
        now = time.monotonic()
        due: dict[str, int] = {}
        for name, beside in places.tasks(start).items():
            here = places.at(start, name, self._plans.first, beside)
            if here.ended:
                continue  # it holds nothing that silence closes
            since = self._silent_since.get(name)
            if since is None or since[0] != here.positions or any(ends.get(n, 0) > start[n] for n in (name, *beside)):
                self._silent_since[name] = (here.positions, now)
                continue
            if self._due.get(name, ("", None))[0] != str(here):
                assert self._states is not None
                self._due[name] = (str(here), self._states.due_ms(str(places.key_of(name)), here))
            wait_ms = self._due[name][1]
            beyond = int((now - since[1]) * 1_000) - idle_after_ms
            if wait_ms is not None and here.idle_ms + wait_ms - idle_after_ms <= beyond:
                due[name] = beyond
        return due
