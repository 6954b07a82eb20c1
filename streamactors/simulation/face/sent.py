"""The records that a test sends: what they are, when they are sent, and which id each has.

Owner: the simulation of one run. A producer outside of all instances sends them, in their order, over a span of virtual time."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from streamactors.kafka.producer_record import ProducerRecord
from streamactors.simulation.client.producer import SimProducer
from streamactors.simulation.face.parts import SERVERS
from streamactors.simulation.face.verdict import Keys

if TYPE_CHECKING:
    from streamactors.simulation.face.parts import Parts

_MOMENTS: Final = 100
"""At most so many times a topic's records are sent at."""


class Sent(NamedTuple):
    """A record that was sent. `id`: what `sim.sent` has of it. `planned` is False for one that a fault has added."""

    id: Any
    record: ProducerRecord
    value: Any
    planned: bool = True


class Sending:
    """The records of all topics of a run."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self.declared = 0
        self.topics: dict[str, list[Sent]] = {}
        self.waiting = 0
        """Records that the cluster has not stored yet."""
        self.ids: dict[Any, None] = {}
        """The ids of all planned records, in their order."""

    @property
    def places(self) -> dict[Any, tuple[str, int, int]]:
        """Where the planned records are: id -> topic, partition, offset."""
        return self._parts.places

    @property
    def keys(self) -> Keys:
        """The ids of the records that are sent."""
        return Keys(self.ids)

    def send(self, topic: str, records: Iterable[Any], over_ms: float, key: Callable[[Any], Any] | None) -> None:
        """Send records over a span of time, at moments that dice choose. Returns at once."""
        planned = []
        for given in records:
            kept = self._parts.case.records
            if kept is None or self.declared in kept:
                planned.append(_sent(topic, given, key))
            self.declared += 1
        prepared = self._parts.plan.prepared(topic, [sent.record for sent in planned])
        of = {id(sent.record): sent for sent in planned}
        every = [of.get(id(record)) or Sent(None, record, None, planned=False) for record in prepared]
        self.topics.setdefault(topic, []).extend(every)
        self.ids.update((sent.id, None) for sent in planned)
        self.waiting += len(every)
        if every:
            dice = random.Random(f"{self._parts.case.seed}/sending/{topic}")
            times = sorted(dice.uniform(0, over_ms) for _ in range(min(len(every), _MOMENTS)))
            world = self._parts.world
            world.later(0, lambda: self._produce(every, times), f"records of {topic}")

    def _produce(self, records: list[Sent], times: list[float]) -> None:
        world = self._parts.world
        producer = SimProducer(
            world, self._parts.cluster,
            {"bootstrap.servers": SERVERS, "enable.idempotence": True, "linger.ms": 0, "delivery.timeout.ms": 2**31 - 1},
        )  # fmt: skip
        begin, done = world.now_ms(), 0
        for number, at in enumerate(times, 1):
            world.sleep(begin + at - world.now_ms())
            upto = len(records) * number // len(times)
            for sent in records[done:upto]:
                self._send(producer, sent)
            done = upto
            producer.poll(0)
        producer.flush()

    def _send(self, producer: SimProducer, sent: Sent) -> None:
        record = sent.record

        def stored(error: Any, message: Any) -> None:
            self.waiting -= 1
            if error is None and sent.planned:
                self._parts.places[sent.id] = (message.topic(), message.partition(), message.offset())

        producer.produce(
            record.topic, record.value, record.key, -1 if record.partition is None else record.partition,
            on_delivery=stored, timestamp=record.timestamp or 0, headers=list(record.headers or ()),
        )  # fmt: skip


def _sent(topic: str, given: Any, key: Callable[[Any], Any] | None) -> Sent:
    """Return the record of a value, of (key, value), or of a ProducerRecord; its id is `key(value)`, or else its key, or else its value."""
    if isinstance(given, ProducerRecord):
        named, value, record = (
            given.key,
            given.value,
            given._replace(topic=topic, value=as_bytes(given.value), key=as_bytes(given.key)),
        )
    else:
        named, value = given if isinstance(given, tuple) and len(given) == 2 else (None, given)
        record = ProducerRecord(topic, as_bytes(value), as_bytes(named))
    if key is not None:
        return Sent(key(value), record, value)
    return Sent(_id(value if named is None else named), record, value)


def _id(value: Any) -> Any:
    try:
        hash(value)
    except TypeError:
        return as_bytes(value)
    return value


def as_bytes(value: Any) -> bytes | None:
    """Return bytes as they are, a string or a number as text, None as null, and everything else as JSON with sorted names."""
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode()
    return json.dumps(value, sort_keys=True).encode()
