"""Where partitions without a committed offset begin, for a subscription that starts at a time.

A partition whose group has committed continues there. The look-up happens at each assignment: until the first commit, the next owner of a partition
finds the same place."""

from __future__ import annotations

from collections.abc import Iterable

from streamactors.kafka.client.consumer import StreamConsumer
from streamactors.kafka.settings import ConsumerSettings
from streamactors.kafka.subscriptions import AutoSubscription, Subscription, TopicPartition


def starts_by_time(
    client: StreamConsumer, settings: ConsumerSettings, subscription: Subscription, keys: Iterable[TopicPartition]
) -> dict[TopicPartition, int]:
    """Return the first offsets at or after the subscription's time, of partitions without a committed offset; the end of a partition without
    such a record. Nothing for a subscription without a time. Waits for the broker. Raises KafkaError."""
    start_ms = subscription.start_ms if isinstance(subscription, AutoSubscription) else None
    if start_ms is None:
        return {}
    wanted = list(keys)
    committed = client.committed(wanted) if settings.group_id and wanted else {}
    new = [key for key in wanted if key not in committed]
    if not new:
        return {}
    found = client.offsets_at(dict.fromkeys(new, start_ms))
    none = [key for key, offset in found.items() if offset < 0]
    ends = {key: end for key, (_, end) in client.watermarks(none).items()} if none else {}
    return {key: ends.get(key, offset) for key, offset in found.items()}
