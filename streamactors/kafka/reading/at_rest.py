"""Tells a virtual clock when a consumer is at rest: no record that its stream has asked for is on its way.

librdkafka has threads and timers of its own, and runs by real time. `VirtualClock.advance` therefore asks the consumer, which is at rest when

- it has its first assignment, and has polled since the clock moved last,
- every partition for which its stream has demand has been read to the broker's current end.

The broker is asked for the ends when `advance` begins and ends, and whenever a stream has worked since the last answer. A separate client asks,
because on the consumer's connection the request would wait for a Fetch. `at_rest` runs on the thread that moves the clock, everything else
on the actor's thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from streamactors.actors.dispatching.dispatcher import Dispatcher
from streamactors.clock import VirtualClock
from streamactors.kafka.client.admin import LATEST, Admin
from streamactors.kafka.errors import KafkaError
from streamactors.kafka.reading.consumer_context import ConsumerContext
from streamactors.kafka.subscriptions import TopicPartition


class ConsumerRest:
    """Tells a virtual clock when the consumer is at rest. It also has the timer of the polls, in real time, because librdkafka expects polls in real time."""

    def __init__(self, clock: VirtualClock, context: ConsumerContext, joined: Callable[[], bool]) -> None:
        self.name = f"consumer {context.settings.group_id or ''}".strip()
        self._clock = clock
        self._context = context
        self._joined = joined
        self._reading = self._closing = False
        self._admin: Admin | None = None
        self._timers = Dispatcher(f"polls of {self.name}")
        self._polled_at_ms = float("-inf")
        self._handed_over = 0
        self._answered: tuple[Any, ...] | None = None

    def begin(self) -> None:
        """The consumer reads from now on."""
        self._reading = True
        self._clock.attach_outside(self)

    def call_later(self, delay_ms: float, fn: Callable[[], None]) -> Any:
        """Call `fn` in `delay_ms` of real time."""
        return self._timers.call_later(delay_ms, fn)

    def polled(self, began_ms: float, *, brought: bool) -> None:
        """A poll that began at this virtual time has ended, and its records are delivered."""
        self._handed_over += brought
        self._polled_at_ms = began_ms

    def closing(self) -> None:
        """The client is about to close. Virtual time does not move meanwhile: the close has a deadline."""
        self._closing = self._reading

    def end(self) -> None:
        """The client is closed."""
        self._reading = self._closing = False
        self._admin = None
        self._clock.detach_outside(self)
        self._timers.stop()

    def at_rest(self) -> int | None:
        """See `streamactors.clock.Outside`."""
        handed_over = self._handed_over
        if self._closing:
            return None
        if not self._reading or self._context.stopping:
            return handed_over
        if not self._joined():
            return None
        if not self._context.state.starving:
            return handed_over  # the buffers have what the stream asks for next
        if self._polled_at_ms < self._clock.now_ms():
            return None
        work = (handed_over, *self._clock.work_of_streams())
        if work != self._answered:
            if not self._read_to_the_ends():
                return None
            self._answered = work
        return handed_over

    def _read_to_the_ends(self) -> bool:
        wanted: dict[TopicPartition, int] = {}
        state = self._context.state
        for key, partition in list(state.partitions.items()):
            if (
                partition.paused
                or partition.chunks
                or state.pausing.silences(key)
                or not state.demand.get(partition.feed)
            ):
                continue  # no record is on its way: the partition waits for its stream or for virtual time
            if partition.fetched is None:
                return False
            wanted[key] = partition.fetched
        settings = self._context.settings
        admin = self._admin = self._admin or Admin(settings)  # the consumer may end meanwhile, on its thread
        committed = settings.client_properties().get("isolation.level") != "read_uncommitted"
        try:
            ends = admin.offsets(dict.fromkeys(wanted, LATEST), committed=committed)
        except KafkaError:
            return False
        return all(fetched >= ends[key] for key, fetched in wanted.items())
