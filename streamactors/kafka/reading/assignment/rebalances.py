"""What a consumer does when partitions are assigned to it, revoked, or lost. Called inside `poll`, on the consumer's thread.

    assigned ──► (withheld until their first offset is known) ──► delivered ──► revoking: in flight is waited for, committed ──► revoked

Owner: the consumer actor."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any

from streamactors.engine.marks.marks import next_epoch
from streamactors.kafka.client.runs import RecordRun
from streamactors.kafka.reading.assignment.assignment_calls import AssignmentCalls
from streamactors.kafka.reading.assignment.empty_member import EmptyMember, MembersWithout
from streamactors.kafka.reading.assignment.rebalance_log import CHOSEN, GROUP, JOINED, LOST, STOPS, RebalanceLog
from streamactors.kafka.reading.assignment.reset_guard import AGAIN_AFTER_MS, ResetGuard
from streamactors.kafka.reading.assignment.starting import Starting
from streamactors.kafka.reading.assignment.waiting_member import WaitingMember
from streamactors.kafka.reading.bounded_read import BoundedRead
from streamactors.kafka.reading.commits import ConsumerCommits
from streamactors.kafka.reading.consumer_context import ConsumerContext
from streamactors.kafka.reading.delivery import AssignedPartition
from streamactors.kafka.reading.feed import Feed
from streamactors.kafka.reading.messages import Commits, StartAt
from streamactors.kafka.subscriptions import TopicPartition
from streamactors.log_limit import log_limited

_log = logging.getLogger("streamactors.kafka")

FeedOf = Callable[[TopicPartition, int], Feed]
"""Returns the feed of an assignment: its partition and epoch."""
FirstStarts = Callable[[list[TopicPartition]], dict[TopicPartition, int]]
"""Returns where partitions begin that the subscription starts at a time."""


class Membership:
    """The group membership that a transaction commits under."""

    def __init__(self, context: ConsumerContext) -> None:
        self._context = context
        self._wanted = context.commits is Commits.TRANSACTION or context.apart
        self._stale = True
        self.current: Any = None

    def changed(self) -> None:
        """The membership is stale: it is looked up again at the next poll. Any thread."""
        self._stale = True

    def look_up(self) -> None:
        """Look the membership up if it is stale. Not when it is needed: librdkafka's consumer answers no other thread while it polls."""
        if self._wanted and self._stale and self._context.client is not None:
            self._stale = False
            self.current = self._context.client.group_metadata()


