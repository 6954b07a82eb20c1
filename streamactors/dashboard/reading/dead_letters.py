"""Finds topics of dead letters: those among whose last records are dead letters, with the newest reasons.

Owner: the thread of the cluster's reader. A topic is read again only when its end has moved."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from streamactors.dashboard.model import DeadLetter, DeadLettersState
from streamactors.dashboard.reading.graphs import short
from streamactors.kafka.client.ranges import RangeReader
from streamactors.kafka.dead_letters import StoredLetter
from streamactors.kafka.subscriptions import TopicPartition

LOOKED_AT: Final = 3
"""The last records of a partition that are looked at."""
MOST_TOPICS: Final = 50
MOST_SAMPLES: Final = 10

Offsets = Mapping[TopicPartition, int]


class DeadLettersLook:
    """Keeps what it has found by topic, with the ends at which it was found."""

    def __init__(self, reader: RangeReader) -> None:
        self._reader = reader
        self._known: dict[str, tuple[tuple[int, ...], DeadLettersState | None]] = {}

    def look(self, starts: Offsets, ends: Offsets) -> tuple[DeadLettersState, ...]:
        """Return the topics of dead letters. Reads the last records of topics that have moved. Raises the connector's errors."""
        topics: dict[str, list[TopicPartition]] = {}
        for key in sorted(ends):
            if not key.topic.startswith("__"):
                topics.setdefault(key.topic, []).append(key)
        known, self._known = self._known, {}
        for topic in list(topics)[:MOST_TOPICS]:
            at = tuple(ends[key] for key in topics[topic])
            if topic in known and known[topic][0] == at:
                self._known[topic] = known[topic]
                continue
            letters = [
                message
                for key in topics[topic]
                for chunk in self._reader.read(key, max(starts.get(key, 0), ends[key] - LOOKED_AT), ends[key])
                for message in chunk
            ]
            count = sum(ends[key] - starts.get(key, 0) for key in topics[topic])
            self._known[topic] = (at, letters_state(topic, count, letters))
        return tuple(state for _, state in self._known.values() if state is not None)

    def close(self) -> None:
        """Disconnect."""
        self._reader.close()


def letters_state(topic: str, count: int, messages: Iterable[Any]) -> DeadLettersState | None:
    """Return the state of a topic from its last messages; None if none of them is a dead letter. Pure."""
    found = [
        letter
        for message in messages
        if (letter := StoredLetter.read(message.key(), message.value(), message.headers() or ())) is not None
    ]
    if not found:
        return None
    samples = tuple(DeadLetter(short(letter.error), short(letter.stage)) for letter in found[-MOST_SAMPLES:])
    return DeadLettersState(topic, count, samples)
