"""Rows of a topology's topics: what is read becomes Records, what leaves becomes records of topics.

Each topic has its own serdes. The rows of a repartition topic are written by the codec, but for their keys: a join compares the
partition of a key in a repartition topic with that in a user's topic, so both must have the same bytes. So a repartition topic
takes the key serde of a user's topic that it is joined with, if there is one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from streamactors.kafka.between.topic_rows import TopicRows
from streamactors.kafka.producer_record import ProducerRecord
from streamactors.kafka.record import ConsumerRecord
from streamactors.kafka.serdes.serdes import reading_serde
from streamactors.windows.joins.foreign_key import ForeignAnswer
from streamactors.windows.record import Record, new_context
from streamactors.windows.topology.edges import Output
from streamactors.windows.topology.model import SourceNode, Topology
from streamactors.windows.topology.nodes.record_nodes import SinkNode

DEFAULT_KEY: Final = "string"
DEFAULT_VALUE: Final = "bytes"
_INTERNAL: Final = "msgpack"


class TopologyRows:
    """The rows of all topics of a topology."""

    def __init__(self, topology: Topology) -> None:
        self._read: dict[str, Callable[[ConsumerRecord], Record]] = {}
        self._write: dict[str, Callable[[Any], ProducerRecord]] = {}
        for topic, source in topology.sources.items():
            if source.internal:
                rows = TopicRows("repartition topic", topic, _key_serde(topology, topic), _INTERNAL)
                self._read[topic] = _internal_reader(rows)
                self._write[topic] = _internal_writer(rows)
            else:
                self._read[topic] = reader_of(source)
        for node in topology.nodes:
            if isinstance(node, SinkNode):
                key = DEFAULT_KEY if node.key is None else node.key
                value = DEFAULT_VALUE if node.value is None else node.value
                self._write.setdefault(node.topic, TopicRows("to", node.topic, key, value).write)

    def read(self, record: ConsumerRecord) -> Record:
        """Return the row of a record."""
        return self._read[record.message.topic()](record)

    def write(self, output: Output) -> ProducerRecord:
        """Return the record of a row that leaves."""
        return self._write[output.topic](output.record)


def reader_of(source: SourceNode) -> Callable[[ConsumerRecord], Record]:
    """Return the function that makes a row of a record of a user's topic."""
    keys = reading_serde(f"{source.topic}: key", DEFAULT_KEY if source.key is None else source.key)
    values = reading_serde(f"{source.topic}: value", DEFAULT_VALUE if source.value is None else source.value)
    key_of = keys.for_topic(source.topic, is_key=True).deserialize
    value_of = values.for_topic(source.topic, is_key=False).deserialize
    topic, time_of = source.topic, source.timestamp

    def read(found: ConsumerRecord) -> Record:
        message = found.message  # asked directly: the properties of a record cost a call each
        raw_key, raw_value, headers = message.key(), found.value, message.headers()
        kind, time = message.timestamp()
        record = Record(
            None if raw_key is None else key_of(raw_key),
            None if raw_value is None else value_of(raw_value),
            time if kind else 0,
            new_context((topic, message.partition(), message.offset(), tuple(headers) if headers else ())),
        )
        return record if time_of is None else record.replace(timestamp=time_of(record))

    return read


def _key_serde(topology: Topology, topic: str) -> Any:
    for _, topics in topology.co_partitioned:
        if topic in topics:
            for each in sorted(topics):
                source = topology.sources[each]
                if not source.internal:
                    return DEFAULT_KEY if source.key is None else source.key
    return _INTERNAL


def _internal_reader(rows: TopicRows) -> Callable[[ConsumerRecord], Record]:
    def read(found: ConsumerRecord) -> Record:
        row = rows.read(found)
        return Record(row.key, row.value, row.timestamp, row.context)

    return read


def _internal_writer(rows: TopicRows) -> Callable[[Any], ProducerRecord]:
    def write(row: Any) -> ProducerRecord:
        value = row.value
        partition = value.partition if type(value) is ForeignAnswer else None
        if isinstance(value, tuple):
            row = row.replace(value=tuple(value))
        return rows.write(row, partition)

    return write
