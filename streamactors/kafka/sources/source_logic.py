"""The logic of a Kafka source: starts the consumer, pushes what it delivers through a lane, and marks what the group does to partitions.

If a sink of the run owns the positions (Spark's checkpoint), the consumer starts at the owner's positions. The owner may first name a range
that is delivered again exactly. Owner: the stage's island."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence

from streamactors.engine.fusing.loop import FusedLoop
from streamactors.engine.island.connection import Connection
from streamactors.engine.marks.marks import Assigned, Key, Position, Revoked
from streamactors.engine.marks.ownership import owner_of
from streamactors.kafka.reading.assignment.start_positions import Offsets, StartPositions, reading_settings
from streamactors.kafka.reading.delays import Delays
from streamactors.kafka.reading.delivery import Delivery
from streamactors.kafka.reading.feed import Feed
from streamactors.kafka.reading.group_end import ReadInRun
from streamactors.kafka.reading.messages import Commits, HoldBack
from streamactors.kafka.settings import ConsumerSettings
from streamactors.kafka.sources.consumer_link import ConsumerLink, ConsumerLogic
from streamactors.kafka.sources.lane import AHEAD, Lane
from streamactors.kafka.sources.read_plan import ReadPlan
from streamactors.kafka.sources.replayed_range import ReplayedRange
from streamactors.kafka.subscriptions import AutoSubscription, ManualSubscription, Subscription, TopicPartition


class ConsumerSourceLogic(ConsumerLogic):
    """Starts a consumer, pushes its records downstream and marks what the group does."""

    def __init__(self, plan: ReadPlan, loop: FusedLoop | None, max_chunk: int | None) -> None:
        super().__init__(ConsumerLink(plan.commits) if plan.link is None else plan.link())
        self._plan = plan
        self.kafka_settings = plan.settings
        self._feed = Feed(lambda delivery: self.post(self.on_records, delivery))
        self._lane = Lane(self, self.consumer, self._feed, plan.convert, loop, max_chunk, plan.whole)
        limit = plan.settings.max_in_flight if plan.commits is Commits.OFFSETS else None
        self._ahead = AHEAD if limit is None else min(AHEAD, limit)
        self._ends: list[tuple[TopicPartition, int, int]] | None = None  # a bounded read is over
        self._has_owner = False  # a sink of the run says where to begin
        self._replayed: ReplayedRange | None = None  # the range that is being delivered again
        self._at_range_end: frozenset[TopicPartition] = frozenset()
        self._revoking: Callable[[Sequence[Key]], None] | None = None  # changelogs of later windows

    # ── the start ─────────────────────────────────────────────────────────────────────────────────────────────────

    def bind(self) -> None:
        """Called when the run is built: offers changelogs to the windows downstream of this source."""
        run = self.interpreter.island.run
        self._lane.source = source = run.source_id(self)
        self.control.run = weakref.ref(run)
        self.control.open_store = self._plan.services.open_store
        if self._plan.keeps_changelog and source is not None:
            self._revoking = self._plan.services.offer_changelogs(run, source, self, self._plan)

    def on_start(self) -> None:
        plan = self._plan
        if not self._lane.begin():
            return
        owner = owner_of(self.interpreter.island.run, self._lane.source)
        if owner is None:
            self._start(plan.settings, plan.subscription)
            return
        self._has_owner = True
        begin = self.async_callback(self._begin).invoke
        owner.claim(self._lane.source, StartPositions(plan.settings, plan.subscription, plan.until_end, begin))

    def _begin(self, where: tuple[Offsets, Offsets | None, bool]) -> None:
        """The owner of the positions says where to begin, and which range to deliver first."""
        plan, (starts, until, skip_lost) = self._plan, where
        if self.consumer.started:
            return
        if until is not None:
            replayed = ReplayedRange(starts, until)
            self._replayed = None if replayed.complete else replayed
        settings = reading_settings(plan.settings, skip_lost)
        self._start(settings, ManualSubscription(tuple(starts), offsets=starts), wanted=plan.subscription)
        self.on_pull(self.out)  # downstream has asked already

    def _start(self, settings: ConsumerSettings, of: Subscription, wanted: Subscription | None = None) -> None:
        plan, run = self._plan, self.interpreter.island.run
        in_transaction = plan.services.listen(run, self._lane.source, self.consumer)
        stop = self.async_callback(self.end)
        self.consumer.start(
            run,
            settings,
            of,
            self,
            lambda: stop.invoke(None),
            commits=Commits.TRANSACTION if in_transaction else plan.commits,
            until_end=plan.until_end,
            feed_of=lambda key, epoch: self._feed,
            objects_each=self._lane.objects_each,
            wanted=wanted,
            delays=None if plan.delayed is None else Delays(plan.delayed, run.system.clock.wall_ms),
            in_run=None if self.inside else run.shared(ReadInRun, ReadInRun),
        )

    # ── from windows that read several topics in the order of their time; any thread ──────────────────────────────

    def give_back(self, partition: TopicPartition, place: Position) -> None:
        """Count the records from this position on as not delivered: they were dropped, and are read again."""
        if self.consumer.tracker is not None:
            self.consumer.tracker.taken_back(partition, *place)

    def hold_back(self, partitions: frozenset[TopicPartition]) -> None:
        """Pause delivery from these partitions and resume all others."""
        self.consumer.tell(HoldBack(partitions))

    def keep_until_run_ends(self) -> None:
        """Keep the consumer until the run has ended. A source inside another stage, such as a RestartSource, does not: it ends before the run."""
        if self.consumer.tracker is not None and not self.inside:
            self.consumer.tracker.until_run_ends = True

    # ── from the consumer ─────────────────────────────────────────────────────────────────────────────────────────

    def on_records(self, delivery: Delivery) -> None:
        """Records have come, or the end of a partition."""
        if not delivery.records and self._has_owner:
            return  # the owner's ranges are those of records
        if self._replayed is None:
            self._feed.put(delivery)
        else:
            self._feed.asked -= len(delivery.records)  # records that wait at the end of the range use up no demand
            self._admit(delivery.key, self._replayed.take(delivery))
        self.on_pull(self.out)  # no further pull comes for what is still wanted

    def on_assigned(self, keys: list[tuple[TopicPartition, int]]) -> None:
        """Partitions were assigned."""
        for key, epoch in keys:
            self._lane.mark(Assigned, key, epoch)

    def on_positions(self, places: list[tuple[TopicPartition, int, int]]) -> None:
        """Partitions begin here, as the owner of their positions has said: everything before is done."""
        replayed = self._replayed
        for key, epoch, place in places:
            self._lane.mark_position(key, epoch, place if replayed is None else replayed.clipped(key, place))

    def on_revoking(self, keys: list[TopicPartition]) -> None:
        """Partitions are about to be revoked; the consumer waits until what is in flight is done."""
        if self._revoking is not None:
            self._revoking([(self._lane.source, key) for key in keys])

    def on_revoked(self, keys: list[tuple[TopicPartition, int]]) -> None:
        """Partitions were revoked; their records that have not been pushed are dropped."""
        self._ends = None  # the consumer says the end again when it has partitions
        self._feed.drop(dict(keys))
        for key, epoch in keys:
            self._lane.mark(Revoked, key, epoch)
        self.on_pull(self.out)

    def on_idle(self, silent: list[tuple[TopicPartition, int, float]]) -> None:
        """Partitions have no record after what was delivered, though there is demand."""
        self._reached_end([(key, epoch) for key, epoch, _ in silent])
        for key, _, silent_ms in silent:
            if self._replayed is None or not self._replayed.reached(key):
                self._lane.mark_idle(key, silent_ms)

    def on_end(self, ends: list[tuple[TopicPartition, int, int]]) -> None:
        """A bounded read has delivered everything; `ends` are (partition, epoch, position after its end)."""
        self._ends = ends
        self._reached_end([(key, epoch) for key, epoch, _ in ends])
        self.on_pull(self.out)

    # ── a range that is delivered again ───────────────────────────────────────────────────────────────────────────

    def _reached_end(self, keys: list[tuple[TopicPartition, int]]) -> None:
        for key, epoch in keys:
            if self._replayed is not None and not self._feed.holds(key):
                self._admit(key, self._replayed.at_end(self._feed, key, epoch))
        self._lane.push()

    def _admit(self, key: TopicPartition, deliveries: list[Delivery]) -> None:
        """Let deliveries continue; records beyond a partition's end must not pile up while it waits for others."""
        replayed = self._replayed
        assert replayed is not None
        for delivery in deliveries:
            self._feed.asked += len(delivery.records)
            self._feed.put(delivery)
        if replayed.complete:
            self._replayed = None
            self.hold_back(frozenset())
        elif replayed.reached(key) and key not in self._at_range_end:
            self._at_range_end |= {key}
            self.hold_back(self._at_range_end)

    # ── from the engine ───────────────────────────────────────────────────────────────────────────────────────────

    def on_pull(self, out: Connection) -> None:
        self._lane.push()
        if self._ends is None:
            self._lane.ask(min(self._lane.asked, self._ahead))
        else:
            self._end_when_drained(self._ends)

    def _end_when_drained(self, ends: list[tuple[TopicPartition, int, int]]) -> None:
        tracker = self.consumer.tracker
        if not self._lane.drained or self._ending:
            return
        if tracker is not None and not all(tracker.deliverable(key, epoch) for key, epoch, _ in ends):
            return  # revoked meanwhile, and what was waiting is dropped: `on_revoked` is on its way
        for end in ends:
            self._lane.mark_end(*end)
        self.end()

    def on_stop(self) -> None:
        self._feed.clear()
        if self._has_owner and not self.consumer.started:
            self.control.is_shutdown.try_complete(None)
        self.consumer.tell(self.stage_ended(self._feed, at_end=self._ends is not None))

    def snapshot_state(self) -> str:
        topics = self._plan.subscription
        named = ", ".join(topics.names) if isinstance(topics, AutoSubscription) else "assigned partitions"
        return f"{named}; asked for {self._feed.asked}"
