"""AvroSerde, JsonSchemaSerde and ProtobufSerde, from a writer to a reader and to windows, through a schema registry."""

from __future__ import annotations

import json

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from streamactors import Keep, Sink, Source
from streamactors.errors import BuildError
from streamactors.kafka import (
    AvroSerde,
    Consumer,
    JsonSchemaSerde,
    Producer,
    ProducerRecord,
    ProtobufSerde,
    Subscriptions,
)
from streamactors.kafka.errors import RecordError
from streamactors.testing import SchemaRegistry

WAIT = 60
ORDER = {"type": "record", "name": "Order", "fields": [{"name": "n", "type": "int"}]}
ORDER_2 = {**ORDER, "fields": [*ORDER["fields"], {"name": "s", "type": "string"}]}
JSON_ORDER = {"title": "Order", "type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


def _protobuf_class():
    """Return what protoc makes of `message Bill { int32 n = 1; }`."""
    file = descriptor_pb2.FileDescriptorProto(name="bill.proto", package="shop", syntax="proto3")
    message = file.message_type.add(name="Bill")
    message.field.add(name="n", number=1, label=1, type=5)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Bill"))


Bill = _protobuf_class()


@pytest.fixture(scope="module")
def registry():
    with SchemaRegistry() as registry:
        yield registry


def serde_of(kind, registry):
    if kind == "avro":
        return AvroSerde(registry.url, ORDER), {"n": 1}
    if kind == "json":
        return JsonSchemaSerde({"url": registry.url}, JSON_ORDER), {"n": 1}
    return ProtobufSerde(registry.url, Bill), Bill(n=1)


@pytest.mark.parametrize("kind", ["avro", "json", "protobuf"])
def test_a_value_comes_back_and_its_bytes_begin_with_the_id_of_the_schema(
    kind, registry, cluster, settings, producer_settings, system
):
    topic = f"serde-{kind}"
    cluster.create_topic(topic, partitions=1)
    serde, value = serde_of(kind, registry)
    rows = [ProducerRecord(topic, value, "k"), ProducerRecord(topic, None, "k")]
    writer = Producer.plain_sink(producer_settings, key="string", value=serde)
    Source.from_iterable(rows).run_with(writer, system).result(WAIT)
    source = Consumer.records(settings, Subscriptions.topics(topic), key="string", value=serde, until="end")
    found = source.run_with(Sink.to_list(), system).result(WAIT)
    assert [(row.key, row.value) for row in found] == [("k", value), ("k", None)]
    raw = Consumer.plain_source(settings.with_group_id("look"), Subscriptions.topics(topic), until="end").run_with(
        Sink.to_list(), system
    )
    first = raw.result(WAIT)[0].value
    assert first[0] == 0
    assert registry.answer("GET", f"/schemas/ids/{int.from_bytes(first[1:5], 'big')}", None)[0] == 200
    assert registry.answer("GET", f"/subjects/{topic}-value/versions", None) == (200, [1])


def test_a_schema_that_breaks_readers_fails_the_writer_naming_subject_version_and_field(
    registry, cluster, producer_settings, system
):
    cluster.create_topic("broken", partitions=1)

    def write(serde, value):
        sink = Producer.plain_sink(producer_settings, value=serde)
        Source.single(ProducerRecord("broken", value)).run_with(sink, system).result(WAIT)

    write(AvroSerde(registry.url, ORDER), {"n": 1})
    with pytest.raises(RecordError, match=r'subject "broken-value", version 1 \(BACKWARD\): field s has no default'):
        write(AvroSerde(registry.url, ORDER_2), {"n": 1, "s": "x"})
    with pytest.raises(RecordError, match="cannot be serialised as avro"):
        write(AvroSerde(registry.url, ORDER), {"n": "text"})


def test_without_a_schema_the_registry_has_it_and_functions_make_objects(
    registry, cluster, settings, producer_settings, system
):
    cluster.create_topic("latest", partitions=1)
    registry.answer("POST", "/subjects/latest-value/versions", {"schema": json.dumps(ORDER)})
    writing = AvroSerde(registry.url, to_dict=lambda number: {"n": number})
    sink = Producer.plain_sink(producer_settings, value=writing)
    Source.single(ProducerRecord("latest", 7)).run_with(sink, system).result(WAIT)
    reading = AvroSerde(registry.url, from_dict=lambda found: found["n"])
    source = Consumer.records(settings, Subscriptions.topics("latest"), value=reading, until="end")
    assert [row.value for row in source.run_with(Sink.to_list(), system).result(WAIT)] == [7]


def test_what_has_no_schema_is_a_dead_letter(registry, cluster, settings, producer_settings, system):
    cluster.create_topic("plain", partitions=1)
    cluster.create_topic("plain-dead", partitions=1)
    sink = Producer.plain_sink(producer_settings)
    Source.single(ProducerRecord("plain", "no avro")).run_with(sink, system).result(WAIT)
    source = Consumer.records(
        settings, Subscriptions.topics("plain"), value=AvroSerde(registry.url), dead_letters="plain-dead", until="end"
    )
    control, found = source.to_mat(Sink.to_list(), Keep.both).run(system)
    assert found.result(WAIT) == []
    control.is_shutdown.result(WAIT)
    dead = Consumer.plain_source(settings, Subscriptions.topics("plain-dead"), until="end")
    assert [row.value for row in dead.run_with(Sink.to_list(), system).result(WAIT)] == [b"no avro"]


def test_wrong_arguments_are_named_when_the_serde_is_made(registry):
    with pytest.raises(BuildError, match="registry must be an address"):
        AvroSerde("localhost:8081", ORDER)
    with pytest.raises(BuildError, match="schema must be"):
        JsonSchemaSerde(registry.url, 3)
    with pytest.raises(BuildError, match="protoc"):
        ProtobufSerde(registry.url, dict)


def test_both_sides_of_a_join_are_read_by_their_schemas(registry, cluster, settings, producer_settings, system):
    person = {"type": "record", "name": "Person", "fields": [{"name": "name", "type": "string"}]}
    people, orders = AvroSerde(registry.url, person), AvroSerde(registry.url, ORDER)
    for topic, serde, value in (("join-people", people, {"name": "Ann"}), ("join-orders", orders, {"n": 1})):
        cluster.create_topic(topic, partitions=1)
        sink = Producer.plain_sink(producer_settings, key="string", value=serde)
        Source.single(ProducerRecord(topic, value, "k")).run_with(sink, system).result(WAIT)
    topics = Consumer.topics(settings, until="end")
    table = topics.table("join-people", key="string", value=people, name="join-people-table")
    joined = topics.stream("join-orders", key="string", value=orders).join_table(
        table, lambda order, who: (order["n"], who["name"]), how="inner"
    )
    found = topics.source(joined).run_with(Sink.to_list(), system).result(WAIT)
    assert [row.value for row in found] == [(1, "Ann")]
