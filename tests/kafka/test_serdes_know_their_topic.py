"""A serde of a schema registry derives its subject from the topic and from the side, key or value. Every place that reads or writes
records tells both, and the function for the key is not the one for the value."""

from __future__ import annotations

from typing import Any

import confluent_kafka
from confluent_kafka.serialization import Deserializer, Serializer

from streamactors import ActorSystem, Sink, Source
from streamactors.kafka import ConsumerSettings
from streamactors.kafka.producer_record import ProducerRecord
from streamactors.kafka.record import wrap
from streamactors.kafka.record_source import records
from streamactors.kafka.serdes.serdes import Serde, writing_function
from streamactors.kafka.state.topic_rows import TopicRows
from streamactors.kafka.state.topology_rows import reader_of
from streamactors.windows import Record
from streamactors.windows.topology.model import SourceNode


class Spells(Serializer, Deserializer):
    """Writes, or reads, the value with its topic and its side."""

    def __call__(self, value: Any, context: Any = None) -> Any:
        said = f"{value.decode() if isinstance(value, bytes) else value} of {context.topic} {context.field}"
        return said.encode() if isinstance(value, str) else said


SERDE = Serde.of(Spells(), Spells())
"""Texts become bytes, and bytes become texts."""
BYTES = confluent_kafka.Message(topic="a", partition=0, offset=5, key=b"k", value=b"v", timestamp=(1, 7))


def test_rows_of_a_topic_are_written_and_read_by_side() -> None:
    rows = TopicRows("to", "a", SERDE, SERDE)
    written = rows.write(Record("k", "v", 7))
    assert (written.key, written.value) == (b"k of a key", b"v of a value")
    [record] = wrap([b"v"], [BYTES])
    read = rows.read(record)
    assert (read.key, read.value) == ("k of a key", "v of a value")


def test_records_that_are_produced_are_serialised_by_side_and_topic() -> None:
    write = writing_function("Producer.plain_sink", SERDE, SERDE)
    assert write is not None
    for topic in ("a", "b", "a"):
        written = write(ProducerRecord(topic, "v", "k"))
        assert (written.key, written.value) == (f"k of {topic} key".encode(), f"v of {topic} value".encode())


def test_rows_of_a_topology_are_read_by_side() -> None:
    source = SourceNode("source", "a", key=SERDE, value=SERDE)
    [record] = wrap([b"v"], [BYTES])
    read = reader_of(source)(record)
    assert (read.key, read.value, read.timestamp) == ("k of a key", "v of a value", 7)


def test_records_of_a_source_are_read_by_side_and_topic(actor_system: ActorSystem) -> None:
    other = confluent_kafka.Message(topic="b", partition=0, offset=5, key=b"k", value=b"v", timestamp=(0, 0))
    source: Any = Source.from_iterable(wrap([b"v", b"v", None], [BYTES, other, BYTES]))
    settings = ConsumerSettings("localhost:1", "g")
    read = records("read", source, settings, key=SERDE, value=SERDE, timestamp=None, dead_letters=None)
    found = read.run_with(Sink.to_list(), actor_system).result(30)
    assert [(each.key, each.value, each.timestamp) for each in found] == [
        ("k of a key", "v of a value", 7),
        ("k of b key", "v of b value", 0),
        ("k of a key", None, 7),
    ]
