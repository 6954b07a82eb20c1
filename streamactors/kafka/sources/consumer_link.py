"""ConsumerLink: a source's side of its consumer actor: starts it, asks it, and keeps it until every run that uses its records has ended.

Owner: the logic of a source stage. The sub-sources of a partitioned source share its link, from islands and runs of their own."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

from streamactors.actors.dispatching.dispatcher import DispatcherStopped
from streamactors.actors.futures import StreamFuture
from streamactors.clock import VirtualClock
from streamactors.engine.island.causes import NonFailureCancellation
from streamactors.engine.island.closings import Closings, closings_of
from streamactors.engine.island.connection import Connection
from streamactors.engine.island.run import Run
from streamactors.engine.logic import SourceLogic
from streamactors.kafka.client.offsets.append_times import AppendTimes
from streamactors.kafka.controls.control import RUNNING, Control
from streamactors.kafka.errors import ConsumerFailed
from streamactors.kafka.reading.consumer_actor import ConsumerActor
from streamactors.kafka.reading.consumer_context import ReadingSource
from streamactors.kafka.reading.messages import CommitNow, Commits, RunEnded, StageEnded, StartReading
from streamactors.kafka.reading.offset_tracker import OffsetTracker
from streamactors.kafka.settings import ConsumerSettings
from streamactors.kafka.subscriptions import AutoSubscription, Subscription

_log = logging.getLogger("streamactors.kafka")


class _Leaving:
    """The members of a run that leave their groups because their streams have failed: their groups, and the futures of their ends."""

    def __init__(self) -> None:
        self._members: list[tuple[str | None, StreamFuture[None]]] = []

    def add(self, group: str | None, ended: StreamFuture[None]) -> None:
        """A member begins to leave. Called on the island of its source."""
        self._members = [member for member in self._members if not member[1].done()]
        self._members.append((group, ended))

    def when_left(self, group: str | None, then: Callable[[], None]) -> None:
        """Call `then` when the members of a group that leave now have left; on the thread that ends the last one."""
        for name, ended in list(self._members):
            if name == group and not ended.done():
                ended.add_done_callback(lambda _: self.when_left(group, then))
                return
        then()


class ConsumerLink:
    """Connects a source's logic to its consumer actor. `start` is called on the source's island, everything else on any thread."""

    def __init__(self, commits: Commits) -> None:
        self.commits = commits
        self.control = Control()
        self.tracker = OffsetTracker() if commits is not Commits.NOBODY else None
        self.started = False
        self.commits_by_itself = commits in (Commits.MARKS, Commits.OFFSETS)
        """False where a transaction commits, or nobody does."""
        self.tell: Callable[[Any], None] = lambda _: None
        self.stop: Callable[[], None] = lambda: None
        self._actor: ConsumerActor | None = None
        self._leaving: tuple[_Leaving, str | None] | None = None  # of a member whose partitions the group assigns
        self._runs: set[Run] = set()
        self._closings: list[Closings] = []  # of runs that have ended
        self._lock = threading.Lock()
        self._call_later: Callable[[float, Callable[[], None]], Any] = lambda _, __: None
        self._close_timeout_ms = 0
        self._settings: ConsumerSettings | None = None
        self._append_times: AppendTimes | None = None

    def start(
        self,
        run: Run,
        settings: ConsumerSettings,
        subscription: Subscription,
        source: ReadingSource,
        stop: Callable[[], None],
        **how: Any,
    ) -> None:
        """Connect to a consumer in the actor system of `run`. `control.stop()` calls `stop`; `how`: the arguments of ConsumerActor."""
        self.stop = stop
        self.commits_by_itself = how["commits"] in (Commits.MARKS, Commits.OFFSETS)
        self._call_later = run.system.timers.call_later
        self._close_timeout_ms = settings.close_timeout_ms
        self._settings = settings
        self.tell = self.connected(run, settings, subscription, source, how)
        self.started = True
        self.control.group = settings.group_id or ""
        self.control.attach(self.tell, stop)
        RUNNING.add(self.control)
        self.keep_until_ended(run)
        begin = partial(self.tell, self.first_message())
        if isinstance(subscription, AutoSubscription):
            self._leaving = leaving, group = run.shared(_Leaving, _Leaving), settings.group_id
            if how["until_end"]:
                # In a RestartSource: the former instance is given a partition -> this one reads its own, or none, and the stream succeeds without the rest.
                leaving.when_left(group, begin)
                return
        begin()

    def stream_failed(self) -> None:
        """The stream inside a stage such as RestartSource has failed: the next instance begins when this consumer has left its group."""
        if self._leaving is not None:
            leaving, group = self._leaving
            leaving.add(group, self.control.is_shutdown)

    def connected(
        self,
        run: Run,
        settings: ConsumerSettings,
        subscription: Subscription,
        source: ReadingSource,
        how: dict[str, Any],
    ) -> Callable[[Any], None]:
        """Spawn the consumer's actor; return where its messages go."""
        system = run.system
        actor = self._actor = ConsumerActor(
            settings,
            subscription,
            source,
            self.tracker,
            self.control,
            call_later=system.timers.call_later,
            now_ms=system.clock.now_ms,
            virtual=system.clock if isinstance(system.clock, VirtualClock) else None,
            when_closed=self.when_closed,
            **how,
        )
        self.control.look = actor.look
        self.control.rebalances = actor.rebalances
        tell: Callable[[Any], None] = system.spawn(actor, f"consumer {settings.group_id or ''}".strip()).tell
        return tell

    def first_message(self) -> Any:
        """Return the message with which the consumer begins."""
        return StartReading()

    def keep_until_ended(self, run: Run) -> None:
        """Keep the consumer until this run has ended, too: the run may still finish and acknowledge records."""
        with self._lock:
            if run in self._runs:
                return
            self._runs.add(run)
        run.when_ended(lambda: self._on_run_ended(run))

    def _on_run_ended(self, run: Run) -> None:
        closings = closings_of(run)
        with self._lock:
            if closings.pending:
                self._closings.append(closings)
            self._runs.discard(run)
            over = not self._runs
        if over:
            self._over()

    def _over(self) -> None:
        self.tell(RunEnded())

    def when_closed(self, then: Callable[[], object]) -> None:
        """Call `then` when everything is closed that runs which have ended had open, such as state on disk; after close_timeout_ms at the latest,
        with a warning. At once if nothing is open; any thread."""
        if not self._first_open():
            then()
            return
        limit_ms = self._close_timeout_ms

        def is_late() -> None:
            _log.warning("%s: its state was not closed within %d ms after the consumer", self.control.group, limit_ms)
            then()

        try:
            late = self._call_later(limit_ms, is_late)
        except DispatcherStopped:  # the actor system has ended
            then()
            return

        def look() -> None:
            first = self._first_open()
            if first is not None:
                first.when_closed(look)
            elif late.cancel():
                then()

        look()

    def _first_open(self) -> Closings | None:
        with self._lock:
            return next((each for each in self._closings if each.pending), None)

    def commit(self, reply: StreamFuture[None]) -> None:
        """Have everything that is done committed; `reply` ends when the broker has it."""
        self.tell(CommitNow(reply))

    def group_metadata(self) -> Any:
        """Return the group membership a transaction commits under. Raises ConsumerFailed when the consumer is closed, or has not begun."""
        if self._actor is None:  # a source that a restart has just made
            raise ConsumerFailed(
                "the source has been restarted and reads nothing yet, so what was in flight cannot be committed"
            )
        return self._actor.group_metadata()

    def append_times(self) -> AppendTimes:
        """Return what asks the broker when records were appended. It is closed when the consumer is; any thread."""
        with self._lock:
            if self._append_times is None:
                assert self._settings is not None
                self._append_times = times = AppendTimes(self._settings)
                self.control.is_shutdown.add_done_callback(lambda _: times.close())
            return self._append_times

    def paused(self) -> tuple[str, ...]:
        """The partitions of the consumer, if the user has paused all of them; any thread."""
        return () if self._actor is None else self._actor.paused()

    def renew_membership(self) -> None:
        """Say that the membership is stale; the consumer looks it up again."""
        assert self._actor is not None
        self._actor.renew_membership()


