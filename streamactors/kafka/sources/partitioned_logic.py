"""The logic of a partitioned source: hands out (partition, source of its records) for each partition that is assigned.

    assigned ──(offsets looked up)──► its sub-source waits to be emitted ──► emitted, runs ──► ended
                                                 ▲    revoked, and not assigned again within wait_close_partition_ms: completed
                                                 └─── cancelled by downstream: handed out again, from the first record not taken

Owner: the stage's island. One consumer actor serves all partitions, each through a feed of its own."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable
from typing import Any

from streamactors.dsl.source import Source
from streamactors.engine.awaiting import can_be_awaited, when_done
from streamactors.engine.blueprint.modules import StageModule
from streamactors.engine.island.connection import Connection
from streamactors.engine.island.run import Run
from streamactors.engine.user_code import blame
from streamactors.kafka.errors import ConsumerFailed
from streamactors.kafka.reading.feed import PartitionFeed
from streamactors.kafka.reading.messages import StartAt
from streamactors.kafka.sources.consumer_link import ConsumerLink, ConsumerLogic
from streamactors.kafka.sources.manual_offsets import checked_offsets
from streamactors.kafka.sources.read_plan import ReadPlan
from streamactors.kafka.sources.sub_source import SubSource, SubSourceStage
from streamactors.kafka.subscriptions import TopicPartition

_log = logging.getLogger("streamactors.kafka")

AHEAD_OF_ALL = 8_192
LEAST_AHEAD = 32
"""Records that are buffered for all sub-sources together, and the least for each; fewer where they would be more than max_buffered_bytes."""


class PartitionedSourceLogic(ConsumerLogic):
    """Emits one sub-source for each assigned partition."""

    run: Run
    source: Any = None

    def __init__(self, plan: ReadPlan) -> None:
        super().__init__(ConsumerLink(plan.commits))
        self._plan = plan
        self.kafka_settings = plan.settings
        self._fresh: dict[tuple[TopicPartition, int], PartitionFeed] = {}  # made on the consumer's thread
        self._assigned: dict[TopicPartition, PartitionFeed] = {}
        self._subs: dict[TopicPartition, SubSource] = {}  # handed out, or waiting to be
        self._waiting: deque[SubSource] = deque()
        self._closing: dict[TopicPartition, int] = {}  # revoked, by the timer that will end it
        self._revocations = 0
        self._all_read = False

    def on_start(self) -> None:
        plan = self._plan
        self.run = run = self.interpreter.island.run
        self.source = run.source_id(self)
        plan.services.listen(run, self.source, self.consumer, in_transactions=False)
        stop = self.async_callback(self.end)
        self.consumer.start(
            run,
            plan.settings,
            plan.subscription,
            self,
            lambda: stop.invoke(None),
            commits=plan.commits,
            until_end=plan.until_end,
            feed_of=self._new_feed,
            apart=True,
            withhold=plan.offsets_on_assign is not None,
        )

    # ── what sub-sources ask; any thread ──────────────────────────────────────────────────────────────────────────

    def share(self, record_bytes: int | None) -> int:
        if record_bytes is None:
            return 1  # the first record tells the size
        sources = max(1, len(self._assigned))
        bound = self._plan.settings.max_buffered_bytes // sources // max(1, record_bytes)
        return max(1, min(bound, max(LEAST_AHEAD, AHEAD_OF_ALL // sources)))

    def sub_source_ended(self, sub: SubSource) -> None:
        self.post(self._on_sub_source_ended, sub)

    # ── what the consumer says ────────────────────────────────────────────────────────────────────────────────────

    def _new_feed(self, key: TopicPartition, epoch: int) -> PartitionFeed:
        """On the consumer's thread, inside a rebalance."""
        feed = self._fresh[key, epoch] = PartitionFeed(key, epoch)
        return feed

    def on_assigned(self, keys: list[tuple[TopicPartition, int]]) -> None:
        """Partitions were assigned."""
        for key, epoch in keys:
            self._assigned[key] = self._fresh.pop((key, epoch))
        look_up = self._plan.offsets_on_assign
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
            blame(error, self.name, function=self._plan.offsets_on_assign)
            self.on_failed(error)
            return
        try:
            offsets = checked_offsets(found)
        except ConsumerFailed as wrong:
            self.on_failed(wrong)
            return
        # looked up slowly -> revoked meanwhile, perhaps assigned again: only the answer for the present assignment counts
        now = [(key, epoch) for key, epoch in keys if key in self._assigned and self._assigned[key].epoch == epoch]
        for key, epoch in now:
            self.consumer.tell(StartAt(key, epoch, offsets.get(key)))
        self._begin(now)

    def _begin(self, keys: Iterable[tuple[TopicPartition, int]]) -> None:
        for key, _ in keys:
            self._closing.pop(key, None)
            feed = self._assigned[key]
            known = self._subs.get(key)
            if known is None or known.failure is not None:  # a stream that has failed reads nothing any more
                self._hand_out(feed)
            else:
                known.switch(feed)
        self._emit()

    def on_positions(self, places: object) -> None:
        """No sink owns the positions of a partitioned source."""

    def on_revoking(self, keys: list[TopicPartition]) -> None:
        """Partitions are about to be revoked; their sub-sources finish what is in flight."""

    def on_revoked(self, keys: list[tuple[TopicPartition, int]]) -> None:
        """Partitions were revoked. Their sub-sources end, unless the partitions are assigned again within `wait_close_partition_ms`."""
        gone = [key for key, epoch in keys if key in self._assigned and self._assigned[key].epoch == epoch]
        if not gone:
            return
        self._revocations += 1
        for key in gone:
            epoch = self._assigned.pop(key).epoch
            self._closing[key] = self._revocations
            if key in self._subs:
                self._subs[key].revoked(epoch)
        self.schedule_once(self._revocations, self._plan.settings.wait_close_partition_ms)

    def on_timer(self, key: object) -> None:
        gone = {partition for partition, number in self._closing.items() if number == key}
        for partition in gone:
            del self._closing[partition]
            sub = self._subs.pop(partition, None)
            if sub is not None:
                sub.close()
        on_revoke = self._plan.on_revoke
        if gone and on_revoke is not None:
            try:
                on_revoke(gone)
            except BaseException as error:
                blame(error, self.name, gone, on_revoke)
                raise
        self._end_when_read()

    def on_idle(self, silent: list[tuple[TopicPartition, int, float]]) -> None:
        """These partitions are silent: every record has been delivered, and there is demand."""
        for key, _, silent_ms in silent:
            if key in self._subs:
                self._subs[key].idle(silent_ms)

    def on_end(self, ends: object) -> None:
        """A bounded read has delivered everything; sub-sources may still be working on it."""
        self._all_read = True
        self._end_when_read()

    # ── sub-sources ───────────────────────────────────────────────────────────────────────────────────────────────

    def _hand_out(self, feed: PartitionFeed) -> None:
        sub = SubSource(self, feed, self._plan)
        self._subs[feed.key] = sub
        self._waiting.append(sub)

    def _emit(self) -> None:
        out = self.out
        while self._waiting and out.can_push:
            sub = self._waiting.popleft()
            if self._subs.get(sub.key) is sub:
                out.push([(sub.key, Source(StageModule(SubSourceStage(sub))))])

    def _on_sub_source_ended(self, sub: SubSource) -> None:
        if self._subs.get(sub.key) is not sub:
            return
        if sub.failure is not None and self._plan.until_end:
            self.fail_stage(sub.failure)  # nobody reads the partition to its end, for which the others would wait
            return
        if sub.failure is not None:
            _log.warning(
                "the stream that reads %s has failed (%s: %s); the partition is neither read nor committed until it is assigned "
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
            self.end()

    # ── the end ───────────────────────────────────────────────────────────────────────────────────────────────────

    def on_pull(self, out: Connection) -> None:
        self._emit()

    def on_stop(self) -> None:
        self._ending = True
        for sub in self._subs.values():
            sub.close(self._failure)
        self.consumer.tell(self.stage_ended(self, at_end=self._all_read))

    def snapshot_state(self) -> str:
        return f"{len(self._assigned)} partitions assigned, {len(self._waiting)} sources to hand out"
