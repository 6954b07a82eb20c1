"""New partitions of a source whose positions a sink of the run owns: no group assigns them, so the consumer looks for them by itself.

Owner: the consumer actor. They are read from their beginning."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from streamactors.kafka.errors import KafkaError
from streamactors.kafka.reading.assignment.rebalances import Rebalances
from streamactors.kafka.reading.assignment.start_positions import partitions_of
from streamactors.kafka.reading.consumer_context import ConsumerContext
from streamactors.kafka.subscriptions import AutoSubscription, Subscription, TopicPartition

REFRESH_PROPERTY: Final = "topic.metadata.refresh.interval.ms"
REFRESH_MS: Final = 30_000


class LookForPartitions:
    """Message to the actor itself: the refresh interval has passed."""


_LOOK = LookForPartitions()


class NewPartitions:
    """Looks for partitions of the subscription `wanted`; `poll_soon` is called when there are some."""

    def __init__(
        self, context: ConsumerContext, wanted: Subscription, rebalances: Rebalances, poll_soon: Callable[[], None]
    ) -> None:
        self._context = context
        self._wanted = wanted
        self._rebalances = rebalances
        self._poll_soon = poll_soon
        self._refresh_ms = float(context.settings.properties.get(REFRESH_PROPERTY, REFRESH_MS))

    def begin(self, starts: dict[TopicPartition, int]) -> None:
        """Tell the source where the first partitions begin, and look for others from time to time."""
        self._tell_positions(starts)
        self._look_later()

    def _tell_positions(self, starts: dict[TopicPartition, int]) -> None:
        known, source = self._context.state.partitions, self._context.source
        source.post(source.on_positions, [(key, known[key].epoch, place) for key, place in starts.items()])

    def _look_later(self) -> None:
        context = self._context
        if isinstance(self._wanted, AutoSubscription) and not context.until_end and self._refresh_ms > 0:
            context.call_later(self._refresh_ms, lambda: context.tell(_LOOK))

    def on_look(self, _: LookForPartitions) -> None:
        context = self._context
        client = context.client
        if client is None or context.stopping:
            return
        try:
            new = [key for key in partitions_of(self._wanted, client) if key not in context.state.partitions]
            starts = {key: low for key, (low, _) in client.watermarks(new).items()}
        except KafkaError:
            starts = {}  # the broker is away; the next look finds them
        if starts:
            self._rebalances.on_assigned(list(starts))
            client.assign_more(starts)
            self._tell_positions(starts)
            self._poll_soon()
        self._look_later()
