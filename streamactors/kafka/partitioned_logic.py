"""The logic of a partitioned source: hands out (partition, source of its records) for each partition that is assigned.

    assigned ──(offsets looked up)──► its sub-source waits to be emitted ──► emitted, runs ──► ended
                                                 ▲    revoked, and not assigned again within wait_close_partition_ms: completed
                                                 └─── cancelled by downstream: handed out anew, from the first record not taken

Owner: the stage's island. One consumer actor serves all partitions, each through a feed of its own."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from streamactors.dsl.source import Source
from streamactors.engine.awaiting import can_be_awaited, when_done
from streamactors.engine.blueprint import StageModule
from streamactors.engine.causes import NonFailureCancellation
from streamactors.engine.connection import Connection
from streamactors.engine.logic import SourceLogic
from streamactors.engine.run import Run
from streamactors.engine.user_code import blame
from streamactors.kafka.commit_routes import routes_of
from streamactors.kafka.consumer_actor import ConsumerActor
from streamactors.kafka.consumer_messages import CommitNow, Commits, RunEnded, StageEnded, Start, StartAt
from streamactors.kafka.control import Control
from streamactors.kafka.errors import ConsumerFailed
from streamactors.kafka.manual_offsets import checked_offsets
from streamactors.kafka.offsets import OffsetTracker
from streamactors.kafka.partition_feed import PartitionFeed
from streamactors.kafka.sub_source import SubSource
from streamactors.kafka.sub_source_stage import SubSourceStage
from streamactors.kafka.subscriptions import TopicPartition

if TYPE_CHECKING:
    from streamactors.kafka.partitioned_stage import PartitionedSourceStage

_log = logging.getLogger("streamactors.kafka")

AHEAD_OF_ALL = 8_192
LEAST_AHEAD = 32
"""Records that lie ready for all sub-sources together, and at least for each; fewer where they would be more than max_buffered_bytes."""


class PartitionedSourceLogic(SourceLogic):
    """See the module."""

    run: Run
    source: Any = None
    group_metadata: Callable[[], Any]
    renew_membership: Callable[[], None]

    def __init__(self, stage: PartitionedSourceStage) -> None:
        self._stage = stage
        self.control = Control()
        self.tracker = OffsetTracker() if stage.commits is not Commits.NOBODY else None
        self.tell: Callable[[Any], None] = lambda _: None
        self._fresh: dict[tuple[TopicPartition, int], PartitionFeed] = {}  # made on the consumer's thread
        self._assigned: dict[TopicPartition, PartitionFeed] = {}
        self._subs: dict[TopicPartition, SubSource] = {}  # handed out, or waiting to be
        self._waiting: deque[SubSource] = deque()
        self._closing: dict[TopicPartition, int] = {}  # revoked, by the timer that will end it
        self._revocations = 0
        self._all_read = False
        self._ending = False
        self._failure: BaseException | None = None
        self._lock = threading.Lock()
        self._runs: set[Run] = set()  # that must end before the consumer may

    def post(self, handler: Callable[[Any], None], argument: Any) -> None:
        """Have a handler run on this stage's island; any thread."""
        self.interpreter.post(self, handler, argument)

    def on_start(self) -> None:
        stage = self._stage
        self.run = run = self.interpreter.island.run
        self.source = run.source_id(self)
        self._listen(run)
        system = run.system
        actor = ConsumerActor(
            stage.settings,
            stage.subscription,
            self,
            self.tracker,
            self.control,
            commits=stage.commits,
            until_end=stage.until_end,
            call_later=system.timers.call_later,
            now_ms=system.clock.now_ms,
            feed_of=self._new_feed,
            withhold=stage.offsets_on_assign is not None,
        )
        self.group_metadata = actor.group_metadata
        self.renew_membership = actor.renew_membership
        ref = system.spawn(actor, f"consumer {stage.settings.group_id or ''}".strip())
        self.tell = ref.tell
        stop = self.async_callback(self._stopped)
        self.control.attach(ref.tell, lambda: stop.invoke(None))
        self.wait_for(run)
        ref.tell(Start())

    def _listen(self, run: Run) -> None:
        tracker = self.tracker
        if tracker is None or self.source is None:
            return

        if self._stage.commits is Commits.OFFSETS:
            routes_of(run).source(
                self.source, tracker, tracker.done_everywhere, lambda reply: self.tell(CommitNow(reply))
            )
        else:
            run.progress.listen(self.source, tracker.done_everywhere)

    # ── what sub-sources say; any thread ──────────────────────────────────────────────────────────────────────────

    def ahead(self, record_bytes: int | None) -> int:
        if record_bytes is None:
            return 1  # it tells how large they are
        sources = max(1, len(self._assigned))
        bound = self._stage.settings.max_buffered_bytes // sources // max(1, record_bytes)
        return max(1, min(bound, max(LEAST_AHEAD, AHEAD_OF_ALL // sources)))

    def wait_for(self, run: Run) -> None:
        """Keep the consumer until this run has ended, too: what it has been given may still become done."""
        with self._lock:
            if run in self._runs:
                return
            self._runs.add(run)
        run.when_ended(lambda: self._run_ended(run))

    def _run_ended(self, run: Run) -> None:
        with self._lock:
            self._runs.discard(run)
            over = not self._runs
        if over:
            self.tell(RunEnded())

    def sub_ended(self, sub: SubSource) -> None:
        self.post(self._on_sub_ended, sub)

    # ── what the consumer says ────────────────────────────────────────────────────────────────────────────────────

    def _new_feed(self, key: TopicPartition, epoch: int) -> PartitionFeed:
        """On the consumer's thread, inside a rebalance."""
        feed = self._fresh[key, epoch] = PartitionFeed(key, epoch)
        return feed

    def on_assigned(self, keys: list[tuple[TopicPartition, int]]) -> None:
        """Partitions are ours."""
        for key, epoch in keys:
            self._assigned[key] = self._fresh.pop((key, epoch))
        look_up = self._stage.offsets_on_assign
        if look_up is None:
            self._begin(keys)
            return
        try:
            found = look_up({key for key, _ in keys})
        except BaseException as error:
            blame(error, self.name, function=look_up)
            raise
        if can_be_awaited(found):
            when_done(self, found, lambda result, error: self._looked_up(keys, result, error))
        else:
            self._looked_up(keys, found, None)

    def _looked_up(self, keys: list[tuple[TopicPartition, int]], found: Any, error: BaseException | None) -> None:
        if error is not None:
            blame(error, self.name, function=self._stage.offsets_on_assign)
            self.on_failed(error)
            return
        try:
            offsets = checked_offsets(found)
        except ConsumerFailed as wrong:
            self.on_failed(wrong)
            return
        # looked up slowly -> revoked meanwhile, perhaps assigned again: only the answer for the assignment that is now counts
        now = [(key, epoch) for key, epoch in keys if key in self._assigned and self._assigned[key].epoch == epoch]
        for key, epoch in now:
            self.tell(StartAt(key, epoch, offsets.get(key)))
        self._begin(now)

    def _begin(self, keys: Iterable[tuple[TopicPartition, int]]) -> None:
        for key, _ in keys:
            self._closing.pop(key, None)
            feed = self._assigned[key]
            known = self._subs.get(key)
            if known is None:
                self._hand_out(feed)
            else:
                known.switch(feed)
        self._emit()

    def on_revoking(self, keys: list[TopicPartition]) -> None:
        """Partitions are about to be taken away; their sub-sources go on with what is in flight."""

    def on_revoked(self, keys: list[tuple[TopicPartition, int]]) -> None:
        """Partitions are ours no more. Their sub-sources end, unless the partitions come back at once."""
        gone = [key for key, epoch in keys if key in self._assigned and self._assigned[key].epoch == epoch]
        if not gone:
            return
        self._revocations += 1
        for key in gone:
            epoch = self._assigned.pop(key).epoch
            self._closing[key] = self._revocations
            reader = self._subs[key].reader if key in self._subs else None
            if reader is not None:
                reader.revoked(epoch)
        self.schedule_once(self._revocations, self._stage.settings.wait_close_partition_ms)

    def on_timer(self, key: object) -> None:
        gone = {partition for partition, number in self._closing.items() if number == key}
        for partition in gone:
            del self._closing[partition]
            sub = self._subs.pop(partition, None)
            if sub is not None:
                sub.close()
        on_revoke = self._stage.on_revoke
        if gone and on_revoke is not None:
            try:
                on_revoke(gone)
            except BaseException as error:
                blame(error, self.name, gone, on_revoke)
                raise
        self._end_when_read()

    def on_idle(self, silent: list[tuple[TopicPartition, int, float]]) -> None:
        """Partitions have nothing behind what was delivered, though there is demand."""
        for key, _, silent_ms in silent:
            reader = self._subs[key].reader if key in self._subs else None
            if reader is not None:
                reader.idle(silent_ms)

    def on_end(self, ends: object) -> None:
        """A bounded read has delivered everything; the sub-sources may still be at it."""
        self._all_read = True
        self._end_when_read()

    def on_failed(self, error: BaseException) -> None:
        """The consumer has failed, and so do all sub-sources."""
        self.fail_stage(error)

    # ── sub-sources ───────────────────────────────────────────────────────────────────────────────────────────────

    def _hand_out(self, feed: PartitionFeed) -> None:
        sub = SubSource(self, feed, self._stage.commits, self._stage.convert)
        self._subs[feed.key] = sub
        self._waiting.append(sub)

    def _emit(self) -> None:
        out = self.out
        while self._waiting and out.can_push:
            sub = self._waiting.popleft()
            if self._subs.get(sub.key) is sub:
                out.push([(sub.key, Source(StageModule(SubSourceStage(sub))))])

    def _on_sub_ended(self, sub: SubSource) -> None:
        if self._subs.get(sub.key) is not sub:
            return
        if sub.failure is not None:
            _log.warning(
                "what reads %s has failed (%s: %s); nothing more is read of it, and nothing committed, until it is assigned "
                "again or the stream is restarted",
                sub.key,
                type(sub.failure).__name__,
                sub.failure,
            )
        else:
            del self._subs[sub.key]
            if not sub.finished and not self._ending and self._assigned.get(sub.key) is sub.feed:
                self._hand_out(sub.feed)
                self._emit()
        self._end_when_read()

    def _end_when_read(self) -> None:
        if self._all_read and not self._subs and not self._ending:
            self._end()

    # ── the end ───────────────────────────────────────────────────────────────────────────────────────────────────

    def on_pull(self, out: Connection) -> None:
        self._emit()

    def _stopped(self, _: None) -> None:
        self._end()

    def _end(self) -> None:
        if not self._ending:
            self._ending = True
            self.complete_stage()

    def on_cancel(self, out: Connection, cause: BaseException) -> None:
        if not isinstance(cause, NonFailureCancellation):
            self._failure = cause
        super().on_cancel(out, cause)

    def fail_stage(self, error: BaseException) -> None:
        self._failure = error
        super().fail_stage(error)

    def on_stop(self) -> None:
        self._ending = True
        for sub in self._subs.values():
            sub.close(self._failure)
        self.tell(StageEnded(self, self._failure is not None))

    def snapshot_state(self) -> str:
        return f"{len(self._assigned)} partitions assigned, {len(self._waiting)} sources to hand out"
