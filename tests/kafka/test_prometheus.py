"""Metrics of the consumers in the user's own process."""

from __future__ import annotations

import gc

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from streamactors import Keep, Sink
from streamactors.kafka import Admin, Consumer, Subscriptions
from streamactors.kafka.controls.control import RUNNING
from streamactors.kafka.subscriptions import TopicPartition
from streamactors.metrics.kafka import COLLECTOR


def shown() -> str:
    registry = CollectorRegistry()
    registry.register(COLLECTOR)
    return generate_latest(registry).decode()


def test_a_scrape_shows_each_running_consumer_with_graph_group_topic_and_lag(settings, system, topic_with, wait_for):
    topic = topic_with("scraped", [b"x"] * 10, 2)
    settings = settings.with_group_id("scraped-group")
    source = Consumer.source(settings, Subscriptions.topics(topic))
    control, _ = source.to_mat(Sink.ignore(), Keep.both).named("my-graph").run(system)
    labels = '{graph="my-graph",group="scraped-group",partition="%d",topic="scraped"}'
    wait_for(lambda: all(f"streamactors_kafka_lag{labels % n} 0.0" in shown() for n in (0, 1)))
    text = shown()
    assert f"streamactors_kafka_position{labels % 0} 5.0" in text
    assert 'streamactors_kafka_delivered_total{graph="my-graph",group="scraped-group"} 10.0' in text
    control.stop()
    control.is_shutdown.result(30)
    assert "my-graph" not in shown()


@pytest.mark.parametrize("committed_at", [None, 4])
def test_a_stream_that_has_never_taken_a_record_has_a_lag(settings, system, topic_with, wait_for, committed_at):
    """The alert of docs/production.md had no series to look at: a stream whose sink hangs from its start has delivered nothing."""
    topic = topic_with(f"hanging-{committed_at}", [b"x"] * 10)
    quick = settings.with_property("statistics.interval.ms", 100)
    if committed_at is not None:
        with Admin(settings) as admin:
            admin.commit(settings.group_id, {TopicPartition(topic, 0): committed_at})
    control, _ = Consumer.source(quick, Subscriptions.topics(topic)).to_mat(Sink.never(), Keep.both).run(system)
    name = (
        f'streamactors_kafka_lag{{graph="Consumer.source",group="{settings.group_id}",partition="0",topic="{topic}"}}'
    )
    wait_for(lambda: f"{name} {10 - (committed_at or 0)}.0" in shown())
    control.shutdown()
    control.is_shutdown.result(30)


def test_a_graph_without_a_name_goes_by_its_source(settings, system, topic_with, wait_for):
    topic = topic_with("nameless", [b"x"])
    for source, name in (("plain_partitioned_source", "Consumer.plain_partitioned_source"), ("source", "mine")):
        reading = getattr(Consumer, source)(settings, Subscriptions.topics(topic))
        control = (reading.named("mine") if source == "source" else reading).to(Sink.ignore()).run(system)
        wait_for(lambda name=name: f'graph="{name}"' in shown())
        control.stop()
        control.is_shutdown.result(30)


def test_a_control_that_nobody_keeps_is_not_kept_by_the_collector(settings):
    before = len(RUNNING)
    Consumer.source(settings, Subscriptions.topics("never")).to(Sink.ignore())
    gc.collect()
    assert len(RUNNING) == before
