"""Graph (b): an alert where departures go wrong, and its end: RxPY between Kafka and Kafka, a stream for each origin.

It reads `departures-by-hour` from the beginning and keys its records by origin and hour, so that running it again writes the
same keys again: the last value of each key is the table."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

import reactivex.operators as rx

from streamactors import Keep, KillSwitches, RunnableGraph, Source, StreamFuture
from streamactors.demo.hours import Hour
from streamactors.demo.topics import ALERTS, HOURS, PARTITIONS, consumer, producer
from streamactors.kafka import Consumer, ConsumerRecord, Control, Producer, ProducerRecord, Subscriptions

NAME: Final = "alerts"
CANCELLED_SHARE: Final = 0.25
MEAN_DELAY_MINUTES: Final = 60.0


class State(NamedTuple):
    """How departures go from this hour on. `cause`: cancellations or delays, None while all is well."""

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


def graph(bootstrap: str, counted: Callable[[int], Any]) -> RunnableGraph[tuple[Any, StreamFuture[None]]]:
    """Read to the end of `departures-by-hour`. Materializes a kill switch and the end; tells `counted` how many hours were read."""
    first, *others = (alerts_of(bootstrap, partition, counted) for partition in range(PARTITIONS[HOURS]))
    return (
        first.merge(*others)
        .via_mat(KillSwitches.single(), Keep.right)
        .map(Alert.to_record)
        .to_mat(Producer.plain_sink(producer(bootstrap)), Keep.both)
    )


def alerts_of(bootstrap: str, partition: int, counted: Callable[[int], Any]) -> Source[Alert, Control]:
    """Return the alerts of one partition's origin."""
    from_the_beginning = Subscriptions.assignment_with_offset({(HOURS, partition): 0})

    def hours_of(records: list[ConsumerRecord]) -> Iterator[Hour]:
        counted(len(records))
        return (Hour.from_json(record.value or b"") for record in records)

    return (
        Consumer.plain_source(consumer(bootstrap, NAME), from_the_beginning, until="end")
        .map_chunks(hours_of)
        .rx(
            rx.map(lambda hour: (hour.origin, State(hour.hour_ms, cause_of(hour)))),
            rx.start_with(("", State(0, None))),
            rx.distinct_until_changed(lambda pair: pair[1].cause),
            rx.pairwise(),
            rx.map(lambda turn: Alert(turn[1][0], turn[1][1].hour_ms, turn[1][1].cause, turn[0][1].cause)),
        )
    )


def cause_of(hour: Hour) -> str | None:
    """Return what is wrong with an hour, None if nothing is."""
    if hour.cancelled >= CANCELLED_SHARE * hour.flights:
        return "cancellations"
    if hour.mean_delay is not None and hour.mean_delay >= MEAN_DELAY_MINUTES:
        return "delays"
    return None
