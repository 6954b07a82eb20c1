"""Values whose schema is in a schema registry: Avro and Protobuf. python examples/recipes/avro_and_protobuf.py"""

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from streamactors import Sink, Source
from streamactors.broker import Cluster
from streamactors.kafka import (
    AvroSerde,
    Consumer,
    ConsumerSettings,
    Producer,
    ProducerRecord,
    ProducerSettings,
    ProtobufSerde,
    Subscriptions,
)
from streamactors.testing import SchemaRegistry

ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "item", "type": "string"}, {"name": "pieces", "type": "int"}],
}


def message_class() -> Any:
    """What protoc makes of `message Wait { int32 seconds = 1; }`: yours is imported from wait_pb2."""
    file = descriptor_pb2.FileDescriptorProto(name="wait.proto", package="shop", syntax="proto3")
    file.message_type.add(name="Wait").field.add(name="seconds", number=1, label=1, type=5)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Wait"))


def write(bootstrap: str, topic: str, value: Any, serde: Any) -> None:
    writer = Producer.plain_sink(ProducerSettings(bootstrap), key="string", value=serde)
    Source.single(ProducerRecord(topic, value, "anna")).run_with(writer).result(30)


def values(bootstrap: str, topic: str, serde: Any) -> list[Any]:
    settings = ConsumerSettings(bootstrap, group_id="reader", auto_offset_reset="earliest")
    records = Consumer.records(settings, Subscriptions.topics(topic), key="string", value=serde, until="end")
    return records.map(lambda record: record.value).run_with(Sink.to_list()).result(30)


def main(cluster: Cluster) -> None:
    bootstrap = cluster.bootstrap_servers
    for topic in ("orders", "waits"):
        cluster.create_topic(topic)
    with SchemaRegistry() as registry:  # or the address of yours
        write(bootstrap, "orders", {"item": "tea", "pieces": 2}, AvroSerde(registry.url, ORDER))
        print(values(bootstrap, "orders", AvroSerde(registry.url)))  # with the schema of the writer
        wait = message_class()
        write(bootstrap, "waits", wait(seconds=90), ProtobufSerde(registry.url, wait))
        print([wait.seconds for wait in values(bootstrap, "waits", ProtobufSerde(registry.url, wait))])


if __name__ == "__main__":
    with Cluster() as demo:
        main(demo)