class ConsumerLogic(SourceLogic):
    """What the logics of all sources of whole topics or partitions share: the link, and how they end."""

    def __init__(self, link: ConsumerLink) -> None:
        self.consumer = link
        self.control = self.consumer.control
        self._ending = False
        self._failure: BaseException | None = None

    @property
    def paused(self) -> tuple[str, ...]:
        return self.consumer.paused()

    def post(self, handler: Callable[[Any], None], argument: Any) -> None:
        """Have a handler run on this stage's island; any thread."""
        self.interpreter.post(self, handler, argument)

    def on_failed(self, error: BaseException) -> None:
        """The consumer has failed."""
        self.fail_stage(error)

    def stage_ended(self, feed: Any, *, at_end: bool) -> StageEnded:
        """Return the message that the stage has ended. `at_end`: a bounded read has delivered everything."""
        failed = self._failure is not None
        if failed and self.inside:
            self.consumer.stream_failed()
        # Inside a RestartSource the run does not end with this source, and its next instance needs the partitions.
        drains = self.control.is_draining or (at_end and not self.inside)
        return StageEnded(feed, failed, drains and not failed)

    def end(self, _: object = None) -> None:
        """Complete the stage."""
        if not self._ending:
            self._ending = True
            self.complete_stage()

    def on_cancel(self, out: Connection, cause: BaseException) -> None:
        if not isinstance(cause, NonFailureCancellation):
            self._failure = cause
        super().on_cancel(out, cause)

    def fail_stage(self, error: BaseException) -> None:
        self._failure = error  # no cancellation tells of a step inside this stage
        if not self.consumer.started:  # refused settings: no consumer will say that it is closed
            self.control.is_shutdown.try_fail(error)
        super().fail_stage(error)
