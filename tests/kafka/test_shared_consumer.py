"""A shared consumer: many sources, each with partitions of its own, over one client."""

from __future__ import annotations

import gc
import weakref
from dataclasses import replace

import pytest
from confluent_kafka import Producer

from streamactors import ActorSystem, Keep, Sink
from streamactors.errors import BuildError
from streamactors.kafka import Consumer, Subscriptions, TopicPartition
from streamactors.kafka.client.consumer import StreamConsumer
from streamactors.kafka.errors import CommitFailed, ConsumerFailed, TopicNotFound
from streamactors.kafka.sources.shared.shared_actor import SharedActor
from streamactors.testing import TestSink


@pytest.fixture
def clients(monkeypatch):
    made = []
    genuine = StreamConsumer.__init__

    def counted(client, settings, **more):
        made.append(client)
        genuine(client, settings, **more)

    monkeypatch.setattr(StreamConsumer, "__init__", counted)
    return made


def fill(cluster, topic, partitions, each):
    cluster.create_topic(topic, partitions)
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
    for number in range(each * partitions):
        producer.produce(topic, b"%d" % number, partition=number % partitions)
    assert producer.flush(60) == 0


def one(topic, partition):
    return Subscriptions.assignment(TopicPartition(topic, partition))


def values(partition, partitions, each):
    return [b"%d" % number for number in range(partition, each * partitions, partitions)]


def test_sources_with_partitions_of_their_own_read_over_one_client(cluster, settings, system, clients):
    fill(cluster, "parted", 4, 500)
    with Consumer.shared(settings) as shared:
        taken = [
            shared.plain_source(one("parted", n)).map(lambda r: r.value).take(500).run_with(Sink.to_list(), system)
            for n in range(3)
        ]
        last = Subscriptions.assignment_with_offset({TopicPartition("parted", 3): 400})
        tail = shared.plain_source(last).map(lambda r: r.value).take(100).run_with(Sink.to_list(), system)
        for n, done in enumerate(taken):
            assert done.result(30) == values(n, 4, 500)
        assert tail.result(30) == values(3, 4, 500)[400:]
        assert len(clients) == 1


def test_a_source_without_demand_does_not_stop_the_others(cluster, settings, system):
    fill(cluster, "uneven", 2, 20_000)
    with Consumer.shared(settings) as shared:
        slow = shared.plain_source(one("uneven", 0)).run_with(TestSink.probe("30s"), system)
        slow.request(1)
        assert slow.expect_next().value == b"0"
        fast = shared.plain_source(one("uneven", 1)).map(lambda r: r.value).take(20_000)
        assert fast.run_with(Sink.to_list(), system).result(60) == values(1, 2, 20_000)


def test_what_is_done_is_committed_and_a_partition_can_be_read_again_by_another_source(
    cluster, settings, system, committed
):
    fill(cluster, "handed", 2, 100)
    with Consumer.shared(settings) as shared:
        first, done = shared.source(one("handed", 0)).take(60).to_mat(Sink.to_list(), Keep.both).run(system)
        assert len(done.result(30)) == 60
        first.is_shutdown.result(30)
        offsets = (
            shared.committable_source(one("handed", 1))
            .map(lambda message: message.offset)
            .take(30)
            .map_async(1, lambda offset: offset.commit())
        )
        control, done = offsets.to_mat(Sink.ignore(), Keep.both).run(system)
        done.result(30)
        control.is_shutdown.result(30)
        assert committed("handed", 2) == {0: 60, 1: 30}
        rest = shared.source(one("handed", 0)).map(lambda r: r.value).take(40)
        again, done = rest.to_mat(Sink.to_list(), Keep.both).run(system)
        assert done.result(30) == values(0, 2, 100)[60:]
        again.is_shutdown.result(30)
        assert committed("handed", 2) == {0: 100, 1: 30}


def test_a_partition_has_one_source_at_a_time_and_a_source_that_cannot_join_fails_alone(cluster, settings, system):
    fill(cluster, "owned", 2, 10)
    with Consumer.shared(settings) as shared:
        probe = shared.plain_source(one("owned", 0)).run_with(TestSink.probe("30s"), system)
        probe.request(1)
        probe.expect_next()
        error = shared.plain_source(one("owned", 0)).run_with(Sink.ignore(), system).exception(30)
        assert isinstance(error, ConsumerFailed), error
        assert "owned-0 is read by another source of this shared consumer already" in str(error)
        error = shared.plain_source(one("not-there", 0)).run_with(Sink.ignore(), system).exception(30)
        assert isinstance(error, TopicNotFound), error
        probe.request(9)
        assert [probe.expect_next().value for _ in range(9)] == values(0, 2, 10)[1:]


