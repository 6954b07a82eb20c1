"""The logic of a Kafka source: asks the consumer actor for what downstream asks, pushes what comes, with a mark behind each chunk.

Owner: the stage's island."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from streamactors.actors.futures import StreamFuture
from streamactors.engine.causes import NonFailureCancellation
from streamactors.engine.connection import MAX_ASKED, Connection
from streamactors.engine.logic import SourceLogic
from streamactors.engine.marks import Assigned, EndOfInput, Idle, Position, Revoked
from streamactors.engine.ownership import owner_of
from streamactors.kafka.changelog import KafkaChangelogs
from streamactors.kafka.commit_routes import routes_of
from streamactors.kafka.committable import Origin
from streamactors.kafka.consumer_actor import ConsumerActor
from streamactors.kafka.consumer_messages import (
    CommitNow,
    Commits,
    HoldBack,
    PausePartitions,
    RequestRecords,
    ResumePartitions,
    RunEnded,
    StageEnded,
    Start,
)
from streamactors.kafka.consumer_state import Delivery
from streamactors.kafka.control import Control
from streamactors.kafka.offsets import OffsetTracker
from streamactors.kafka.owned_consumer import OwnedConsumerActor
from streamactors.kafka.owned_partitions import OwnedPartitions
from streamactors.kafka.owned_source import OwnedStart
from streamactors.kafka.received_runs import columns, offset_of, wrapped
from streamactors.kafka.settings import ConsumerSettings
from streamactors.kafka.source_steps import SourceSteps
from streamactors.kafka.subscriptions import AutoSubscription, Subscription, TopicPartition
from streamactors.kafka.transaction import transaction_of
from streamactors.windows.changelogs import changelogs_of

if TYPE_CHECKING:
    from streamactors.kafka.source_stage import ConsumerSourceStage

AHEAD = 2_048
"""Records asked of the actor at most: enough that the next chunk is on its way while this one is worked on."""


class ConsumerSourceLogic(SourceLogic):
    """See the module."""

    def __init__(self, stage: ConsumerSourceStage, max_chunk: int | None) -> None:
        self._stage = stage
        self._steps = None if stage.loop is None else SourceSteps(stage.loop, max_chunk)
        self._max_chunk = max_chunk or MAX_ASKED
        self.control = Control()
        self._tracker = OffsetTracker() if stage.commits is not Commits.NOBODY else None
        self._origins: dict[TopicPartition, Origin] = {}
        self._ends: list[tuple[TopicPartition, int, int]] | None = None  # a bounded read is over
        self._committing = False  # at most once: what comes next waits for its commit
        self._asked = 0  # of the actor, and not delivered yet
        self._waiting: deque[Delivery] = deque()
        self._source: int | None = None
        self._tell: Callable[[Any], None] = lambda _: None
        self._ending = False
        limit = stage.settings.max_in_flight if stage.commits is Commits.OFFSETS else None
        self._ahead = AHEAD if limit is None else min(AHEAD, limit)
        self._failed = False
        self._owned: OwnedStart | None = None  # somebody else says where to begin
        self._changelogs: KafkaChangelogs | None = None

    @property
    def objects_each(self) -> int:
        """Objects that live with a record on its way to the next stage: librdkafka's message, and ours where no step is inside."""
        return 1 if self._steps is not None and self._stage.convert is None else 2

    @property
    def takes_messages(self) -> bool:
        """True: records come as librdkafka's messages."""
        return self._owned is None

    def post(self, handler: Callable[[Any], None], argument: Any) -> None:
        """Have a handler run on this stage's island; any thread."""
        self.interpreter.post(self, handler, argument)

    def bind(self) -> None:
        """Called when the run is built: windows behind this source find here who keeps their changelogs."""
        run = self.interpreter.island.run
        self._source = run.source_id(self)
        if self._stage.keeps_changelog and self._source is not None:
            self._changelogs = KafkaChangelogs(
                self._stage.settings,
                run,
                self._stage.application,
                subscription=self._stage.subscription,
                bounded=self._stage.until_end,
                counts_done=self._stage.commits is Commits.MARKS,
                commits_done=self._stage.reads_marks,
                source=self,
            )
            changelogs_of(run).offer(self._source, self._changelogs)

    def give_back(self, partition: TopicPartition, place: Position) -> None:
        """What was delivered from this position on was dropped, to be read again; any thread."""
        if self._tracker is not None:
            self._tracker.taken_back(partition, *place)

    def hold_back(self, partitions: frozenset[TopicPartition]) -> None:
        """Deliver nothing of these partitions for now, and again of all others; any thread."""
        self._tell(HoldBack(partitions))

    def on_start(self) -> None:
        stage = self._stage
        if self._steps is not None:
            error = self._steps.begin(self.interpreter)
            if error is not None:
                self.fail_stage(error)
                return
        owner = owner_of(self.interpreter.island.run, self._source)
        if owner is None:
            self._start(ConsumerActor, stage.settings, stage.subscription)
            return
        start = partial(self._start, partial(OwnedConsumerActor, wanted=stage.subscription))
        self._owned = owned = OwnedStart(stage.settings, start, self._tell_pause)
        begin = self.async_callback(owned.begin).invoke
        owner.claim(self._source, OwnedPartitions(stage.settings, stage.subscription, stage.until_end, begin))

    def _tell_pause(self, keys: tuple[TopicPartition, ...], pause: bool) -> None:
        self._tell(PausePartitions(keys) if pause else ResumePartitions(keys))

    def _start(self, make_actor: Callable[..., ConsumerActor], settings: ConsumerSettings, of: Subscription) -> None:
        stage = self._stage
        run = self.interpreter.island.run
        commits = stage.commits
        if commits is Commits.MARKS and transaction_of(run).commits_any(frozenset((self._source,))):
            commits = Commits.TRANSACTION  # of the sinks it reaches: positions and results together
        tracker = self._tracker
        if tracker is not None and self._source is not None:
            if stage.commits is Commits.OFFSETS:
                routes_of(run).source(self._source, tracker, tracker.done_everywhere, self._commit)
            else:
                run.progress.listen(self._source, tracker.done_everywhere)
        system = run.system
        actor = make_actor(
            settings,
            of,
            self,
            tracker,
            self.control,
            commits=commits,
            until_end=stage.until_end,
            call_later=system.timers.call_later,
            now_ms=system.clock.now_ms,
        )
        if commits is Commits.TRANSACTION:
            assert tracker is not None
            transaction_of(run).source(self._source, tracker, actor.group_metadata, actor.renew_membership)
        ref = system.spawn(actor, f"consumer {stage.settings.group_id or ''}".strip())
        self._tell = ref.tell
        stop = self.async_callback(self._stopped)
        self.control.attach(ref.tell, lambda: stop.invoke(None))
        run.when_ended(lambda: ref.tell(RunEnded()))
        ref.tell(Start())
        if self._owned is not None:
            self._asked = 0  # begun later than asked: nobody has heard of it
            self._ask()

    # ── from the actor ────────────────────────────────────────────────────────────────────────────────────────────

    def on_records(self, delivery: Delivery) -> None:
        """Records have come."""
        self._asked -= len(delivery.records)
        if self._owned is None:
            self._waiting.append(delivery)
        else:
            self._waiting.extend(self._owned.admit(delivery))
        self._push()
        self._ask()  # for what is still wanted: nobody pulls again for it

    def on_assigned(self, keys: list[tuple[TopicPartition, int]]) -> None:
        """Partitions are ours."""
        if self._source is not None:
            for key, epoch in keys:
                self.out.mark(Assigned((self._source, key), epoch))

    def on_positions(self, places: list[tuple[TopicPartition, int, int]]) -> None:
        """Partitions begin here, as the owner of their positions has said: everything before is done."""
        assert self._owned is not None
        for key, epoch, place in self._owned.positions(places):
            self.out.mark({(self._source, key): (epoch, place)})

    def on_revoking(self, keys: list[TopicPartition]) -> None:
        """Partitions are about to be taken away; what is in flight is waited for."""
        if self._changelogs is not None:
            self._changelogs.revoking([(self._source, key) for key in keys])

    def on_revoked(self, keys: list[tuple[TopicPartition, int]]) -> None:
        """Partitions are ours no more; what has not been pushed of them is dropped."""
        gone = dict(keys)
        self._ends = None  # if it was told: the actor looks again when it has partitions
        self._waiting = deque(d for d in self._waiting if gone.get(d.key) != d.epoch)
        if self._source is not None:
            for key, epoch in keys:
                self.out.mark(Revoked((self._source, key), epoch))
        self.on_pull(self.out)

    def on_idle(self, silent: list[tuple[TopicPartition, int, float]]) -> None:
        """Partitions have nothing behind what was delivered, though there is demand."""
        if self._owned is not None:
            self._reached_end([(key, epoch) for key, epoch, _ in silent])
        if self._source is not None and self.out.asked:
            late = {delivery.key for delivery in self._waiting}
            wall_ms = self.interpreter.island.run.system.clock.wall_ms()
            for key, _, silent_ms in silent:
                if key not in late:
                    self.out.mark(Idle((self._source, key), int(silent_ms), wall_ms))

    def on_end(self, ends: list[tuple[TopicPartition, int, int]]) -> None:
        """A bounded read has delivered everything; `ends` are (partition, epoch, position behind its end)."""
        self._ends = ends
        if self._owned is not None:
            self._reached_end([(key, epoch) for key, epoch, _ in ends])
        self._push()
        self._end_when_drained()

    def _reached_end(self, keys: list[tuple[TopicPartition, int]]) -> None:
        assert self._owned is not None
        late = {delivery.key for delivery in self._waiting}
        for key, epoch in keys:
            if key not in late:
                self._waiting.extend(self._owned.at_end(self, key, epoch))
        self._push()

    def _end_when_drained(self) -> None:
        if (
            self._ends is None
            or self._waiting
            or self._committing
            or self._ending
            or (self._steps and self._steps.first)
        ):
            return
        tracker = self._tracker
        if tracker is not None and not all(tracker.deliverable(key, epoch) for key, epoch, _ in self._ends):
            return  # taken away meanwhile, and what was waiting is dropped: `on_revoked` is on its way
        if self._source is not None:
            for key, epoch, position in self._ends:
                if self._tracker is None or self._tracker.delivered(key, epoch, position):
                    self.out.mark({(self._source, key): (epoch, position)})
                    self.out.mark(EndOfInput((self._source, key)))
        self._end()

    def on_cancel(self, out: Connection, cause: BaseException) -> None:
        self._failed = not isinstance(cause, NonFailureCancellation)
        super().on_cancel(out, cause)

    def on_failed(self, error: BaseException) -> None:
        """The consumer has failed."""
        self.fail_stage(error)

    def fail_stage(self, error: BaseException) -> None:
        self._failed = True  # of a step inside this stage no cancellation tells
        super().fail_stage(error)

    # ── from the engine ───────────────────────────────────────────────────────────────────────────────────────────

    def on_pull(self, out: Connection) -> None:
        self._push()
        self._end_when_drained()
        self._ask()

    def _ask(self) -> None:
        wanted = (
            min(self.out.asked, self._ahead if self._steps is None else min(self._ahead, self._steps.pace.window))
            - self._asked
            - sum(len(delivery.records) for delivery in self._waiting)  # the steps take it slice by slice
        )
        if self._ends is None and wanted > 0 and (wanted * 2 >= self._ahead or self._asked * 2 <= wanted):
            self._asked += wanted
            self._tell(RequestRecords(self, wanted))

    def _push(self) -> None:
        out, steps = self.out, self._steps
        if steps is not None and steps.first and not steps.push_first(out):
            return
        waiting = self._waiting
        while waiting and (out.asked or not waiting[0].records) and not out.out_closed and not self._committing:
            delivery = waiting.popleft()
            records, end = delivery.records, delivery.end
            if not records:
                out.mark({(self._source, delivery.key): (delivery.epoch, end)})
                continue
            room = min(out.asked, self._max_chunk) if steps is None else steps.room(out.asked)
            if len(records) > room:
                waiting.appendleft(delivery._replace(records=records[room:]))
                records, end = records[:room], offset_of(records[room])
            tracker = self._tracker
            if tracker is not None:
                if not tracker.delivered(delivery.key, delivery.epoch, end, offset_of(records[0])):
                    continue  # poll returns -> revoked -> this chunk was on its way: its next owner reads it
                if self._stage.commits is Commits.BEFORE:
                    tracker.done(delivery.key, delivery.epoch, end)
                    self._push_when_committed(wrapped(records))
                    return
            if steps is not None:
                end = self._run_steps(steps, delivery, records, end)
            elif self._stage.convert is None:
                out.push(wrapped(records))
            else:
                out.push(list(self._stage.convert(*columns(records), self._origin(delivery))))
            if self._source is not None:
                out.mark({(self._source, delivery.key): (delivery.epoch, end)})
            if steps is not None:
                if waiting and out.asked:
                    out.again()  # after the others had their turn
                return

    def _run_steps(self, steps: SourceSteps, delivery: Delivery, records: list[Any], end: int) -> int:
        """Run the steps over records and push what they make; return the position behind the last that was taken."""
        counter = iter(records)
        convert = self._stage.convert
        if convert is None:
            results, left, error = steps.run_records(records, counter)
        else:
            made = convert(*columns(records, counter), self._origin(delivery))
            results, left, error = steps.run(made, counter, len(records))
        if left and error is None:
            rest = records[len(records) - left :]
            self._waiting.appendleft(delivery._replace(records=rest, end=end))
            end = offset_of(rest[0])
            if self._tracker is not None:
                self._tracker.taken_back(delivery.key, delivery.epoch, end)
        if results:
            self.out.push(results)
        if error is not None:
            self.fail_stage(error)
        return end

    def _origin(self, delivery: Delivery) -> Origin:
        origin = self._origins.get(delivery.key)
        if origin is None or origin.epoch != delivery.epoch:
            assert self._tracker is not None
            origin = self._origins[delivery.key] = Origin(delivery.key, delivery.epoch, self._tracker, self._commit)
        return origin

    def _commit(self, reply: StreamFuture[None]) -> None:
        """Have what is done committed; any thread."""
        self._tell(CommitNow(reply))

    def _push_when_committed(self, records: list[Any]) -> None:
        self._committing = True

        def committed(error: BaseException | None) -> None:
            self._committing = False
            if error is not None:
                self.fail_stage(error)
            elif self.out.can_push:
                self.out.push(records)
                self.on_pull(self.out)
                self._end_when_drained()

        tell = self.async_callback(committed)
        reply: StreamFuture[None] = StreamFuture("commit before delivery")
        reply.add_done_callback(lambda future: tell.invoke(future.exception()))
        self._commit(reply)

    def _stopped(self, _: None) -> None:
        self._end()

    def _end(self) -> None:
        if not self._ending:
            self._ending = True
            self._waiting.clear()
            self.complete_stage()

    def on_stop(self) -> None:
        if self._owned is not None and not self._owned.begun:
            self.control.is_shutdown.try_complete(None)
        self._tell(StageEnded(self, self._failed))

    def snapshot_state(self) -> str:
        topics = self._stage.subscription
        named = ", ".join(topics.names) if isinstance(topics, AutoSubscription) else "assigned partitions"
        return f"{named}; asked for {self._asked}"
