"""Rows of long ago on a broker that deletes by time: what the connector's own topics hold must outlive the broker's retention."""

from __future__ import annotations

from collections import Counter

import pytest
from confluent_kafka import Consumer as BareConsumer
from confluent_kafka import TopicPartition

from streamactors import Keep, Sink, Source
from streamactors.broker import Cluster
from streamactors.kafka import through_topic
from streamactors.kafka.client.admin import Admin
from streamactors.kafka.settings import ClientSettings
from streamactors.windows import Record
from tests.kafka._windows import produce
from tests.kafka.test_repartition import PARTITIONS, by_first_letter, given


@pytest.fixture(scope="module")
def cluster():
    with Cluster(config={"log.retention.check.interval.ms": 100}) as cluster:
        yield cluster


@pytest.fixture
def wait_for_retention(cluster, wait_for):
    """Wait until the broker has looked through all logs: twice until it deletes rows of 1970, as the first look may be half over."""

    def wait(name):
        consumer = BareConsumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": name})
        for look in ("first", "second"):
            topic = f"{name}-{look}"
            produce(cluster, topic, [(0, "a", 1_000_000)], 1)
            wait_for(lambda: consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=10)[0] == 1)  # noqa: B023
        consumer.close()

    return wait


def test_rows_under_new_keys_are_kept_until_they_are_read(cluster, settings, system, read_all, wait_for_retention):
    Admin(ClientSettings(cluster.bootstrap_servers)).create("old", PARTITIONS, 1, {"retention.ms": "-1"})
    produce(cluster, "old", given(), PARTITIONS)
    control, done = by_first_letter(settings, "old").to_mat(Sink.to_list(), Keep.both).run(system)
    assert {row.key: row.value for row in done.result(60)} == Counter(key[0] for _, key, _ in given())
    control.is_shutdown.result(30)
    wait_for_retention("repartitioned")
    assert len(read_all(f"{settings.group_id}-letters-repartition", PARTITIONS)) == len(given())


def test_rows_on_their_way_through_a_topic_are_kept(settings, system, read_all, wait_for_retention):
    rows = [Record("k", i, 1_000_000 + i) for i in range(100)]
    flow = through_topic("through-old", settings, partitions=1)
    assert Source.from_iterable(rows).via(flow).run_with(Sink.to_list(), system).result(60) == rows
    wait_for_retention("through")
    assert len(read_all("through-old")) == 100
