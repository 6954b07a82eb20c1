"""The consumer actor: owns one consumer, polls it, and turns downstream demand into pause and resume.

Where it waits for records it has a thread of its own. While polls bring all they may, there is nothing to wait for: then it takes its turns
on the pool, between those of the islands it feeds, so that a chunk changes no thread and the next is made when this one is done.

Thin, if long: what is decided stands in `consumer_state.py`, what is in flight in `offsets.py`, how commits are tried in
`consumer_commits.py`; what is left are the turns of one thread over one client, from its start to its end, which share all they know.
A poll tick re-arms itself after each poll; demand that finds nothing buffered polls at once; requests that came in during a poll are
served together after it."""

from __future__ import annotations

import gc
import logging
import threading
from collections.abc import Callable
from typing import Any

from streamactors.actors.messages import Actor, ActorExitRequest
from streamactors.engine.marks import next_epoch
from streamactors.errors import StreamActorsError
from streamactors.kafka.client_consumer import StreamConsumer
from streamactors.kafka.consumer_commits import ConsumerCommits
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
    StartAt,
    StopAtEnd,
    TakeSnapshot,
)
from streamactors.kafka.consumer_snapshot import snapshot, snapshot_without_consumer
from streamactors.kafka.consumer_state import ConsumerState, Limits, Partition
from streamactors.kafka.consumer_statistics import Received
from streamactors.kafka.control import Control
from streamactors.kafka.errors import CommitFailed, CommitTimeout, ConsumerFailed, KafkaError
from streamactors.kafka.offsets import OffsetTracker
from streamactors.kafka.partition_feed import PartitionFeed
from streamactors.kafka.received_runs import offset_of, wrapped
from streamactors.kafka.settings import ConsumerSettings
from streamactors.kafka.subscriptions import AutoSubscription, ManualSubscription, Subscription, TopicPartition

_log = logging.getLogger("streamactors.kafka")

OVERDUE_AFTER_MS = 500.0
"""How long after its deadline the end of a consumer that stands in a call of librdkafka is waited for."""
IDLE_EVERY_MS = 500.0
COMMIT_RETRY_MS = 100.0
BUSY_POLL_MS = 5.0
AFTER_FAILURE_MS = 250
"""How long what is in flight may become done when the stream has failed: most of it is lost. In a RestartSource the next instance waits
for this one to leave the group."""


class _Poll:
    """The actor's note to itself."""


class _Tick:
    """The poll interval has passed."""


class _Drained:
    """The stream has ended and nothing is in flight any more."""


class _CommitDue:
    """The commit interval has passed."""


class _Answer:
    """Serve the CommitNow that have gathered."""


_POLL, _TICK, _DRAINED, _COMMIT_DUE, _ANSWER = _Poll(), _Tick(), _Drained(), _CommitDue(), _Answer()


