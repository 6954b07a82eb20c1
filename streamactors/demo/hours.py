"""Graph 2: departures per origin and scheduled hour, each hour once, after its window has closed.

Event time is the scheduled departure, and a flight is in the stream where it really left: its delay is its lateness. An hour
is final two hours of event time after its end. Results, late flights, the state's changelog and the read positions are
committed in one transaction, so a restart repeats nothing and forgets nothing."""

from __future__ import annotations

import json
from functools import partial
from typing import Any, Final, NamedTuple

from streamactors import Flow, Keep, RunnableGraph, StreamFuture
from streamactors.demo.flight import PARTITION_OF, Flight
from streamactors.demo.topics import FLIGHTS, FLIGHTS_DEAD, HOURS, LATE, consumer, producer
from streamactors.kafka import Consumer, Control, DeadLetters, ProducerRecord, Subscriptions, Transactional
from streamactors.windows import BufferConfig, LateRecord, Suppressed, TimeWindows, WindowedRecord

NAME: Final = "hours"
GRACE: Final = "2h"
Totals = tuple[int, int, int]
"""Flights, cancelled ones, and the minutes of delay of those that left."""


class Hour(NamedTuple):
    """One origin's departures of one scheduled hour: what a record of `departures-by-hour` holds."""

    origin: str
    hour_ms: int
    flights: int
    cancelled: int
    mean_delay: float | None

    def to_json(self) -> bytes:
        """Return the hour as a record's value."""
        return json.dumps(self._asdict(), separators=(",", ":")).encode()

    @classmethod
    def from_json(cls, raw: bytes) -> Hour:
        """Return the hour in a record's value."""
        return cls(**json.loads(raw))


def graph(
    bootstrap: str, name: str = NAME, into: str = HOURS, late_into: str = LATE
) -> RunnableGraph[tuple[Control, StreamFuture[None]]]:
    """Read to the end of `flights`. `name`: of the group and the transactions; hours go to topic `into`, late flights to `late_into`."""
    into_topic = Transactional.sink(producer(bootstrap).with_transactional_id(name))
    return (
        Consumer.records(
            # a name of its own in the group: after a crash it is let in at once, not when its old self has timed out
            consumer(bootstrap, name).with_property("group.instance.id", name),
            Subscriptions.topics(FLIGHTS),
            key="string",
            value=Flight.from_json,
            dead_letters=DeadLetters(FLIGHTS_DEAD, producer(bootstrap)),
            until="end",
        )
        .group_by_key()
        .windowed_by(
            TimeWindows.of_size("1h").with_grace(GRACE), late=Flow.map(partial(late_record, late_into)).to(into_topic)
        )
        .aggregate(lambda: (0, 0, 0), add, name="by-hour")
        .suppress(Suppressed.until_window_closes(BufferConfig.unbounded()))
        .to_stream()
        .map(partial(hour_record, into))
        .to_mat(into_topic, Keep.both)
        .named(name)
    )


def add(totals: Totals, flight: Flight) -> Totals:
    """Count a flight."""
    flights, cancelled, delays = totals
    if flight.dep_delay is None:
        return flights + 1, cancelled + 1, delays
    return flights + 1, cancelled, delays + flight.dep_delay


def hour_record(topic: str, window: WindowedRecord) -> ProducerRecord:
    """Return a closed window as a record, in its origin's partition."""
    flights, cancelled, delays = window.value
    left = flights - cancelled
    hour = Hour(window.key, window.start, flights, cancelled, delays / left if left else None)
    return ProducerRecord(topic, hour.to_json(), hour.origin, PARTITION_OF[hour.origin], window.start)


def late_record(topic: str, late: LateRecord) -> ProducerRecord:
    """Return a flight whose hour was over as a record."""
    flight: Any = late.record.value
    return ProducerRecord(topic, flight.to_json(), flight.origin, PARTITION_OF[flight.origin], late.record.timestamp)
