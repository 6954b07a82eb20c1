"""The two functions that a user gives to a manual-offset source, and the check of what the first one returns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from streamactors.kafka.errors import ConsumerFailed
from streamactors.kafka.subscriptions import TopicPartition

OffsetsOnAssign = Callable[[set[TopicPartition]], Any]
"""Gets the assigned partitions; returns {partition: offset to begin at}, or a future or coroutine of it."""

OnRevoke = Callable[[set[TopicPartition]], object]


def checked_offsets(found: Any) -> dict[TopicPartition, int]:
    """Return the offsets that a look-up has found. Raises ConsumerFailed naming what is not an offset."""
    if not isinstance(found, Mapping):
        raise ConsumerFailed(
            f"get_offsets_on_assign must return {{(topic, partition): offset}}, or a future of it, got {type(found).__name__}"
        )
    offsets = {}
    for key, offset in found.items():
        if (
            not (isinstance(key, tuple) and len(key) == 2)
            or isinstance(offset, bool)
            or not isinstance(offset, int)
            or offset < 0
        ):
            raise ConsumerFailed(
                f"get_offsets_on_assign: {key!r}: {offset!r} is no (topic, partition): offset, an integer of at least 0"
            )
        offsets[TopicPartition(*key)] = offset
    return offsets