class Rebalances:
    """Applies assignments and revocations to the consumer's state."""

    def __init__(
        self,
        context: ConsumerContext,
        commits: ConsumerCommits,
        bounded: BoundedRead,
        feed_of: FeedOf,
        calls: AssignmentCalls,
        *,
        withhold: bool,
        in_group: bool,
        starting: Starting,
        first_starts: FirstStarts = lambda keys: {},
    ) -> None:
        self._context = context
        self._commits = commits
        self._bounded = bounded
        self._feed_of = feed_of
        self._calls = calls
        self._in_group = in_group  # the group's offsets say where an assignment begins
        self._withhold = withhold  # the source says where each assignment begins
        self._first_starts = first_starts
        self.starting = starting
        self._seeks: dict[TopicPartition, int] = {}
        protection = context.settings.reset_protection
        self.guard = None if protection is None else ResetGuard(protection)
        self.membership = Membership(context)
        self.log = RebalanceLog()
        self.joined = False
        """Whether the consumer has had its first assignment."""
        self.is_lost = False
        """Whether the partitions were lost, and the group has assigned none since."""
        self._waiting = WaitingMember(context, lambda: self.joined)
        self._empty = EmptyMember(context, self.is_member)

    def begin(self) -> None:
        """The consumer has subscribed; a warning follows if its group assigns nothing for long."""
        self._waiting.begin()
        self._empty.begin()

    def is_member(self) -> bool:
        """Return whether the consumer has an assignment, maybe of no partitions. Any thread."""
        return self.joined and not self.is_lost

    def cancel(self) -> None:
        """The consumer is closed."""
        self._waiting.cancel()
        self._empty.cancel()

    def on_members_without(self, message: MembersWithout) -> None:
        """The group is stable, and these members have no partitions: if this one is among them, that is its first assignment, or that after a loss."""
        client = self._context.client
        if not self.is_member() and client is not None and client.member_id() in message.members:
            self.on_assigned([])

    def on_assigned(self, keys: list[TopicPartition]) -> None:
        context, began_s = self._context, time.monotonic()
        why = CHOSEN if not self._in_group else GROUP if self.joined else JOINED
        self.joined, self.is_lost = True, False
        self._commits.lost.clear()
        self.membership.changed()
        epoch = next_epoch()
        ends = self._bounded.ends_of(keys)
        context.state.assigned({key: self._feed_of(key, epoch) for key in keys}, epoch, ends)
        if self._withhold:
            context.state.pausing.withheld.update(keys)
        if context.tracker is not None:
            context.tracker.assigned(keys, epoch)
        if self.guard is not None and context.client is not None and not self._withhold and self._in_group:
            self.guard.assigned(context.client.committed(keys))
        if not self._withhold:
            for key, offset in self._first_starts(keys).items():
                self._begin_at(key, offset)
        self._calls.assigned(keys, context.client, self._begin_at)
        self._bounded.assigned()
        self.starting.assigned()
        context.source.post(context.source.on_assigned, [(key, epoch) for key in keys])
        self.log.note("assigned", keys, why, began_s)

    def on_revoked(self, keys: list[TopicPartition], *, wait: bool = True) -> None:
        """Partitions are taken away. `wait`: wait until the stream has processed the records in flight, and commit; else the caller has committed."""
        context, began_s = self._context, time.monotonic()
        why = STOPS if context.stopping or context.client is None or not wait else GROUP
        self.membership.changed()
        gone = self._drop(keys)
        self.membership.look_up()  # transactions commit while this waits; a cooperative group has a new generation by now
        tracker = context.tracker
        if tracker is not None:
            closing = context.client is None or not wait  # what is in flight has been waited for already, or never ends
            tracker.revoking(keys)
            context.source.post(context.source.on_revoking, keys)
            wait_ms: float = 0 if closing else context.settings.revoke_timeout_ms
            if context.stopping:  # the stream has ended: the next instance in a RestartSource waits for this answer
                wait_ms = min(wait_ms, max(0.0, context.stop_by - context.now_ms()))
            late = tracker.drain(keys, wait_ms)
            if late and not closing:
                group, named = context.settings.group_id, ", ".join(map(str, sorted(late)))
                log_limited(
                    _log, logging.WARNING, (group, named),
                    "%s: %s revoked with records, or results of its windows, still in flight after %d ms; the next owner processes them again",
                    group, named, wait_ms,
                )  # fmt: skip
            if late:
                why += f"; {len(late)} partitions still had records in flight, which their next owner processes again"
            if wait and not closing:
                self._commits.commit_in_rebalance(keys)
        self._calls.revoked(gone, context.client)
        self._end(gone)
        self.log.note("revoked", keys, why, began_s)

    def on_lost(self, keys: list[TopicPartition]) -> None:
        context, began_s = self._context, time.monotonic()
        self._commits.note_lost(keys)
        _log.warning("%s: lost %s", context.settings.group_id, ", ".join(map(str, keys)))
        if context.tracker is not None:
            context.tracker.revoking(keys)
        context.source.post(context.source.on_revoking, keys)
        gone = self._drop(keys)
        self._calls.lost(gone, context.client)
        self._end(gone)
        if not self.is_lost and context.client is not None and not context.stopping:
            self.is_lost = True
            self._empty = EmptyMember(context, self.is_member)
            self._empty.begin()
        self.log.note("lost", keys, LOST, began_s)

    def _drop(self, keys: list[TopicPartition]) -> list[AssignedPartition]:
        """Drop what is buffered of partitions; feeds of their own deliver nothing from here on."""
        state = self._context.state
        gone = state.revoked(keys)
        if self.guard is not None:
            self.guard.revoked(keys)
        for partition in gone:
            self._seeks.pop(partition.key, None)
            if self._context.apart:
                partition.feed.revoke()
                state.feed_gone(partition.feed)
        return gone

    def _end(self, gone: list[AssignedPartition]) -> None:
        context = self._context
        self._bounded.revoked(gone)
        self.starting.revoked()
        if (
            context.tracker is not None and context.client is not None
        ):  # a closed consumer still names what it could not commit
            context.tracker.forget([partition.key for partition in gone])
        context.source.post(context.source.on_revoked, [(partition.key, partition.epoch) for partition in gone])

    # ── assignments that begin where the source says ──────────────────────────────────────────────────────────────

    def start_at(self, message: StartAt) -> None:
        """Deliver a withheld assignment, from an offset or from its current position."""
        state = self._context.state
        partition = state.partitions.get(message.key)
        if partition is None or partition.epoch != message.epoch:
            return  # looked up slowly -> revoked meanwhile
        offset = message.offset
        if offset is None:
            offset = self._first_starts([message.key]).get(message.key)
        if offset is None:
            state.pausing.withheld.discard(message.key)
        else:
            self._seeks[message.key] = offset
            self.seek()

    def look(self, run: RecordRun) -> bool:
        """Return whether to deliver records that were read. If the partition was reset too far back, seek its position after a while."""
        guard, context = self.guard, self._context
        partition = context.state.partitions.get(run.key)
        if guard is None or partition is None:
            return True
        waited = guard.waits(run.key)
        (first, last) = run.records[0], run.records[-1]
        if guard.takes(run.key, (first.offset(), first.timestamp()[1]), run.end, last.timestamp()[1]):
            return True
        if not waited:
            position = partition.chunks[0].records[0].offset() if partition.chunks else guard.position(run.key)
            context.state.pausing.withheld.add(run.key)
            again = StartAt(run.key, partition.epoch, position)
            context.call_later(AGAIN_AFTER_MS, lambda: context.tell(again))
        return False

    def _begin_at(self, key: TopicPartition, offset: int) -> None:
        """Begin an assigned partition at this offset: none of its records is delivered before the client has sought the offset."""
        self._context.state.pausing.withheld.add(key)
        self._seeks[key] = offset

    def seek(self) -> None:
        """Try the seeks that are still open: librdkafka refuses to seek until it fetches the partition."""
        client = self._context.client
        assert client is not None
        for key, offset in list(self._seeks.items()):
            partition = self._context.state.partitions[key]
            if partition.paused:
                client.resume([key])
                partition.paused = False
                self._context.state.pausing.resumed(key)
            if client.seek(key, offset):
                del self._seeks[key]
                if self.guard is not None:
                    self.guard.moved(key, offset)
                self._context.state.start_over(key)
