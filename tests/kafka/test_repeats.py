"""Records that librdkafka hands out twice in one assignment.

Seen in two of about 60 runs of a copier: offsets 0 to 19 came twice, without a rebalance, and both copies were committed in transactions."""

import confluent_kafka as ck
import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from hypothesis import given
from hypothesis import strategies as st

from streamactors import Keep, Sink
from streamactors.kafka import Consumer, Subscriptions
from streamactors.kafka.client.consumer import StreamConsumer
from streamactors.kafka.client.repeats import Repeats
from streamactors.kafka.client.runs import run_of
from streamactors.kafka.settings import ConsumerSettings
from streamactors.kafka.subscriptions import TopicPartition

KEY = TopicPartition("t", 0)


def run(offsets, epoch=0, key=KEY):
    told = {} if epoch is None else {"leader_epoch": epoch}
    return run_of(key, [ck.Message(*key, offset, **told) for offset in offsets])


def offsets(found):
    return [] if found is None else [message.offset() for message in found.records]


@pytest.mark.expects_log("returned 20 records twice, from offset 0 on")
def test_records_that_come_again_are_left_out_and_named_in_the_log():
    repeats = Repeats()
    assert offsets(repeats.without(run(range(20)))) == list(range(20))
    assert repeats.without(run(range(20))) is None
    again = repeats.without(run(range(20, 25)))
    assert (offsets(again), again.end) == (list(range(20, 25)), 25)


@pytest.mark.expects_log("returned 3 records twice, from offset 7 on")
def test_only_the_records_that_came_before_are_left_out():
    repeats = Repeats()
    repeats.without(run(range(10)))
    assert offsets(repeats.without(run(range(7, 13)))) == [10, 11, 12]


def test_records_of_a_log_that_was_truncated_are_new_ones():
    """After an unclean election the new leader has other records at these offsets, in a higher epoch."""
    repeats = Repeats()
    repeats.without(run(range(20), epoch=3))
    assert offsets(repeats.without(run(range(15, 18), epoch=4))) == [15, 16, 17]
    assert offsets(repeats.without(run(range(18, 20), epoch=4))) == [18, 19]


def test_unknown_epochs_tell_nothing():
    repeats = Repeats()
    repeats.without(run(range(20), epoch=None))
    assert offsets(repeats.without(run(range(20), epoch=None))) == list(range(20))


def test_partitions_do_not_know_each_other():
    repeats, other = Repeats(), TopicPartition("t", 1)
    repeats.without(run(range(20)))
    assert offsets(repeats.without(run(range(5), key=other))) == list(range(5))
    repeats.begin_again(KEY)
    assert offsets(repeats.without(run(range(5)))) == list(range(5))


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(1, 8)), max_size=20))
@pytest.mark.expects_log("the second copies are dropped", again=True)
def test_whatever_is_fetched_again_each_offset_comes_once_and_in_order(fetched):
    repeats, position, seen = Repeats(), 0, []
    for start, n in fetched:
        begin = min(start, position)  # a fetch begins at the position, or earlier if it repeats
        seen += offsets(repeats.without(run(range(begin, begin + n))))
        position = max(position, begin + n)
    assert seen == list(range(position))


class Scripted:
    """librdkafka's consumer, which hands out what a test says."""

    def __init__(self, *polls):
        self.polls = list(polls)

    def consume(self, limit, timeout):
        return self.polls.pop(0) if self.polls else []

    def seek(self, place):
        pass


@pytest.mark.expects_log("returned 3 records twice, from offset 0 on")
def test_a_consumer_hands_out_what_librdkafka_returns_twice_once_unless_it_was_told_to_seek():
    client = StreamConsumer(ConsumerSettings("localhost:1", "nobody"))
    genuine = client._client
    first = run(range(3)).records
    client._client = Scripted(first, first, first, first)
    try:
        assert [offsets(each) for each in client.read(10, 0).runs] == [[0, 1, 2]]
        assert client.read(10, 0).runs == []
        assert client.seek(KEY, 0)
        assert [offsets(each) for each in client.read(10, 0).runs] == [[0, 1, 2]]
        line = "t [0]: offset reset (at offset 3 (leader epoch 0), broker 1) to cached BEGINNING offset offset 0 (leader epoch -1): why"
        client._connection.log(30, "%s", line)
        assert [offsets(each) for each in client.read(10, 0).runs] == [[0, 1, 2]]
    finally:
        client._client = genuine
        client.close()


@pytest.mark.expects_log("does not exist: its record was deleted")
def test_the_records_of_a_topic_that_was_created_anew_are_read_from_its_beginning(
    cluster, settings, system, topic_with, wait_for
):
    topic, seen = topic_with("anew", [b"old"] * 30), []
    control = (
        Consumer.source(settings, Subscriptions.topics(topic))
        .to_mat(Sink.foreach(lambda record: seen.append((record.offset, record.value))), Keep.left)
        .run(system)
    )
    wait_for(lambda: len(seen) == 30)
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    admin.delete_topics([topic])[topic].result(30)
    wait_for(lambda: topic not in admin.list_topics(timeout=10).topics)
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(30)
    producer = ck.Producer({"bootstrap.servers": cluster.bootstrap_servers})
    for _ in range(5):
        producer.produce(topic, b"new", partition=0)
    producer.flush(30)
    wait_for(lambda: len(seen) == 35)
    assert seen[30:] == [(offset, b"new") for offset in range(5)]
    control.shutdown().result(30)
