"""BoundedRead: where a bounded read ends, and who has heard of it.

A read is bounded from its start (`until="end"`) or by `control.stop_at_end()`. Each assignment looks up its own ends. A partition that
was revoked is read to its end by the next owner.

With an eager assignor a consumer without partitions has nothing to read, and ends. With a cooperative one, or with the group protocol of KIP-848, it
may get partitions later, when other members have given them up: it ends when the group has committed everything, or when it has read what it got.
Owner: the consumer actor."""

from __future__ import annotations

from collections.abc import Iterable

from streamactors.kafka.reading.delivery import AssignedPartition
from streamactors.kafka.reading.feed import Feed
from streamactors.kafka.reading.group_end import GroupEnd, ReadInRun, assigns_step_by_step
from streamactors.kafka.reading.shared import Shared
from streamactors.kafka.subscriptions import AutoSubscription, Subscription, TopicPartition


class BoundedRead:
    """See the module. `in_run`: None for a source that is started again when it fails; the run goes on then."""

    def __init__(self, shared: Shared, subscription: Subscription, in_run: ReadInRun | None = None) -> None:
        self._shared = shared
        self._subscription = subscription
        self._in_run = ReadInRun() if in_run is None else in_run
        self._may_get_more = isinstance(subscription, AutoSubscription) and assigns_step_by_step(shared.settings)
        self._group = GroupEnd(shared, subscription, self._in_run)
        self._ended_feeds: set[Feed] = set()
        self._end_told = False
        self._assigned = False  # the group has assigned partitions: having none then means that all are read

    def ends_of(self, keys: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return where new assignments end; nothing for a read without an end."""
        client = self._shared.client
        return client.stable_ends(keys) if self._shared.until_end and client is not None else {}

    def begin_at_end(self) -> None:
        """Make the read a bounded one: it ends where the partitions end now."""
        self._shared.until_end = True
        self._may_get_more = False  # the user ends what this consumer reads now
        client, partitions = self._shared.client, self._shared.state.partitions
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
        has not pushed; it is read again."""
        self._assigned = self._assigned and bool(self._shared.state.partitions)
        self._end_told = False
        self._ended_feeds.difference_update(partition.feed for partition in gone)
        self._in_run.difference_update(self._names(partition.key for partition in gone))

    def stream_failed(self) -> None:
        """What was read is not done."""
        self._in_run.difference_update(self._names(self._shared.state.partitions))

    def cancel(self) -> None:
        """The consumer is closed."""
        self._group.close()

    def _names(self, keys: Iterable[TopicPartition]) -> list[tuple[str | None, TopicPartition]]:
        return [(self._shared.settings.group_id, key) for key in keys]

    def look(self) -> None:
        """Tell feeds and the source what has been read to its end."""
        shared = self._shared
        if not shared.until_end:
            return
        partitions, state = shared.state.partitions.values(), shared.state
        if shared.apart:
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
            source = shared.source
            source.post(source.on_end, [(p.key, p.epoch, _end_of(p)) for p in partitions])


def _end_of(partition: AssignedPartition) -> int:
    return max(partition.stop_at or 0, partition.position or 0)
