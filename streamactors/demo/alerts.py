"""Graph (b): alerts for delayed or cancelled departures, and their ends: RxPY between Kafka and Kafka, one stream per origin.

It reads `departures-by-hour` from the beginning and keys its records by origin and hour, so that running it again writes the
same keys again: the last value of each key is the table."""

from __future__ import annotations

import json
from typing import Any, Final, NamedTuple

import reactivex.operators as rx

from streamactors import Flow, Keep, KillSwitches, NotUsed, RunnableGraph, StreamFuture
from streamactors.demo.hours import Hour
from streamactors.demo.topics import ALERTS, HOURS, PARTITIONS, consumer, producer
from streamactors.kafka import Consumer, ConsumerRecord, Control, Producer, ProducerRecord, Subscriptions

NAME: Final = "alerts"
CANCELLED_SHARE: Final = 0.25
MEAN_DELAY_MINUTES: Final = 60.0


class State(NamedTuple):
    """The state of an origin from this hour on. `cause`: cancellations or delays; None while departures are normal."""

    origin: str
    hour_ms: int
    cause: str | None


class Alert(NamedTuple):
    """An origin's state changed with this hour."""

    origin: str
    hour_ms: int
    cause: str | None
    was: str | None

    def to_record(self) -> ProducerRecord:
        """Return the alert as a record, keyed by origin and hour."""
        value = json.dumps(self._asdict(), separators=(",", ":"))
        return ProducerRecord(ALERTS, value, f"{self.origin}|{self.hour_ms}", None, self.hour_ms)

    @classmethod
    def from_json(cls, raw: bytes) -> Alert:
        """Return the alert in a record's value."""
        return cls(**json.loads(raw))


def graph(bootstrap: str) -> RunnableGraph[tuple[tuple[Control, Any], StreamFuture[None]]]:
    """Read to the end of `departures-by-hour`. Materializes the consumer's control, a kill switch and the end."""
    partitions = PARTITIONS[HOURS]
    from_the_beginning = Subscriptions.assignment_with_offset({(HOURS, n): 0 for n in range(partitions)})
    return (
        Consumer.plain_partitioned_source(consumer(bootstrap, NAME), from_the_beginning, until="end")
        .flat_map_merge(partitions, lambda origin: origin[1].map(hour_of).via(alerts_of_an_origin()))
        .via_mat(KillSwitches.single(), Keep.both)
        .map(Alert.to_record)
        .to_mat(Producer.plain_sink(producer(bootstrap)).named("write alerts"), Keep.both)
        .named(NAME)
    )


def hour_of(record: ConsumerRecord) -> Hour:
    """Return the hour in a record."""
    return Hour.from_json(record.value or b"")


def alerts_of_an_origin() -> Flow[Hour, Alert, NotUsed]:
    """Return the changes of one origin's state, hour by hour. The state before the first hour is normal."""
    return Flow.rx(
        rx.map(state_of),
        rx.start_with(State("", 0, None)),
        rx.distinct_until_changed(cause),
        rx.pairwise(),
        rx.map(alert_of),
    )


def state_of(hour: Hour) -> State:
    """Return the state of an hour."""
    return State(hour.origin, hour.hour_ms, cause_of(hour))


def cause(state: State) -> str | None:
    """Return the part of a state whose change makes an alert."""
    return state.cause


def alert_of(states: tuple[State, State]) -> Alert:
    """Return the alert between two states that differ."""
    before, now = states
    return Alert(now.origin, now.hour_ms, now.cause, before.cause)


def cause_of(hour: Hour) -> str | None:
    """Return the cause of an alert in an hour; None if departures were normal."""
    if hour.cancelled >= CANCELLED_SHARE * hour.flights:
        return "cancellations"
    if hour.mean_delay is not None and hour.mean_delay >= MEAN_DELAY_MINUTES:
        return "delays"
    return None
