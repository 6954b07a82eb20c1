"""BoundedRead: where a bounded read ends, and who has heard of it.

A read is bounded from its start (`until="end"`) or by `control.stop_at_end()`. Each assignment looks up its own ends. A partition that
was revoked is read to its end by the next owner.

With an eager assignor a consumer without partitions has nothing to read, and ends. With a cooperative one, or with the group protocol of KIP-848, it
may get partitions later, when other members have given them up: it ends when the group has committed everything, or when it has read what it got.
What another consumer of the same run has read to its end is not waited for: it may be committed only when the run ends.
Owner: the consumer actor."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Final

from streamactors.kafka.client.consumer import StreamConsumer
from streamactors.kafka.client.unread import any_record
from streamactors.kafka.errors import ConsumerFailed, KafkaError
from streamactors.kafka.reading.assignment.start_positions import partitions_of
from streamactors.kafka.reading.delivery import AssignedPartition
from streamactors.kafka.reading.feed import Feed
from streamactors.kafka.reading.shared import Shared
from streamactors.kafka.settings import ConsumerSettings
from streamactors.kafka.subscriptions import AutoSubscription, Subscription, TopicPartition

_log: Final = logging.getLogger("streamactors.kafka")
GROUP_CHECK_MS: Final = 250.0
SAY_AFTER_MS: Final = 5_000.0
MOST_POLLS: Final = 10
"""The consumer's thread polls so often, for half a second each, to find out whether a record is behind what the group has committed."""


class ReadInRun(set[tuple[str | None, TopicPartition]]):
    """The groups and partitions that the consumers of a run have read to their ends."""


class BoundedRead:
    """See the module. `in_run`: None for a source that is started again when it fails; the run goes on then."""

    def __init__(self, shared: Shared, subscription: Subscription, in_run: ReadInRun | None = None) -> None:
        self._shared = shared
        self._subscription = subscription
        self._in_run = ReadInRun() if in_run is None else in_run
        self._may_get_more = isinstance(subscription, AutoSubscription) and _assigns_step_by_step(shared.settings)
        self._ends_of_group: dict[TopicPartition, int] | None = None
        self._behind: dict[TopicPartition, int] = {}  # what the group had committed of the others at the last check
        self._rest_is_empty: bool | None = None  # whether no record lies behind that; None: not looked
        self._next_check_ms = 0.0
        self._say_ms = 0.0
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
            if not partitions and self._may_get_more and not self._group_is_done():
                return
            self._end_told = True
            self._in_run.update(self._names(state.partitions))
            source = shared.source
            source.post(source.on_end, [(p.key, p.epoch, _end_of(p)) for p in partitions])

    def _group_is_done(self) -> bool:
        """Return whether the group has committed everything up to the ends at the first call. Asks the broker now and then."""
        shared, client, now = self._shared, self._shared.client, self._shared.now_ms()
        if client is None or now < self._next_check_ms:
            return False
        self._next_check_ms = now + GROUP_CHECK_MS
        try:
            if self._ends_of_group is None:
                self._ends_of_group = client.stable_ends(partitions_of(self._subscription, client))
                self._say_ms = now + SAY_AFTER_MS
            done = not self._ends_of_group or self._all_committed(client, self._ends_of_group)
        except ConsumerFailed:
            raise  # the topics must not be read
        except KafkaError:
            return False  # the broker is away
        if not done and now >= self._say_ms:
            self._say_ms = float("inf")
            _log.warning(
                "group %s: this consumer has no partitions. It ends when other members have committed the rest of %s, or reads it itself "
                "when they have left",
                shared.settings.group_id,
                ", ".join(map(str, sorted(self._behind)[:5])),
            )
        return done

    def _all_committed(self, client: StreamConsumer, ends: dict[TopicPartition, int]) -> bool:
        committed = client.committed(ends)
        if self._shared.settings.auto_offset_reset == "latest":
            committed = {**ends, **committed}  # without a commit nobody reads what is there
        others = [key for key in ends if (self._shared.settings.group_id, key) not in self._in_run]
        behind = {key: at for key in others if (at := committed.get(key, 0)) < ends[key]}
        if behind != self._behind:
            self._behind, self._rest_is_empty = behind, None
        elif self._rest_is_empty is None:  # the group commits no more: behind a marker of a transaction nobody does
            polls = list(range(MOST_POLLS))
            found = any_record(self._shared.settings, behind, ends, lambda: bool(polls and polls.pop()))
            self._rest_is_empty = not found if polls else None  # the broker is slow: once more
        return not behind or bool(self._rest_is_empty)


def _assigns_step_by_step(settings: ConsumerSettings) -> bool:
    properties = settings.client_properties()
    assignors = str(properties.get("partition.assignment.strategy", ""))
    return "cooperative" in assignors or str(properties.get("group.protocol", "")).lower() == "consumer"


def _end_of(partition: AssignedPartition) -> int:
    return max(partition.stop_at or 0, partition.position or 0)
