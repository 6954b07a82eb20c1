"""Rows of a topology's topics: what is read becomes Records, what leaves becomes records of topics.

Each topic has its own serdes. The rows of a repartition topic are written by the codec, but for their keys: `topic_keys.py` says why."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from streamactors.kafka.producer_record import ProducerRecord
from streamactors.kafka.record import ConsumerRecord
from streamactors.kafka.serdes.serdes import reading_serde
from streamactors.kafka.serdes.topic_types import TopicTypes
from streamactors.kafka.state.topic_keys import DEFAULT_KEY, ReadContext, TopicKeys
from streamactors.kafka.state.topic_rows import TopicRows
from streamactors.windows.joins.foreign_key import ForeignAnswer
from streamactors.windows.record import Record, new_context
from streamactors.windows.topology.edges import Output
from streamactors.windows.topology.model import SourceNode, Topology
from streamactors.windows.topology.nodes.record_nodes import SinkNode

DEFAULT_VALUE: Final = "bytes"
_INTERNAL: Final = "msgpack"


class TopologyRows:
    """The rows of all topics of a topology."""

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        self._read: dict[str, Callable[[ConsumerRecord], Record]] = {}
        self._write: dict[str, Callable[[Any], ProducerRecord]] = {}
        self.keys = TopicKeys(topology)
        for topic, source in topology.sources.items():
            if source.internal:
                rows = TopicRows("repartition topic", topic, self.keys.of_repartition(topic), _INTERNAL)
                self._read[topic] = _internal_reader(rows)
                self._write[topic] = _internal_writer(rows)
            else:
                self._read[topic] = reader_of(source, self.keys.reader(topic), self.keys.kept(topic))
        for node in topology.nodes:
            if isinstance(node, SinkNode):
                value = DEFAULT_VALUE if node.value is None else node.value
                if node.topic not in self._write:
                    self._write[node.topic] = TopicRows("to", node.topic, self.keys.of_sink(node), value).write

    @property
    def topic_types(self) -> list[TopicTypes]:
        """The topics that the topology reads and writes, without its own."""
        topology = self._topology
        read = [
            TopicTypes("receive", topic, source.key or DEFAULT_KEY, source.value or DEFAULT_VALUE)
            for topic, source in topology.sources.items()
            if not source.internal
        ]
        sinks = [node for node in topology.nodes if isinstance(node, SinkNode) and node.topic.isprintable()]
        return [
            *read,
            *(TopicTypes("send", each.topic, each.key or DEFAULT_KEY, each.value or DEFAULT_VALUE) for each in sinks),
        ]

    def read(self, record: ConsumerRecord) -> Record:
        """Return the row of a record."""
        return self._read[record.message.topic()](record)

    def write(self, output: Output) -> ProducerRecord:
        """Return the record of a row that leaves."""
        return self._write[output.topic](output.record)


def reader_of(
    source: SourceNode,
    key_of: Callable[[bytes], Any] | None = None,
    key_bytes: Callable[[Any], bytes] | None = None,
) -> Callable[[ConsumerRecord], Record]:
    """Return the function that makes a row of a record of a user's topic.

    `key_of`: None: the topic's serde. `key_bytes` writes a key: where it writes other bytes than were read, the row's context keeps those."""
    if key_of is None:
        keys = reading_serde(f"{source.topic}: key", DEFAULT_KEY if source.key is None else source.key)
        key_of = keys.for_topic(source.topic, is_key=True).deserialize
    values = reading_serde(f"{source.topic}: value", DEFAULT_VALUE if source.value is None else source.value)
    value_of = values.for_topic(source.topic, is_key=False).deserialize
    topic, time_of = source.topic, source.timestamp

    def read(found: ConsumerRecord) -> Record:
        message = found.message  # asked directly: the properties of a record cost a call each
        raw_key, raw_value, headers = message.key(), found.value, message.headers()
        kind, time = message.timestamp()
        context = new_context((topic, message.partition(), message.offset(), tuple(headers) if headers else ()))
        key = None if raw_key is None else key_of(raw_key)
        if key_bytes is not None and raw_key is not None and key_bytes(key) != raw_key:
            context = ReadContext(*context)
            context.raw_key = raw_key
        record = Record(key, None if raw_value is None else value_of(raw_value), time if kind else 0, context)
        return record if time_of is None else record.replace(timestamp=time_of(record))

    return read


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
