"""BoundedRead: where a bounded read ends, and which parts were told.

A read is bounded from its start (`until="end"`) or by `control.stop_at_end()`. Each assignment looks up its own ends. A partition that
was revoked is read to its end by the next owner.

With an eager assignor a consumer without partitions has nothing to read, and ends. With a cooperative one, or with the group protocol of KIP-848, it
may get partitions later, when other members have given them up: it ends when the group has committed everything, or when it has read what it got.
Owner: the consumer actor."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from streamactors.kafka.client.consumer import StreamConsumer
from streamactors.kafka.reading.consumer_context import ConsumerContext
from streamactors.kafka.reading.delivery import AssignedPartition
from streamactors.kafka.reading.feed import Feed
from streamactors.kafka.reading.group_end import GroupEnd, ReadInRun, assigns_step_by_step
from streamactors.kafka.subscriptions import AutoSubscription, ManualSubscription, Subscription, TopicPartition

_log = logging.getLogger("streamactors.kafka")


class BoundedRead:
    """A read with an end. `in_run`: None for a source that is started again when it fails; the run continues then."""

    def __init__(self, context: ConsumerContext, subscription: Subscription, in_run: ReadInRun | None = None) -> None:
        self._context = context
        self._subscription = subscription
        self._in_run = ReadInRun() if in_run is None else in_run
        self._by_broker = context.settings.group_protocol == "consumer"
        self._may_get_more = isinstance(subscription, AutoSubscription) and assigns_step_by_step(context.settings)
        self._group = GroupEnd(context, subscription, self._in_run)
        self._ended_feeds: set[Feed] = set()
        self._end_told = False
        self._told_of_latest = False
        self._assigned = False  # the group has assigned partitions: having none then means that all are read

    def ends_of(self, keys: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return where new assignments end; nothing for a read without an end."""
        client = self._context.client
        if not self._context.until_end or client is None:
            return {}
        ends = client.stable_ends(keys)
        self._tell_of_latest(client, ends)
        return ends

    def _tell_of_latest(self, client: StreamConsumer, ends: dict[TopicPartition, int]) -> None:
        """Warn of partitions that begin at their end, so that a read until the end has no record of them."""
        settings, subscription = self._context.settings, self._subscription
        if settings.auto_offset_reset != "latest" or self._told_of_latest:
            return
        if isinstance(subscription, AutoSubscription) and subscription.start_ms is not None:
            return
        begun: set[TopicPartition] = set()
        if isinstance(subscription, ManualSubscription):
            begun.update(subscription.offsets, subscription.times_ms)
        wanted = [key for key in ends if key not in begun]
        committed = client.committed(wanted) if settings.group_id and wanted else {}
        unread = {key: ends[key] - low for key, (low, _) in client.watermarks(set(wanted) - committed.keys()).items()}
        if any(unread.values()):
            self._told_of_latest = True
            _log.warning(
                "%s has no committed offset of %s, and auto_offset_reset is 'latest': this read until the end begins at the end, and has none of "
                "the %d records that are there; auto_offset_reset='earliest' reads them",
                f"group {settings.group_id}" if settings.group_id else "a consumer without a group",
                ", ".join(str(key) for key, count in sorted(unread.items())[:5] if count),
                sum(unread.values()),
            )

    def begin_at_end(self) -> None:
        """Make the read a bounded one: it ends where the partitions end now."""
        self._context.until_end = True
        self._may_get_more = False  # the user ends what this consumer reads now
        client, partitions = self._context.client, self._context.state.partitions
        if client is not None:
            # not the stable ends: what was committed just now may still lack its marker
            for key, end in client.high_watermarks(partitions).items():
                partitions[key].stop_at = end

    def assigned(self) -> None:
        """Partitions were assigned."""
        self._assigned = True
        self._group.close()

    def revoked(self, gone: list[AssignedPartition]) -> None:
        """Partitions were revoked or lost.

        Until the group answers, no partition is assigned, and the read is not over for that. A source that heard of the end drops what it
        has not pushed; it is read again. In a consumer group no answer follows: having nothing is an assignment, and the group is asked for its end."""
        self._assigned = self._assigned and (self._by_broker or bool(self._context.state.partitions))
        self._end_told = False
        self._ended_feeds.difference_update(partition.feed for partition in gone)
        self._in_run.difference_update(self._names(partition.key for partition in gone))

    def stream_failed(self) -> None:
        """What was read is not done."""
        self._in_run.difference_update(self._names(self._context.state.partitions))

    def cancel(self) -> None:
        """The consumer is closed."""
        self._group.close()

    def _names(self, keys: Iterable[TopicPartition]) -> list[tuple[str | None, TopicPartition]]:
        return [(self._context.settings.group_id, key) for key in keys]

    def look(self) -> None:
        """Tell feeds and the source what has been read to its end."""
        context = self._context
        if not context.until_end:
            return
        partitions, state = context.state.partitions.values(), context.state
        if context.apart:
            for partition in partitions:
                feed = partition.feed
                if feed not in self._ended_feeds and state.finished(partition):
                    self._ended_feeds.add(feed)
                    state.feed_gone(feed)
                    feed.finish(_end_of(partition))
        if not self._end_told and self._assigned and all(map(state.finished, partitions)):
            if not partitions and self._may_get_more and not self._group.is_reached():
                return
            self._end_told = True
            self._in_run.update(self._names(state.partitions))
            source = context.source
            source.post(source.on_end, [(p.key, p.epoch, _end_of(p)) for p in partitions])


def _end_of(partition: AssignedPartition) -> int:
    return max(partition.stop_at or 0, partition.position or 0)
