"""A topic of a pattern that is deleted ends nothing: the stream continues with the other topics, and commits them."""

from __future__ import annotations

import pytest
from confluent_kafka import Producer as BareProducer

from streamactors import Keep, Sink
from streamactors.kafka import Admin, Consumer, Subscriptions
from tests.actors.eventually import eventually
from tests.bare_clients import IN_ORDER


def write(cluster, topic, count):
    producer = BareProducer({"bootstrap.servers": cluster.bootstrap_servers, **IN_ORDER})
    for number in range(count):
        producer.produce(topic, str(number))
    assert producer.flush(20) == 0


@pytest.mark.slow
@pytest.mark.expects_log("does not exist any more")
@pytest.mark.parametrize("source", ["source", "committable_source", "plain_source"])
def test_a_deleted_topic_of_a_pattern_ends_nothing(cluster, settings, system, committed, caplog, source):
    """CommitFailed (UNKNOWN_TOPIC_OR_PART) ended the stream, with the offsets of the other topic in the same request."""
    kept, gone = f"tenant-{source}-a", f"tenant-{source}-b"
    for topic in (kept, gone):
        cluster.create_topic(topic)
        write(cluster, topic, 3)
    quick = settings.with_property("topic.metadata.refresh.interval.ms", 100).with_property(
        "statistics.interval.ms", 100
    )
    seen = []
    reading = getattr(Consumer, source)(quick, Subscriptions.topic_pattern(f"tenant-{source}-.*"))
    control, done = (
        reading.map(lambda m: seen.append(getattr(m, "record", m).topic)).to_mat(Sink.ignore(), Keep.both).run(system)
    )
    eventually(lambda: len(seen) == 6, 30)
    with Admin(settings) as admin:
        admin.delete(gone)
    eventually(lambda: list(control.snapshot()["partitions"]) == [f"{kept}-0"], 40)
    write(cluster, kept, 2)
    eventually(lambda: seen.count(kept) >= 5, 30)  # what nobody commits is read again after the rebalance
    if source == "source":
        eventually(lambda: committed(kept) == {0: 5}, 30)
    assert not done.done(), done.exception()
    cluster.create_topic(gone)  # a topic of the same name is another one
    write(cluster, gone, 1)
    eventually(lambda: seen.count(gone) >= 4, 40)
    control.drain_and_shutdown(done, timeout=30)


def test_a_deleted_topic_that_was_named_ends_the_stream(cluster, settings, system):
    cluster.create_topic("named-and-deleted")
    write(cluster, "named-and-deleted", 1)
    quick = settings.with_property("topic.metadata.refresh.interval.ms", 100).with_property(
        "statistics.interval.ms", 100
    )
    control, done = (
        Consumer.source(quick, Subscriptions.topics("named-and-deleted")).to_mat(Sink.ignore(), Keep.both).run(system)
    )
    eventually(lambda: control.snapshot()["partitions"], 30)
    with Admin(settings) as admin:
        admin.delete("named-and-deleted")
    assert "named-and-deleted" in str(done.exception(40))
