"""Rebalances as the application sees them: callbacks inside a poll, and what is assigned if they assign nothing.

Owner: the consumer. As confluent-kafka: a callback may call `assign` and its like itself; else the change is made after it. `on_lost` is called for
partitions that the group has taken away already; without it `on_revoke` is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from streamactors.kafka.client.connection import ck
from streamactors.simulation.client.reading.ready import Callback

if TYPE_CHECKING:
    from streamactors.simulation.client.consumer import SimConsumer

Key = tuple[str, int]


class Rebalance(NamedTuple):
    """One callback. `step_by_step`: a cooperative change, of these partitions only. `then` is called after it."""

    assigns: bool
    keys: Sequence[Key]
    then: Callable[[], None]
    lost: bool = False
    step_by_step: bool = False


class Rebalances:
    """The callbacks of one consumer."""

    def __init__(self, consumer: SimConsumer) -> None:
        self._consumer = consumer
        self._listeners: dict[str, Callable[[Any, Any], Any] | None] = {}
        self.changed = False
        """Whether the application has assigned something itself, inside the callback."""
        self.assigned: set[Key] = set()
        """What the group has given to this member."""
        self.waiting = 0

    def listen(self, **listeners: Callable[[Any, Any], Any] | None) -> None:
        """Take the callbacks: on_assign, on_revoke, on_lost."""
        self._listeners = listeners

    def put(self, rebalance: Rebalance) -> None:
        """Run a callback at the next poll. Nothing is delivered before."""
        consumer = self._consumer
        consumer.world.event(
            "assigned" if rebalance.assigns else "lost" if rebalance.lost else "revoked",
            group=consumer.group_id, client=consumer.name, partitions=[f"{topic}-{partition}" for topic, partition in rebalance.keys],
        )  # fmt: skip
        consumer.fetcher.hold()
        self.waiting += 1
        consumer.ready.put(Callback(lambda: self._run(rebalance)))

    def _run(self, rebalance: Rebalance) -> None:
        name = "on_assign" if rebalance.assigns else "on_revoke"
        listener = self._listeners.get(name)
        if rebalance.lost and self._listeners.get("on_lost") is not None:
            listener = self._listeners["on_lost"]
        self.changed = False
        try:
            if listener is not None:
                listener(self._consumer, [ck.TopicPartition(*key) for key in rebalance.keys])
        finally:
            self.waiting -= 1
            if not self.changed:
                self._apply(rebalance)
            (self.assigned.update if rebalance.assigns else self.assigned.difference_update)(rebalance.keys)
            if not self.waiting:
                self._consumer.fetcher.release()
            rebalance.then()

    def _apply(self, rebalance: Rebalance) -> None:
        readings = self._consumer.fetcher.readings
        keys: Iterable[Key] = rebalance.keys
        if rebalance.assigns:
            if not rebalance.step_by_step:
                self._consumer.fetcher.remove(list(readings))
            new = {key: ck.OFFSET_INVALID for key in keys if key not in readings}
            self._consumer.fetcher.add(new)
        else:
            self._consumer.fetcher.remove(keys if rebalance.step_by_step else list(readings))
