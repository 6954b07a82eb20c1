"""GroupEnd: whether a group has read everything, for the bounded read of a consumer that has no partitions.

What another consumer of the same run has read to its end is not waited for: it may be committed only when the run ends.
Owner: the consumer actor."""

from __future__ import annotations

import logging
from typing import Final

from streamactors.kafka.client.consumer import StreamConsumer
from streamactors.kafka.client.offsets.unread import Unread
from streamactors.kafka.errors import ConsumerFailed, KafkaError
from streamactors.kafka.reading.assignment.start_positions import partitions_of
from streamactors.kafka.reading.assignment.start_time import starts_by_time
from streamactors.kafka.reading.consumer_context import ConsumerContext
from streamactors.kafka.settings import ConsumerSettings
from streamactors.kafka.subscriptions import AutoSubscription, Subscription, TopicPartition

_log: Final = logging.getLogger("streamactors.kafka")
GROUP_CHECK_MS: Final = 250.0
SAY_AFTER_MS: Final = 5_000.0
MOST_LOOKS: Final = 20
"""After this many checks the consumer looks for a record after the committed offsets, and starts to count again."""


class ReadInRun(set[tuple[str | None, TopicPartition]]):
    """The groups and partitions that the consumers of a run have read to their ends."""


class GroupEnd:
    """Tells whether the group of a bounded read has read everything."""

    def __init__(self, context: ConsumerContext, subscription: Subscription, in_run: ReadInRun) -> None:
        self._context = context
        self._subscription = subscription
        self._in_run = in_run
        self._ends: dict[TopicPartition, int] | None = None
        self._behind: dict[TopicPartition, int] = {}  # what the group had committed of the others at the last check
        self._rest_is_empty: bool | None = None  # whether no record follows; None: not known
        self._unread: Unread | None = None  # looks for one
        self._looks = 0
        self._next_check_ms = 0.0
        self._say_ms = 0.0

    def is_reached(self) -> bool:
        """Return whether the group has committed everything up to the ends at the first call. Asks the broker now and then."""
        context, client, now = self._context, self._context.client, self._context.now_ms()
        if client is None or now < self._next_check_ms:
            return False
        self._next_check_ms = now + GROUP_CHECK_MS
        try:
            if self._ends is None:
                self._ends = client.stable_ends(partitions_of(self._subscription, client))
                self._say_ms = now + SAY_AFTER_MS
            done = not self._ends or self._all_committed(client, self._ends)
        except ConsumerFailed:
            raise  # the topics must not be read
        except KafkaError:
            return False  # the broker is away
        if not done and now >= self._say_ms:
            self._say_ms = float("inf")
            _log.warning(
                "group %s: this consumer has no partitions. It ends when other members have committed the rest of %s, or reads it itself "
                "when they have left",
                context.settings.group_id,
                ", ".join(map(str, sorted(self._behind)[:5])),
            )
        return done

    def _all_committed(self, client: StreamConsumer, ends: dict[TopicPartition, int]) -> bool:
        committed = client.committed(ends)
        settings, subscription = self._context.settings, self._subscription
        if isinstance(subscription, AutoSubscription) and subscription.start_ms is not None:
            missing = ends.keys() - committed.keys()
            committed |= starts_by_time(client, settings, subscription, missing)  # no member reads what is before it
        elif settings.auto_offset_reset == "latest":
            committed = {**ends, **committed}  # without a commit no member reads what is there
        others = [key for key in ends if (self._context.settings.group_id, key) not in self._in_run]
        behind = {key: at for key in others if (at := committed.get(key, 0)) < ends[key]}
        if behind != self._behind:
            self._behind, self._rest_is_empty = behind, None
            self.close()
        elif behind and self._rest_is_empty is None:
            # The group has committed nothing since the last check. Perhaps only transaction markers are left: a consumer that has read
            # the last record commits the offset before the marker.
            self._rest_is_empty = self._look(behind, ends)
        return not behind or bool(self._rest_is_empty)

    def _look(self, begins: dict[TopicPartition, int], ends: dict[TopicPartition, int]) -> bool | None:
        """Return whether no record lies there; None if that is not known yet. Does not wait: librdkafka fetches until the next check."""
        if self._unread is None:
            self._unread, self._looks = Unread(self._context.settings, begins, ends), MOST_LOOKS
        found = self._unread.found(0)
        self._looks -= 1
        if found is not None or not self._looks:
            self.close()
        return None if found is None else not found

    def close(self) -> None:
        """Look no longer."""
        unread, self._unread = self._unread, None
        if unread is not None:
            unread.close()


def assigns_step_by_step(settings: ConsumerSettings) -> bool:
    """Whether a member may get partitions later than at its first assignment."""
    assignors = str(settings.client_properties().get("partition.assignment.strategy", ""))
    return "cooperative" in assignors or settings.group_protocol == "consumer"
