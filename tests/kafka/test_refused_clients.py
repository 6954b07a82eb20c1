"""Clients whose settings librdkafka refuses hold nothing: each restart of a sink makes another."""

from __future__ import annotations

import gc
import os
from typing import Any

import pytest

from streamactors.kafka import ProducerSettings
from streamactors.kafka.client.connection import ClientConnection, ck
from streamactors.kafka.client.producer import StreamProducer
from streamactors.kafka.client.range_writer import RangeWriter
from streamactors.kafka.errors import KafkaError
from streamactors.kafka.subscriptions import TopicPartition
from tests.own_process import own_process

HERE = ProducerSettings("127.0.0.1:1")


def descriptors() -> int:
    gc.collect()
    return len(os.listdir("/proc/self/fd"))


@own_process
def test_a_producer_with_a_wrong_property_leaves_no_descriptor() -> None:
    def refused() -> None:
        with pytest.raises(KafkaError, match="producer settings"):
            StreamProducer(HERE.with_property("linger.ms", "soon"))

    refused()
    before = descriptors()
    for _ in range(10):
        refused()
    assert descriptors() == before


@own_process
def test_a_writer_of_ranges_without_its_group_leaves_no_descriptor(monkeypatch: pytest.MonkeyPatch) -> None:
    genuine = ClientConnection.make

    def make(connection: ClientConnection, factory: Any, properties: Any) -> Any:
        if factory is ck.Consumer:
            raise KafkaError("consumer settings: ssl.ca.location: there is no such file")
        return genuine(connection, factory, properties)

    monkeypatch.setattr(ClientConnection, "make", make)

    def refused() -> None:
        with pytest.raises(KafkaError, match="consumer settings"):
            RangeWriter(HERE, "group", TopicPartition("t", 0))

    refused()
    before = descriptors()
    for _ in range(10):
        refused()
    assert descriptors() == before
