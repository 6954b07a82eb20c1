"""Partitions added to a topic are read even if the leader of the group does not read the topic: it does not notice them."""

from __future__ import annotations

import json

import pytest
from confluent_kafka import Producer as BareProducer

from streamactors import Keep, Sink
from streamactors.kafka import Admin, Consumer, Subscriptions
from streamactors.kafka.client.partition_watch import PartitionWatch
from streamactors.kafka.subscriptions import TopicPartition
from tests.actors.eventually import eventually
from tests.bare_clients import IN_ORDER
from tests.differential.apache_kafka.as_cluster import await_partitions
from tests.kafka._members import CONSUMER, with_assignor


def statistics(unknown: tuple[int, ...] = (), **topics: int) -> str:
    def partition(number: int) -> dict[str, object]:
        return {"partition": number, "unknown": number in unknown, "desired": True}

    of = {name: {"partitions": {str(i): partition(i) for i in (*range(n), -1)}} for name, n in topics.items()}
    return json.dumps({"topics": of}, separators=(",", ":"))


def test_a_topic_has_grown_when_two_statistics_say_so_without_an_assignment_between():
    watch = PartitionWatch()
    watch.known({"orders": 2, "others": 1})
    watch.assigned()
    watch.look(statistics(orders=2))
    assert watch.grown == {}
    watch.look(statistics(orders=4))
    assert watch.grown == {}, "the leader may have noticed: a rebalance may be under way"
    watch.look(statistics(orders=4))
    assert watch.grown == {"orders": 4}
    watch.assigned()
    watch.look(statistics(orders=4))
    watch.look(statistics(orders=4))
    assert watch.grown == {}


def test_a_topic_that_grew_between_the_start_and_the_first_statistics_is_noticed():
    watch = PartitionWatch()
    watch.known({"orders": 1})
    watch.assigned()
    for _ in range(2):
        watch.look(statistics(orders=2))
    assert watch.grown == {"orders": 2}


def test_nothing_grows_before_the_first_assignment_and_topics_that_shrink_are_left_alone():
    watch = PartitionWatch()
    watch.known({"orders": 1})
    for _ in range(3):
        watch.look(statistics(orders=2))
    assert watch.grown == {}
    watch.assigned()
    for _ in range(3):
        watch.look(statistics(orders=1))
    assert watch.grown == {}


def test_a_partition_is_gone_when_two_statistics_say_so():
    watch = PartitionWatch()
    watch.look(statistics((1,), orders=2))
    assert watch.gone == set()
    watch.look(statistics((1,), orders=2))
    assert watch.gone == {TopicPartition("orders", 1)}
    watch.look(statistics(orders=2))
    assert watch.gone == set()


class Reader:
    """A member that reads one topic."""

    def __init__(self, settings, system, topic):
        self.seen = []
        self.control, self.done = (
            Consumer.source(settings, Subscriptions.topics(topic))
            .map(lambda record: self.seen.append((record.topic, record.partition)))
            .to_mat(Sink.ignore(), Keep.both)
            .run(system)
        )
        eventually(lambda: self.control.snapshot()["partitions"], timeout_s=30)

    def close(self):
        self.control.drain_and_shutdown(self.done, timeout=30)


@pytest.mark.parametrize("assignor", [None, "range", "roundrobin", "cooperative-sticky"])
def test_a_member_reads_the_new_partitions_of_a_topic_that_the_leader_does_not_read(
    cluster, settings, system, assignor
):
    """Two sources of one program in one group: the second one never read the partitions that were added to its topic."""
    first, second = (f"{each}-{assignor}" for each in ("of-the-leader", "of-the-other"))
    for topic in (first, second):
        cluster.create_topic(topic)
    quick = settings.with_property("topic.metadata.refresh.interval.ms", 200).with_property(
        "statistics.interval.ms", 200
    )
    if assignor is not None:
        quick = with_assignor(quick, assignor)
    leader, other = Reader(quick, system, first), Reader(quick, system, second)
    with Admin(settings) as admin:
        admin.grow(second, 3)
    await_partitions(cluster.bootstrap_servers, second, 3)
    producer = BareProducer({"bootstrap.servers": cluster.bootstrap_servers, **IN_ORDER})
    for number in (1, 2):
        producer.produce(second, b"x", partition=number)
    assert producer.flush(20) == 0
    eventually(lambda: {(second, 1), (second, 2)} <= set(other.seen), timeout_s=40)
    with Admin(settings) as admin:
        owned = [key for member in admin.members(settings.group_id) for key in member.partitions]
    assert sorted(owned) == [TopicPartition(first, 0), *(TopicPartition(second, i) for i in range(3))]
    other.close()
    leader.close()


def test_a_static_member_says_that_it_cannot_leave(cluster, settings, system, caplog):
    if settings.group_protocol == CONSUMER:
        pytest.skip("the broker gives new partitions to whoever reads their topic, static or not")
    for topic in ("static-1", "static-2"):
        cluster.create_topic(topic)
    quick = settings.with_property("topic.metadata.refresh.interval.ms", 200).with_property(
        "statistics.interval.ms", 200
    )
    leader = Reader(quick.with_property("group.instance.id", "one"), system, "static-1")
    other = Reader(quick.with_property("group.instance.id", "two"), system, "static-2")
    with Admin(settings) as admin:
        admin.grow("static-2", 2)
    eventually(
        lambda: [
            r
            for r in caplog.records
            if "assigns static-2-1 to no member: its leader does not read the topic" in r.getMessage()
        ],
        timeout_s=40,
    )
    other.close()
    leader.close()