def _records_at_once(most: int, objects_each: int) -> int:
    """Return how many records to read in one poll: no more objects than bring about a collection of garbage, for they are in use.

    Made and freed in this rhythm they never do; one collection per poll costs a fifth of a bare client's time."""
    threshold = gc.get_threshold()[0] if gc.isenabled() else 0
    return max(1, min(most, threshold * 19 // 20 // objects_each)) if threshold else most


class ConsumerActor(Actor):  # type: ignore[misc]  # Thespian is untyped
    """See the module. `control.is_shutdown` gets the actor's result: None, or what it died of."""

    actor_dispatcher = "own"

    def __init__(
        self,
        settings: ConsumerSettings,
        subscription: Subscription,
        stage: Any,
        tracker: OffsetTracker | None,
        control: Control,
        *,
        commits: Commits,
        until_end: bool,
        call_later: Callable[[float, Callable[[], None]], Any],
        now_ms: Callable[[], float],
        feed_of: Callable[[TopicPartition, int], PartitionFeed] | None = None,
        withhold: bool = False,
    ) -> None:
        super().__init__()
        self._settings = settings
        self._subscription = subscription
        self._stage = stage
        self._tracker = tracker
        self._control = control
        self._ended = control.is_shutdown
        self._commits = commits
        self._until_end = until_end
        self._committing = ConsumerCommits(settings, commits, tracker, now_ms)
        self._call_later = call_later
        self._now_ms = now_ms
        self._feed_of = feed_of  # where every partition is a stage of its own
        self._withhold = withhold  # partitions are delivered when somebody has said from where
        self._at_home = True  # polls on its own thread, and may wait
        self._at_once = _records_at_once(settings.max_poll_records, getattr(stage, "objects_each", 2))
        self._seeks: dict[TopicPartition, int] = {}
        self._ended_feeds: set[PartitionFeed] = set()
        self._state = ConsumerState(
            Limits(settings.high_bytes, settings.low_bytes, settings.max_buffered_bytes, settings.pause_dwell_ms),
            self._at_once,
            offset_of,
        )
        self._client: StreamConsumer | None = None
        self._tick: Any = None
        self._commit_timer: Any = None
        self._polling = False  # a _POLL is on its way
        self._stopping = False
        self._run_ended = False
        self._closing = False
        self._membership: Any = None
        self._membership_changed = True
        self._stop_by = 0.0
        self._deadline: Any = None
        self._end_told = False
        self._last_snapshot = snapshot_without_consumer()
        self._assigned = False  # no partitions then means: not yet, or taken away for a while
        self._handlers: dict[type, Callable[[Any], None]] = {
            Start: self._on_start,
            RequestRecords: self._on_request,
            StartAt: self._on_start_at,
            _Poll: self._on_poll,
            _Tick: self._on_tick,
            _CommitDue: self._on_commit_due,
            PausePartitions: lambda message: self._state.pause(message.keys),
            ResumePartitions: self._on_resume,
            HoldBack: self._on_hold_back,
            StageEnded: self._on_stage_ended,
            _Drained: self._on_drained,
            RunEnded: self._on_run_ended,
            CommitNow: self._on_commit_now,
            _Answer: self._on_answer,
            TakeSnapshot: self._on_snapshot,
            StopAtEnd: self._on_stop_at_end,
            ActorExitRequest: self._on_exit,
        }

    def receiveMessage(self, message: Any, sender: Any) -> None:  # Thespian's name
        handler = self._handlers.get(type(message))
        if handler is None or self._closing:
            self._after_the_end(message)
            return
        try:
            handler(message)
        except Exception as error:  # noqa: BLE001  # the stream hears of it; the actor has nobody else to tell
            self._die(error)

    # ── life ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def _on_start(self, _: Start) -> None:
        subscription = self._subscription
        self._client = client = StreamConsumer(self._settings)
        if isinstance(subscription, AutoSubscription):
            client.preflight(subscription.topics)
            client.subscribe(subscription.names, self._on_assigned, self._on_revoked, self._on_lost)
        else:
            assert isinstance(subscription, ManualSubscription)
            client.preflight({key.topic for key in subscription.partitions})
            starts: dict[TopicPartition, int | None] = dict.fromkeys(subscription.partitions)
            starts.update(subscription.offsets)
            if subscription.times_ms:
                starts.update(client.offsets_at(subscription.times_ms))
            self._on_assigned(list(subscription.partitions))
            client.assign(starts)
        if self._commits is Commits.MARKS:
            self._arm_commit()
        self._poll_now()

    def _die(self, error: BaseException) -> None:
        if not isinstance(error, StreamActorsError):
            _log.error("consumer of %s failed", self._settings.bootstrap_servers, exc_info=error)
        self._stage.post(self._stage.on_failed, error)
        self._finish(error)

    def _finish(self, error: BaseException | None = None) -> None:
        for timer in (self._tick, self._commit_timer, self._deadline):
            if timer is not None:
                timer.cancel()
        self._closing = True
        client, self._client = self._client, None
        if client is not None:
            client.close()
        self._last_snapshot = snapshot_without_consumer(self._state.counts, client.received() if client else None)
        self._control.closed(self._last_snapshot)
        self._committing.answer(error)
        if error is None:
            self._ended.try_complete(None)
        else:
            self._ended.try_fail(error)
        if self._run_ended:
            self.send(self.myAddress, ActorExitRequest())

    def _after_the_end(self, message: Any) -> None:
        """The consumer is closed; the actor stays until the run has ended, so that nothing told to it is a dead letter."""
        if isinstance(message, TakeSnapshot):
            message.reply.try_complete(self._last_snapshot)
        elif isinstance(message, CommitNow):
            self._committing.refuse(message.reply)
        elif isinstance(message, RunEnded):
            self.send(self.myAddress, ActorExitRequest())

    def _on_exit(self, _: ActorExitRequest) -> None:
        """The actor system shuts down under the stream: what is done is committed all the same, and the group is left."""
        error: BaseException | None = None
        if self._tracker is not None:
            try:
                self._committing.commit(self._client, self._tracker.to_commit())
            except (CommitFailed, CommitTimeout) as raised:
                error = raised
        self._finish(error)

    def refuse_letter(self, message: Any) -> None:
        """What comes when the actor has exited; also an exit request that the shutdown had no time for. Any thread."""
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
        except Exception as error:  # noqa: BLE001  # nobody else hears of it
            self._die(error)

    # ── polling ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _poll_now(self) -> None:
        if not self._polling:
            self._polling = True
            self.myAddress.tell(_POLL)

    def _on_request(self, request: RequestRecords) -> None:
        self._state.requested(request.stage, request.n)
        self._deliver()
        if self._state.starving or self._state.hungry:
            self._poll_now()

    def _on_tick(self, _: _Tick) -> None:
        self._tick = None
        self._on_poll(_POLL)

    def _on_poll(self, _: _Poll) -> None:
        """Poll as long as somebody waits for records, but for messages, which are served in between."""
        self._polling = False
        if self._client is None:
            return
        if self._stopping:
            self._client.read(1, 0)
            self._try_to_stop()
            return
        counts, mailbox = self._state.counts, self._myRef.mailbox
        again = True
        while again:
            before = counts.records
            again = self._poll_once(self._client)
            moves = self._settle(counts.records - before)
            if again and (moves or mailbox or not self._at_home):
                self._poll_now()  # behind what waits, on the pool also behind the islands
                return
        if self._tick is None:
            self._arm_tick(self._settings.poll_interval_ms)

    def _settle(self, read: int) -> bool:
        """Choose where to poll next by what this poll has read: on the pool as long as there is a backlog. True: elsewhere."""
        cell = self._myRef
        # `max_in_flight` is looked at before each delivery: acknowledgements need the time that a hand-over takes
        if self._at_home and read == self._at_once and self._settings.max_in_flight is None:
            cell.move(cell.base.pool)
        elif not self._at_home and not read and self._state.starving:
            cell.move(cell.home)
        else:
            return False
        self._at_home = not self._at_home
        return True

    def _poll_once(self, client: StreamConsumer) -> bool:
        """Poll, deliver, pause and resume; return whether to poll again at once."""
        state = self._state
        starving = state.starving
        if starving:
            # while others have records waiting, their requests must not wait for a poll that waits for data
            wait_ms = 0 if not self._at_home else BUSY_POLL_MS if state.feeding else self._settings.poll_timeout_ms
            batch = client.read(self._at_once, wait_ms / 1_000)
        elif state.hungry and self._at_home:
            batch = client.read(self._at_once, 0)
        else:
            batch = client.read(1, 0)  # serves rebalances; a record goes into its buffer
        state.counts.polls += 1
        self._look_up_membership()
        for run in batch.runs:
            state.read(*run)
        for key, position in batch.ends:
            state.end_reached(key, position)
        if self._seeks:
            self._seek()
        self._deliver()
        if self._until_end and self._feed_of is not None:
            self._end_feeds()
        now_ms = self._now_ms()
        to_pause, to_resume = state.pauses(now_ms)
        if to_pause:
            client.pause(to_pause)
        if to_resume:
            client.resume(to_resume)
        silent = state.idle(now_ms, IDLE_EVERY_MS)
        if silent:
            self._stage.post(self._stage.on_idle, [(p.key, p.epoch, silent_ms) for p, silent_ms in silent])
        if self._until_end and not self._end_told:
            self._check_ends()
        if not self._at_home:
            return state.starving or bool(to_resume)  # reading ahead is for those who have a thread to do it on
        return starving or bool(to_resume) or (bool(batch.runs) and state.hungry)

    def _arm_tick(self, delay_ms: float) -> None:
        """Poll once more after a while."""
        if self._tick is not None:
            self._tick.cancel()
        self._tick = self._call_later(delay_ms, self._tick_from_outside)

    def _tick_from_outside(self) -> None:
        if not self._closing:
            self.myAddress.tell(_TICK)

    def _on_stop_at_end(self, _: StopAtEnd) -> None:
        self._until_end = True  # a later assignment looks for its ends itself
        if self._client is not None:
            # not the stable ends: what was committed just now may still lack its marker
            for key, end in self._client.high_watermarks(self._state.partitions).items():
                self._state.partitions[key].stop_at = end
        self._poll_now()

    def _end_feeds(self) -> None:
        """In a bounded read each partition ends for itself."""
        for partition in self._state.partitions.values():
            if partition.stage not in self._ended_feeds and self._state.finished(partition):
                self._ended_feeds.add(partition.stage)
                self._state.stage_gone(partition.stage)
                partition.stage.on_end(max(partition.stop_at or 0, partition.position or 0))

    def _deliver(self) -> None:
        limit = self._settings.max_in_flight
        if limit is not None and self._tracker is not None:
            self._state.full = self._tracker.above_gap(limit)
        for delivery in self._state.deliveries():
            stage = delivery.stage
            if not getattr(stage, "takes_messages", False):
                delivery = delivery._replace(records=wrapped(delivery.records))
            stage.post(stage.on_records, delivery)

    def _check_ends(self) -> None:
        """A bounded read is over when every partition has delivered what was there when it was assigned."""
        if self._assigned and all(self._state.finished(p) for p in self._state.partitions.values()):
            ends = [(p.key, p.epoch, max(p.stop_at or 0, p.position or 0)) for p in self._state.partitions.values()]
            self._stage.post(self._stage.on_end, ends)
            self._end_told = True

    # ── rebalances; called inside poll, on this thread ────────────────────────────────────────────────────────────

    def _on_assigned(self, keys: list[TopicPartition]) -> None:
        self._membership_changed = True
        epoch = next_epoch()
        stop_at = self._client.stable_ends(keys) if self._until_end and self._client is not None else {}
        if self._feed_of is None:
            self._state.assigned(keys, epoch, self._stage, stop_at)
        else:
            for key in keys:
                self._state.assigned([key], epoch, self._feed_of(key, epoch), stop_at)
        if self._withhold:
            self._state.withhold(keys)
        if self._tracker is not None:
            self._tracker.assigned(keys, epoch)
        self._assigned = True
        self._stage.post(self._stage.on_assigned, [(key, epoch) for key in keys])

    def _on_revoked(self, keys: list[TopicPartition]) -> None:
        self._membership_changed = True
        gone = self._gone(keys)
        self._look_up_membership()  # what is in flight is committed while this waits; a cooperative group has a new generation by now
        tracker = self._tracker
        if tracker is not None:
            closing = self._client is None  # what is in flight has been waited for already, or never ends
            tracker.revoking(keys)
            self._stage.post(self._stage.on_revoking, keys)
            wait_ms: float = 0 if closing else self._settings.revoke_timeout_ms
            if self._stopping:  # the stream has ended: the next instance in a RestartSource waits for this answer
                wait_ms = min(wait_ms, max(0.0, self._stop_by - self._now_ms()))
            late = tracker.drain(keys, wait_ms)
            if late and not closing:
                _log.warning(
                    "%s: %s revoked with records still in flight after %d ms; they will be read again by the next owner",
                    self._settings.group_id,
                    ", ".join(map(str, sorted(late))),
                    wait_ms,
                )
            self._committing.commit(self._client, tracker.to_commit(keys))
        self._tell_revoked(gone)

    def _on_lost(self, keys: list[TopicPartition]) -> None:
        _log.warning("%s: lost %s", self._settings.group_id, ", ".join(map(str, keys)))
        if self._tracker is not None:
            self._tracker.revoking(keys)
        self._stage.post(self._stage.on_revoking, keys)
        self._tell_revoked(self._gone(keys))

    def _gone(self, keys: list[TopicPartition]) -> list[Partition]:
        """Partitions are ours no more; their feeds give nothing from here on."""
        gone = self._state.revoked(keys)
        if self._feed_of is not None:
            for partition in gone:
                partition.stage.revoke()
                self._state.stage_gone(partition.stage)
                self._seeks.pop(partition.key, None)
                self._ended_feeds.discard(partition.stage)
        return gone

    def _tell_revoked(self, gone: list[Partition]) -> None:
        # revoked or lost -> nothing is ours until the group answers: a bounded read is not over for that, and one that was
        # said to be over drops what it has not pushed yet; it is read again
        self._assigned = self._assigned and bool(self._state.partitions)
        self._end_told = False
        if (
            self._tracker is not None and not self._closing
        ):  # a closed consumer still has to say what it could not commit
            self._tracker.forget([partition.key for partition in gone])
        self._stage.post(self._stage.on_revoked, [(partition.key, partition.epoch) for partition in gone])

    # ── commits ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _arm_commit(self) -> None:
        self._commit_timer = self._call_later(
            self._settings.commit_interval_ms, lambda: self.myAddress.tell(_COMMIT_DUE)
        )

    def _on_commit_due(self, _: _CommitDue) -> None:
        if self._tracker is not None and not self._stopping:
            self._committing.commit(self._client, self._tracker.to_commit())
            self._arm_commit()

    def _on_commit_now(self, message: CommitNow) -> None:
        if self._committing.add(message.reply):
            self.myAddress.tell(_ANSWER)  # behind what is in the mailbox by now: that is served with it

    def _on_answer(self, _: _Answer) -> None:
        if self._committing.serve(self._client):
            self._call_later(COMMIT_RETRY_MS, lambda: self.myAddress.tell(_ANSWER))

    def group_metadata(self) -> Any:
        """Return the membership a transaction commits under; any thread. Raises ConsumerFailed when the consumer is closed."""
        if self._client is None:
            raise ConsumerFailed("the consumer is closed; its positions cannot be committed")
        return self._membership

    def renew_membership(self) -> None:
        """The broker knows another membership: look it up again at the next poll; any thread."""
        self._membership_changed = True

    def _look_up_membership(self) -> None:
        """Here and not when it is needed: librdkafka's consumer answers no other thread while it is being polled."""
        in_transactions = self._commits is Commits.TRANSACTION or self._feed_of is not None
        if in_transactions and self._membership_changed and self._client is not None:
            self._membership_changed = False
            self._membership = self._client.group_metadata()

    # ── the end ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _on_stage_ended(self, message: StageEnded) -> None:
        self._state.stage_gone(message.stage)
        self._stopping = True
        wait_ms = self._settings.close_timeout_ms
        if message.failed:
            wait_ms = min(wait_ms, AFTER_FAILURE_MS)
        self._stop_by = self._now_ms() + wait_ms
        self._deadline = self._call_later(self._settings.close_timeout_ms + OVERDUE_AFTER_MS, self._overdue)
        if self._tracker is not None:
            self._tracker.when_drained(lambda: self.myAddress.tell(_DRAINED))
        self._try_to_stop()

    def _on_drained(self, _: _Drained) -> None:
        self._try_to_stop()

    def _on_run_ended(self, _: RunEnded) -> None:
        self._run_ended = True
        if self._stopping:
            self._try_to_stop()

    def _try_to_stop(self) -> None:
        tracker = self._tracker
        over = self._run_ended or self._now_ms() > self._stop_by
        if tracker is None or over or not tracker.in_flight():
            error: KafkaError | None = None
            if tracker is not None:
                left = tracker.to_commit()
                try:
                    if not self._committing.commit(self._client, left):
                        if self._now_ms() <= self._stop_by:
                            self._arm_tick(COMMIT_RETRY_MS)
                            return
                        error = self._too_late(left)
                except (CommitFailed, CommitTimeout) as raised:
                    error = raised
            self._finish(error)
        else:
            self._arm_tick(self._settings.poll_interval_ms)  # rebalances are served meanwhile

    def _too_late(self, left: dict[TopicPartition, int]) -> CommitTimeout:
        named = ", ".join(f"{key}@{offset}" for key, offset in list(left.items())[:5])
        return CommitTimeout(
            f"group {self._settings.group_id}: {named} not committed in {self._settings.close_timeout_ms} ms "
            "after the stream's end; raise close_timeout_ms or look at the coordinator"
        )

    def _overdue(self) -> None:
        """Tell who waits for the end that it is late; any thread. A commit without a broker may hold the actor's for a minute."""
        if self._now_ms() < self._stop_by:
            return  # it has all the time that its run takes
        left = self._tracker.to_commit() if self._tracker is not None else {}
        error: KafkaError = self._too_late(left)
        if not left:
            error = ConsumerFailed(
                f"the consumer of {self._settings.bootstrap_servers} is not closed {self._settings.close_timeout_ms} ms after "
                "the stream's end; its group forgets it after session.timeout.ms"
            )
        self._ended.try_fail(error)

    # ── starting where somebody says ──────────────────────────────────────────────────────────────────────────────

    def _on_start_at(self, message: StartAt) -> None:
        partition = self._state.partitions.get(message.key)
        if partition is None or partition.epoch != message.epoch:
            return  # looked up slowly -> revoked meanwhile
        if message.offset is None:
            self._state.release(message.key)
            self._deliver()
        else:
            self._seeks[message.key] = message.offset
            self._seek()
        self._poll_now()

    def _seek(self) -> None:
        assert self._client is not None
        for key, offset in list(self._seeks.items()):
            partition = self._state.partitions[key]
            if partition.paused:
                self._client.resume([key])
                partition.paused = False
            if self._client.seek(key, offset):
                del self._seeks[key]
                self._state.start_over(key)

    # ── the user ──────────────────────────────────────────────────────────────────────────────────────────────────

    def _on_resume(self, message: ResumePartitions) -> None:
        self._state.resume(message.keys)
        self._deliver()
        self._poll_now()

    def _on_hold_back(self, message: HoldBack) -> None:
        self._state.held_back = message.keys
        self._deliver()
        self._poll_now()

    def _on_snapshot(self, message: TakeSnapshot) -> None:
        tracked = self._tracker.snapshot() if self._tracker is not None else {}
        client = self._client
        ends = client.known_ends(self._state.partitions) if client is not None else {}
        message.reply.try_complete(snapshot(self._state, tracked, ends, client.received() if client else Received()))
