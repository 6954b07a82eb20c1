"""Clients of a `Cluster` with TLS and logins."""

from __future__ import annotations

import ssl

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from streamactors.broker import Cluster
from tests.broker.wire import WireClient

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
DOORS = ((False, ("ann",)), (True, ("ann",)), (True, ()))


def produce(properties: dict[str, str], topic: str, values: list[bytes]) -> list[KafkaError]:
    failed: list[KafkaError] = []
    producer = Producer({**properties, "message.timeout.ms": 30_000, "message.max.bytes": 8_000_000})
    for value in values:
        producer.produce(topic, value, on_delivery=lambda error, message: error and failed.append(error))
    assert producer.flush(60) == 0
    return failed


def consume(properties: dict[str, str], topic: str, first: int, count: int) -> list[bytes]:
    consumer = Consumer({**properties, "group.id": "g", "fetch.message.max.bytes": 8_000_000})
    consumer.assign([TopicPartition(topic, 0, first)])
    found: list[bytes] = []
    while len(found) < count:
        message = consumer.poll(60)
        assert message is not None
        assert message.error() is None, message.error()
        found.append(message.value())
    consumer.close()
    return found


def end_of(properties: dict[str, str], topic: str) -> int:
    consumer = Consumer({**properties, "group.id": "g"})
    end: int = consumer.get_watermark_offsets(TopicPartition(topic, 0), 30)[1]
    consumer.close()
    return end


def address(cluster: Cluster) -> tuple[str, int]:
    host, _, port = cluster.bootstrap_servers.rpartition(":")
    return host, int(port)


def encrypted(cluster: Cluster) -> bool:
    return "ssl.ca.location" in cluster.client_properties("ann")


def wire(cluster: Cluster) -> WireClient:
    """Return a raw client, behind the handshake of TLS where there is one."""
    client = WireClient(*address(cluster))
    if encrypted(cluster):
        context = ssl.create_default_context(cafile=cluster.client_properties("ann")["ssl.ca.location"])
        client.socket = context.wrap_socket(client.socket, server_hostname=address(cluster)[0])
    return client
