"""The part of a Kafka source that begins where the owner of its positions says (streamactors.engine.ownership).

Owner: the source stage; everything here runs on its island, but for the look-ups, which wait for the broker on the owner's thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from streamactors.kafka.consumer_state import Delivery
from streamactors.kafka.owned_partitions import Offsets, reading_settings
from streamactors.kafka.replayed_range import ReplayedRange
from streamactors.kafka.settings import ConsumerSettings
from streamactors.kafka.subscriptions import ManualSubscription, Subscription, TopicPartition

StartActor = Callable[[ConsumerSettings, Subscription], None]
TellPause = Callable[[tuple[TopicPartition, ...], bool], None]


class OwnedStart:
    """Starts the consumer when told where; while a range is repeated, holds each partition at its end until all are there."""

    def __init__(self, settings: ConsumerSettings, start: StartActor, pause: TellPause) -> None:
        self._settings = settings
        self._start = start
        self._pause = pause
        self._range: ReplayedRange | None = None
        self._paused: set[TopicPartition] = set()
        self.begun = False

    def begin(self, where: tuple[Offsets, Offsets | None, bool]) -> None:
        """The owner has spoken."""
        starts, until, skip_lost = where
        if self.begun:
            return
        self.begun = True
        if until is not None:
            replayed = ReplayedRange(starts, until)
            self._range = None if replayed.complete else replayed
        self._start(reading_settings(self._settings, skip_lost), ManualSubscription(tuple(starts), offsets=starts))

    def positions(self, places: list[tuple[TopicPartition, int, int]]) -> list[tuple[TopicPartition, int, int]]:
        """Return the positions to say first. A range that retention has taken away altogether is at its end at once."""
        replayed = self._range
        return places if replayed is None else [(key, epoch, replayed.clipped(key, at)) for key, epoch, at in places]

    def admit(self, delivery: Delivery) -> list[Delivery]:
        """Records have come; return what may go on."""
        if self._range is None:
            return [delivery]
        return self._looked(delivery.key, self._range.take(delivery))

    def at_end(self, stage: Any, key: TopicPartition, epoch: int) -> list[Delivery]:
        """A partition has nothing further now; return what may go on."""
        if self._range is None:
            return []
        return self._looked(key, self._range.at_end(stage, key, epoch))

    def _looked(self, key: TopicPartition, going_on: list[Delivery]) -> list[Delivery]:
        replayed = self._range
        assert replayed is not None
        if replayed.complete:
            self._range = None
            if self._paused:
                self._pause(tuple(self._paused), False)
                self._paused.clear()
        elif replayed.reached(key) and key not in self._paused:
            self._paused.add(key)  # what it has beyond its end is not to pile up
            self._pause((key,), True)
        return going_on
