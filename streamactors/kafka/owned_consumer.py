"""The consumer actor of a source whose positions somebody else owns: told where to begin, it finds new partitions by itself.

It stays until the run has ended, however long its owner takes, so that the group hears of the last position."""

from __future__ import annotations

import math
from typing import Any, Final

from streamactors.kafka.consumer_actor import ConsumerActor
from streamactors.kafka.consumer_messages import StageEnded, Start
from streamactors.kafka.errors import KafkaError
from streamactors.kafka.owned_partitions import partitions_of
from streamactors.kafka.subscriptions import AutoSubscription, Subscription, TopicPartition

REFRESH_PROPERTY: Final = "topic.metadata.refresh.interval.ms"
REFRESH_MS: Final = 30_000


class _LookForPartitions:
    """The actor's note to itself."""


_LOOK = _LookForPartitions()


class OwnedConsumerActor(ConsumerActor):
    """`wanted`: the subscription whose new partitions are picked up, from their beginning."""

    def __init__(self, *arguments: Any, wanted: Subscription, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._wanted = wanted
        self._handlers[_LookForPartitions] = self._on_look
        self._refresh_ms = float(self._settings.properties.get(REFRESH_PROPERTY, REFRESH_MS))

    def _on_start(self, start: Start) -> None:
        super()._on_start(start)
        self._tell_positions(dict(self._subscription.offsets))  # type: ignore[attr-defined]  # always an assignment
        self._look_later()

    def _on_stage_ended(self, message: StageEnded) -> None:
        super()._on_stage_ended(message)
        self._stop_by = math.inf

    def _tell_positions(self, starts: dict[TopicPartition, int]) -> None:
        known = self._state.partitions
        self._stage.post(self._stage.on_positions, [(key, known[key].epoch, place) for key, place in starts.items()])

    def _look_later(self) -> None:
        if isinstance(self._wanted, AutoSubscription) and not self._until_end and self._refresh_ms > 0:
            self._call_later(self._refresh_ms, self._look_from_outside)

    def _look_from_outside(self) -> None:
        if not self._ended.done():
            self.myAddress.tell(_LOOK)

    def _on_look(self, _: _LookForPartitions) -> None:
        client = self._client
        if client is None or self._stopping:
            return
        try:
            new = [key for key in partitions_of(self._wanted, client) if key not in self._state.partitions]
            starts = {key: low for key, (low, _) in client.watermarks(new).items()}
        except KafkaError:
            starts = {}  # the broker is away for a while; the next look will tell
        if starts:
            self._on_assigned(list(starts))
            client.assign_more(starts)
            self._tell_positions(starts)
            self._poll_now()
        self._look_later()