def test_a_source_whose_last_commit_fails_leaves_the_others_alone(cluster, settings, system, commits):
    # The commit was tried once more on the way out. Its second failure ended the consumer: the other sources failed, and the source never left.
    fill(cluster, "last-commit", 2, 10)
    with Consumer.shared(replace(settings, commit_interval_ms=3_600_000)) as shared:
        other = shared.source(one("last-commit", 1)).map(lambda r: r.value).run_with(TestSink.probe("30s"), system)
        other.request(20)
        assert [other.expect_next() for _ in range(10)] == values(1, 2, 10)
        commits.answers += [CommitFailed("no")] * 2
        few = shared.source(one("last-commit", 0)).take(10)
        control, done = few.to_mat(Sink.to_list(), Keep.both).run(system)
        done.result(30)
        assert isinstance(control.is_shutdown.exception(30), CommitFailed)
        commits.answers.clear()
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
        producer.produce("last-commit", b"one more", partition=1)
        producer.flush(30)
        assert other.expect_next() == b"one more"


def test_stop_completes_all_sources_and_a_source_after_it_says_why_it_fails(
    cluster, settings, system, wait_for, committed
):
    fill(cluster, "ended", 2, 10)
    shared = Consumer.shared(settings)
    running = [shared.source(one("ended", n)).to_mat(Sink.ignore(), Keep.both).run(system) for n in range(2)]
    wait_for(lambda: committed("ended", 2) == {0: 10, 1: 10})
    shared.stop().result(30)
    for control, done in running:
        done.result(30)
        control.is_shutdown.result(30)
    error = shared.plain_source(one("ended", 0)).run_with(Sink.ignore(), system).exception(30)
    assert "the shared consumer is stopped; make another one" in str(error)
    Consumer.shared(settings).stop().result(1)


def test_sources_fail_when_the_actor_system_of_the_consumer_shuts_down(cluster, settings, system):
    fill(cluster, "orphaned", 2, 10)
    shared = Consumer.shared(settings)
    with ActorSystem("first") as first:
        probe = shared.plain_source(one("orphaned", 0)).run_with(TestSink.probe("30s"), first)
        probe.request(1)
        probe.expect_next()
        control, done = shared.plain_source(one("orphaned", 1)).to_mat(Sink.ignore(), Keep.both).run(system)
    error = done.exception(30)
    assert isinstance(error, ConsumerFailed), error
    assert "the actor system of its first source has shut down" in str(error)
    control.is_shutdown.exception(30)


def test_a_shared_consumer_reads_given_partitions_only(settings):
    shared = Consumer.shared(settings)
    with pytest.raises(BuildError, match=r"expects partitions .* a source of topics has a consumer of its own"):
        shared.source(Subscriptions.topics("a"))
    with pytest.raises(BuildError, match=r"Consumer\.shared expects ConsumerSettings, got str"):
        Consumer.shared("localhost:9092")


class Reader:
    source = feed_of = None


def test_a_source_that_has_left_is_forgotten(settings):
    # what it held back was kept, and with it the whole stream: a shared consumer with many short sources grew without end
    shared, key, reader = SharedActor(settings), TopicPartition("t", 0), Reader()
    told = []
    shared._tell = told.append
    shared.hold_back(reader, frozenset([key]))
    shared.left(reader)
    shared.hold_back(Reader(), frozenset())
    assert [message.keys for message in told] == [{key}, set()]
    gone = weakref.ref(reader)
    del reader
    gc.collect()
    assert gone() is None


def test_what_two_sources_hold_back_reaches_the_consumer_in_the_order_in_which_it_was_put_together(settings):
    """One source: b -> the other: a and b -> the first releases b: a. If the last two messages pass each other, b waits forever."""
    shared, nobody_else_can_come_between = SharedActor(settings), []
    shared._tell = lambda message: nobody_else_can_come_between.append(shared._lock.locked())
    shared.hold_back(Reader(), frozenset([TopicPartition("t", 0)]))
    assert nobody_else_can_come_between == [True]


def test_a_source_whose_consumer_cannot_start_leaves_its_partitions_to_the_next(settings):
    class ShutDown:
        @property
        def system(self):
            raise RuntimeError("no system")

    shared, key = SharedActor(settings), TopicPartition("t", 0)
    for reader in (Reader(), Reader()):
        with pytest.raises(RuntimeError, match="no system"):  # and not: is read by another source already
            shared.join(reader, (key,), ShutDown())
