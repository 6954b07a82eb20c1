"""Bootstrap servers that a function looks up when a client is made."""

from __future__ import annotations

import pytest

from streamactors import Sink, Source
from streamactors.errors import BuildError
from streamactors.kafka import (
    Consumer,
    ConsumerSettings,
    MetadataClient,
    Producer,
    ProducerRecord,
    ProducerSettings,
    Subscriptions,
)
from streamactors.windows import TimeWindows


def test_every_client_asks_for_the_brokers_when_it_is_made(cluster, system, topic_with):
    topic = topic_with("discovered", [b"1", b"2"])
    asked = []

    def brokers():
        asked.append(1)
        return cluster.bootstrap_servers

    nowhere = "no-such-host.invalid:9092"
    producer = ProducerSettings(nowhere).with_discovery(brokers)
    settings = ConsumerSettings(nowhere, "discovery", "earliest").with_discovery(brokers)
    assert not asked, "settings alone make no client"
    Source.single(ProducerRecord(topic, b"3")).run_with(Producer.plain_sink(producer), system).result(30)
    found = Consumer.source(settings, Subscriptions.topics(topic), until="end").map(lambda r: r.value)
    assert sorted(found.run_with(Sink.to_list(), system).result(30)) == [b"1", b"2", b"3"]
    for derived in (settings.as_producer().as_consumer("other"), settings):
        with MetadataClient(derived) as metadata:
            assert metadata.topics()[topic] == 1
    before = len(asked)
    with MetadataClient(settings):
        assert len(asked) > before


def test_changelogs_and_their_readers_are_found_too(cluster, system, topic_with):
    topic = topic_with("discovered-windows", [b"1", b"2"])
    settings = ConsumerSettings("no-such-host.invalid:9092", "discovered-windows", "earliest").with_discovery(
        lambda: cluster.bootstrap_servers
    )
    counts = (
        Consumer.records(settings, Subscriptions.topics(topic), until="end")
        .map(lambda record: record.replace(key=b"all"))
        .group_by_key()
        .windowed_by(TimeWindows.of_size("1h").with_no_grace())
        .count()
        .to_stream()
    )
    assert counts.run_with(Sink.to_list(), system).result(60)[-1].value == 2


def test_what_is_found_is_checked_and_an_error_names_the_function(system):
    settings = ConsumerSettings("k:9092", "g").with_discovery(lambda: "http://k")
    with pytest.raises(BuildError, match="is not an address: leave out http://"):
        settings.client_properties()

    def fails():
        raise LookupError("no service")

    with pytest.raises(LookupError) as raised:
        settings.with_discovery(fails).client_properties()
    assert "with_discovery of k:9092" in raised.value.__notes__[0]
    with pytest.raises(BuildError, match="with_discovery"):
        settings.with_discovery("k:9092")
