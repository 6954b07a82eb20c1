"""Notices when librdkafka resets a partition to records that were read already, because the broker has lost later records. Pure.

Owner: the consumer actor, if its settings have a `ResetProtection`. After an unclean election, or while a broker restores its log, the position of a
consumer is beyond the end of the partition. librdkafka then resets the position by `auto.offset.reset`, and would read everything again. The
guard refuses those records, and the consumer seeks to its old position until the broker has that offset again. Source: Alpakka Kafka's
offset-reset-protection."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from streamactors.kafka.settings import ResetProtection
from streamactors.kafka.subscriptions import TopicPartition
from streamactors.log_limit import log_limited

_log = logging.getLogger("streamactors.kafka")

AGAIN_AFTER_MS: Final = 1_000.0
"""How long the consumer waits before it seeks to its position again."""


class _Read(NamedTuple):
    position: int  # after the last record that was read
    time_ms: float  # of that record; -inf if it is not known


class ResetGuard:
    """What has been read of each assigned partition, and which partitions were reset too far back."""

    def __init__(self, protection: ResetProtection) -> None:
        self._protection = protection
        self._read: dict[TopicPartition, _Read] = {}
        self._waiting: set[TopicPartition] = set()
        self._told: set[TopicPartition] = set()

    def assigned(self, committed: Mapping[TopicPartition, int]) -> None:
        """Partitions begin at their committed offsets."""
        for key, offset in committed.items():
            self.moved(key, offset)

    def revoked(self, keys: Iterable[TopicPartition]) -> None:
        """Forget partitions."""
        for key in keys:
            self._read.pop(key, None)
            self._waiting.discard(key)
            self._told.discard(key)

    def moved(self, key: TopicPartition, offset: int) -> None:
        """The consumer itself reads a partition from this offset on."""
        self._read[key] = _Read(offset, -math.inf)
        self._waiting.discard(key)

    def waits(self, key: TopicPartition) -> bool:
        """Whether a partition waits to seek to its position; until then its records are ignored."""
        return key in self._waiting

    def takes(self, key: TopicPartition, first: tuple[int, int], end: int, last_ms: int) -> bool:
        """Return whether records may be read: the first one's (offset, time in ms), the position after the last one, and its time."""
        if key in self._waiting:
            return False
        known = self._read.get(key)
        if known is not None and self._too_far_back(known, *first):
            self._waiting.add(key)
            if key not in self._told:
                self._told.add(key)
                log_limited(
                    _log,
                    logging.WARNING,
                    key,
                    "%s: the broker returns records from offset %d on, and this consumer has already read up to offset %d: the broker has lost records, or "
                    "the topic was created again. The records are ignored; every %g s the consumer asks for offset %d (reset_protection). To read "
                    "the partition from its beginning, remove reset_protection or reset the group's offsets",
                    key,
                    first[0],
                    known.position,
                    AGAIN_AFTER_MS / 1_000,
                    known.position,
                )
            return False
        if key in self._told:
            self._told.discard(key)
            log_limited(
                _log,
                logging.WARNING,
                key,
                "%s: the broker has offset %d again; the consumer continues to read",
                key,
                first[0],
            )
        self._read[key] = _Read(end, float(last_ms))
        return True

    def position(self, key: TopicPartition) -> int:
        """Return the position after the last record that was read."""
        return self._read[key].position

    def _too_far_back(self, known: _Read, offset: int, time_ms: int) -> bool:
        limits = self._protection
        if offset >= known.position:
            return False
        older_ms = known.time_ms - time_ms
        too_old = limits.max_time_back_ms is not None and older_ms > limits.max_time_back_ms
        return known.position - offset > limits.max_offsets_back or too_old
