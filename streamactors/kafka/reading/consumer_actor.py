"""The consumer actor: owns one consumer, polls it, and turns downstream demand into pause and resume. One thread serves it at a time.

consumer_actor   its life: start, failure, close; which message goes to which part
polling          when to poll and where; delivers to the feeds, tells the client to pause and resume
consumer_state   buffers and demand
pausing          decides which partitions are paused and resumed
commits          commits what is done
offset_tracker   what is delivered, done, committed
bounded_read     where a bounded read ends
ending           waits until the delivered records are done, then closes the client

assignment/rebalances   partitions assigned, revoked, lost
assignment/joining      partitions of sources that share the consumer

Over 400 lines: the actor has one handler for each message, and hands the work to these parts."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

from streamactors.actors.messages import Actor, ActorExitRequest
from streamactors.clock import SystemClock, VirtualClock
from streamactors.errors import StreamActorsError
from streamactors.kafka.client.consumer import StreamConsumer
from streamactors.kafka.errors import CommitTimeout, ConsumerFailed
from streamactors.kafka.reading.assignment.assignment_calls import AssignmentCalls
from streamactors.kafka.reading.assignment.empty_member import MembersWithout
from streamactors.kafka.reading.assignment.joining import FeedEnded, Join, Joining, Leave
from streamactors.kafka.reading.assignment.new_partitions import LookForPartitions, NewPartitions
from streamactors.kafka.reading.assignment.rebalance_log import Rebalance
from streamactors.kafka.reading.assignment.rebalances import FeedOf, Rebalances
from streamactors.kafka.reading.assignment.start_time import starts_by_time
from streamactors.kafka.reading.assignment.starting import Starting
from streamactors.kafka.reading.at_rest import ConsumerRest
from streamactors.kafka.reading.bounded_read import BoundedRead
from streamactors.kafka.reading.commits import CommitAnswer, CommitDue, CommitEnded, CommitsLate, ConsumerCommits
from streamactors.kafka.reading.consumer_context import ConsumerContext, ReadingControl, ReadingSource
from streamactors.kafka.reading.consumer_state import ConsumerState
from streamactors.kafka.reading.delays import Delays
from streamactors.kafka.reading.ending import Closed, Drained, Ending, Overdue
from streamactors.kafka.reading.group_end import ReadInRun
from streamactors.kafka.reading.messages import (
    CommitNow,
    Commits,
    HoldBack,
    PausePartitions,
    RequestRecords,
    ResumePartitions,
    RunEnded,
    StageEnded,
    StartAt,
    StartReading,
    StopAtEnd,
    TakeSnapshot,
)
from streamactors.kafka.reading.offset_tracker import OffsetTracker
from streamactors.kafka.reading.partition_bounds import PartitionBounds
from streamactors.kafka.reading.pausing import Limits
from streamactors.kafka.reading.polling import BUSY_POLL_MS, Poll, Polling, Tick, records_at_once
from streamactors.kafka.reading.snapshot import oldest_undated, snapshot, snapshot_without_consumer
from streamactors.kafka.settings import ConsumerSettings
from streamactors.kafka.subscriptions import AutoSubscription, ManualSubscription, Subscription, TopicPartition

_log = logging.getLogger("streamactors.kafka")


class ConsumerActor(Actor):  # type: ignore[misc]  # Thespian is untyped
    """Polls one consumer and delivers its records to the feeds of a source. `control.is_shutdown` gets the actor's result: None, or what it died of.

    `apart`: every assignment has a feed of its own. `withhold`: the source says with StartAt where each assignment begins.
    `objects_each`: objects that live with a record until the next stage has it.
    `wanted`: a sink of the run owns the positions and has chosen `subscription`; new partitions of `wanted` are picked up from their
    beginning, and the consumer stays until the run has ended, so that the group hears of the last position.
    `virtual`: the clock of the actor system, if it is a virtual one. `in_run`: see BoundedRead. `when_closed`: calls a function when what
    the consumer's runs had open is closed, too."""

    actor_dispatcher = "own"

    def __init__(
        self,
        settings: ConsumerSettings,
        subscription: Subscription,
        source: ReadingSource,
        tracker: OffsetTracker | None,
        control: ReadingControl,
        *,
        commits: Commits,
        until_end: bool,
        call_later: Callable[[float, Callable[[], None]], Any],
        now_ms: Callable[[], float],
        feed_of: FeedOf,
        apart: bool = False,
        withhold: bool = False,
        objects_each: int = 2,
        wanted: Subscription | None = None,
        delays: Delays | None = None,
        virtual: VirtualClock | None = None,
        in_run: ReadInRun | None = None,
        when_closed: Callable[[Callable[[], object]], object] = lambda then: then(),
    ) -> None:
        super().__init__()
        self._when_closed = when_closed
        self._subscription = subscription
        self._control = control
        at_once = records_at_once(settings.max_poll_records, objects_each)
        limits = Limits(settings.high_bytes, settings.low_bytes, settings.max_buffered_bytes, settings.pause_dwell_ms)
        self._context = context = ConsumerContext(
            settings=settings,
            commits=commits,
            source=source,
            tracker=tracker,
            state=ConsumerState(limits, at_once, delays),
            call_later=call_later,
            now_ms=now_ms,
            tell=self._tell_self,
            until_end=until_end,
            apart=apart,
        )
        self._bounded = bounded = BoundedRead(context, subscription, in_run)
        self._commits = commits_of_this = ConsumerCommits(context)
        in_group = isinstance(subscription, AutoSubscription)
        handler = subscription.handler if isinstance(subscription, AutoSubscription) else None
        self._calls = calls = AssignmentCalls(handler, context.state)
        self._rebalances = rebalances = Rebalances(
            context,
            commits_of_this,
            bounded,
            feed_of,
            calls,
            withhold=withhold,
            in_group=in_group,
            starting=Starting(context.state, control.started),
            first_starts=self._first_starts,
        )
        self._rest = rest = (
            None
            if virtual is None
            else ConsumerRest(
                virtual,
                context,
                lambda: (rebalances.joined or not in_group) and not commits_of_this.in_flight,
            )
        )
        self._polling = polling = Polling(
            context, at_once, rebalances, bounded, commits_of_this, lambda: self._myRef, self._try_to_stop, rest
        )
        commits_of_this.begun = polling.hear_commit
        self._ending = ending = Ending(context, commits_of_this, control.is_shutdown, self._finish, polling.arm_tick)
        self._new = None if wanted is None else NewPartitions(context, wanted, rebalances, polling.soon)
        joining = Joining(context, rebalances, commits_of_this, polling.soon)
        self._closing = False
        self._clock = virtual or SystemClock()
        self._bounds = PartitionBounds(settings)
        self._last_snapshot = snapshot_without_consumer()
        self._handlers: dict[type, Callable[[Any], None]] = {
            StartReading: self._on_start,
            RequestRecords: self._on_request,
            Poll: polling.on_poll,
            Tick: polling.on_tick,
            StartAt: self._on_start_at,
            MembersWithout: rebalances.on_members_without,
            PausePartitions: self._on_pause,
            ResumePartitions: self._on_resume,
            HoldBack: self._on_hold_back,
            CommitNow: commits_of_this.on_commit_now,
            CommitAnswer: commits_of_this.on_answer,
            CommitDue: commits_of_this.on_due,
            CommitEnded: commits_of_this.on_ended,
            CommitsLate: commits_of_this.on_late,
            StopAtEnd: self._on_stop_at_end,
            StageEnded: self._on_stage_ended,
            Drained: ending.on_drained,
            Overdue: ending.on_drained,
            RunEnded: self._on_run_ended,
            TakeSnapshot: self._on_snapshot,
            Join: joining.on_join,
            FeedEnded: joining.on_feed_ended,
            Leave: joining.on_leave,
            ActorExitRequest: self._on_exit,
        }
        if self._new is not None:
            self._handlers[LookForPartitions] = self._new.on_look

    def receiveMessage(self, message: Any, sender: Any) -> None:  # Thespian's name
        handler = self._handlers.get(type(message))
        if handler is None or self._closing:
            self._after_the_end(message)
            return
        try:
            handler(message)
        except Exception as error:  # noqa: BLE001  # the stream gets it; the actor has no other receiver
            self._die(error)

    def _tell_self(self, message: Any) -> None:
        if not self._closing:
            self.myAddress.tell(message)

    # ── life ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def _on_start(self, _: StartReading) -> None:
        subscription, rebalances = self._subscription, self._rebalances
        self._context.client = client = StreamConsumer(
            self._context.settings, several_topics=subscription.several_topics
        )
        if isinstance(subscription, AutoSubscription):
            client.preflight(subscription.topics)
            client.subscribe(subscription.names, rebalances.on_assigned, rebalances.on_revoked, rebalances.on_lost)
            rebalances.begin()
        else:
            assert isinstance(subscription, ManualSubscription)
            client.preflight({key.topic for key in subscription.partitions}, subscription.partitions)
            starts: dict[TopicPartition, int | None] = dict.fromkeys(subscription.partitions)
            starts.update(subscription.offsets)
            if subscription.times_ms:
                starts.update(client.offsets_at(subscription.times_ms))
            rebalances.on_assigned(list(subscription.partitions))
            client.assign(starts)
            if self._new is not None:
                self._new.begin(dict(subscription.offsets))
        self._commits.begin()
        if self._rest is not None:
            self._rest.begin()
        self._polling.soon()

    def _first_starts(self, keys: list[TopicPartition]) -> dict[TopicPartition, int]:
        client = self._context.client
        return {} if client is None else starts_by_time(client, self._context.settings, self._subscription, keys)

    def _die(self, error: BaseException) -> None:
        context = self._context
        if not isinstance(error, StreamActorsError):
            _log.error("consumer of %s failed", context.settings.bootstrap_servers, exc_info=error)
        context.source.post(context.source.on_failed, error)
        self._finish(error)

    def _on_stage_ended(self, message: StageEnded) -> None:
        if message.failed:
            self._bounded.stream_failed()
        self._ending.begin(message, without_deadline=self._new is not None or message.drains)

    def _on_run_ended(self, _: RunEnded) -> None:
        self._ending.on_run_ended()

    def _try_to_stop(self) -> None:
        self._ending.try_to_stop()

    def _finish(self, error: BaseException | None) -> None:
        """Leave the group and close the client, on a thread of its own; the actor stays until this and the run have ended."""
        context = self._context
        for part in (self._polling, self._commits, self._rebalances, self._bounded):
            part.cancel()
        self._closing = True
        client, context.client = context.client, None
        if self._rest is not None:
            self._rest.closing()
        try:
            self._calls.stopping(client)
        except Exception as raised:  # noqa: BLE001 - the user's handler; the consumer is closed all the same
            error = error or raised
            context.source.post(context.source.on_failed, raised)
        if self._commits.in_flight and isinstance(error, CommitTimeout):
            self._tell_end(error)  # the close waits for this commit, no other caller must
        if client is None:
            self._ending.closed = True
            self._on_closed(None, error)
            return
        self._ending.close(
            client, f"the end of {self._myRef.name}", lambda raised: self._on_closed(client, error or raised)
        )

    def _on_closed(self, client: StreamConsumer | None, error: BaseException | None) -> None:
        """The client is closed; on the thread that has closed it."""
        self._ending.cancel()
        self._bounds.close()
        if self._rest is not None:
            self._rest.end()
        received = client.received() if client else None
        self._last_snapshot = snapshot_without_consumer(self._context.state.counts, received, self._commits.committed)
        self._tell_end(error)
        self.myAddress.tell(Closed())

    def _tell_end(self, error: BaseException | None) -> None:
        self._control.closed(self._last_snapshot)
        self._commits.answer(error)
        ended = self._control.is_shutdown
        self._when_closed(lambda: ended.try_complete(None) if error is None else ended.try_fail(error))

    def _after_the_end(self, message: Any) -> None:
        """The consumer is closed; the actor stays until the run has ended, so that no message to it is a dead letter."""
        if isinstance(message, TakeSnapshot):
            message.reply.try_complete(self._last_snapshot)
        elif isinstance(message, CommitNow):
            self._commits.refuse(message.reply)
        elif isinstance(message, Join):
            message.reply.try_fail(ConsumerFailed("the shared consumer is closed"))
        elif isinstance(message, Leave):
            message.reply.try_complete(None)  # its end has committed what was done
        elif isinstance(message, RunEnded):
            self._ending.run_ended = True
            self._exit_at_the_end()
        elif isinstance(message, Closed):
            self._exit_at_the_end()
        elif isinstance(message, ActorExitRequest):
            self._ending.wait_until_closed()  # the actor system shuts down: the group is left before it is gone

    def _exit_at_the_end(self) -> None:
        if self._ending.run_ended and self._ending.closed:
            self.send(self.myAddress, ActorExitRequest())

    def _on_exit(self, _: ActorExitRequest) -> None:
        """The actor system shuts down under the stream: commit what is done all the same, and leave the group."""
        client = self._context.client
        error = None
        if client is not None:
            error = self._commits.commit_at_exit(
                lambda: client.read(1, BUSY_POLL_MS / 1_000), self._context.settings.close_timeout_ms
            )
        self._finish(error)
        self._ending.wait_until_closed()

    def refuse_letter(self, message: Any) -> None:
        """A message, or the exit request of a shutdown, has come after the actor exited. Any thread."""
        if not isinstance(message, ActorExitRequest):
            self._after_the_end(message)
        elif not self._closing:
            # librdkafka's threads would keep the membership alive, and its partitions from everybody else, until
            # max.poll.interval.ms; nothing runs the actor any more, so this thread has it for itself
            self._closing = True
            threading.Thread(target=self._end_alone, name=f"the end of {self._myRef.name}", daemon=True).start()

    def _end_alone(self) -> None:
        try:
            self._on_exit(ActorExitRequest())
        except Exception as error:  # noqa: BLE001  # no other code gets it
            self._die(error)

    # ── the source ────────────────────────────────────────────────────────────────────────────────────────────────

    def _on_request(self, request: RequestRecords) -> None:
        state = self._context.state
        state.requested(request.feed, request.n)
        self._polling.deliver()
        if state.starving or state.hungry:
            self._polling.soon()

    def _on_start_at(self, message: StartAt) -> None:
        self._rebalances.start_at(message)
        self._deliver_and_poll()

    def _on_hold_back(self, message: HoldBack) -> None:
        self._context.state.pausing.hold_back(message.keys)
        self._deliver_and_poll()

    def _deliver_and_poll(self) -> None:
        self._polling.deliver()
        self._polling.soon()

    def group_metadata(self) -> Any:
        """Return the membership a transaction commits under; any thread. Raises ConsumerFailed when the consumer is closed."""
        if self._context.client is None:
            raise ConsumerFailed(
                "the consumer is closed, so what was in flight cannot be committed; the next run processes it again. Raise close_timeout_ms if "
                "the stream needs longer to end"
            )
        return self._rebalances.membership.current

    def paused(self) -> tuple[str, ...]:
        """Return the names of the partitions if the user has paused all of them; any thread."""
        state = self._context.state
        keys = tuple(state.partitions)
        return tuple(map(str, keys)) if state.pausing.by_user.issuperset(keys) else ()

    def renew_membership(self) -> None:
        """The broker knows another membership: look it up again at the next poll; any thread."""
        self._rebalances.membership.changed()

    # ── the user's control ────────────────────────────────────────────────────────────────────────────────────────

    def _on_pause(self, message: PausePartitions) -> None:
        self._context.state.pausing.by_user.update(message.keys)

    def _on_resume(self, message: ResumePartitions) -> None:
        self._context.state.pausing.by_user.difference_update(message.keys)
        self._deliver_and_poll()

    def _on_stop_at_end(self, _: StopAtEnd) -> None:
        self._bounded.begin_at_end()
        self._polling.soon()

    def _on_snapshot(self, message: TakeSnapshot) -> None:
        """Answer; wait for the broker's answer where a partition has no known lag yet, which is once after its assignment."""
        client, state, bounds = self._context.client, self._context.state, self._bounds
        if client is None or message.final:
            message.reply.try_complete(self.look())
            return
        due, wait = bounds.look(state.partitions, client.known_ends(state.partitions), state.pausing.withheld)
        shot = self.look()
        if not wait:
            message.reply.try_complete(shot)
        undated = bounds.undated(oldest_undated(shot))
        if due or undated:
            again = TakeSnapshot(message.reply, final=True)
            bounds.ask(due, undated, client.starts, lambda: self.myAddress.tell(again))

    def rebalances(self) -> tuple[Rebalance, ...]:
        """Return the last rebalances, the oldest first. Any thread."""
        return self._rebalances.log()

    def look(self) -> dict[str, Any]:
        """Return the snapshot. Any thread, for callers that cannot wait while the actor waits in a rebalance or for the broker."""
        context = self._context
        client = context.client
        if client is None:
            return self._last_snapshot
        tracked = context.tracker.snapshot() if context.tracker is not None else {}
        bounds, received = self._bounds.known(), client.received()
        found = snapshot(
            context.state, tracked, bounds, client.starts, received, self._commits.committed, self._clock.wall_ms()
        )
        return {**found, "joined": self._rebalances.is_member(), "rebalances": self._rebalances.log.total}
