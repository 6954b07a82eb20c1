"""The last offsets of a partition may have no record: transaction markers, aborted records, what compaction has removed. Lag and commits reach the end."""

from __future__ import annotations

import pytest
from confluent_kafka import Producer as BareProducer

from streamactors import Keep, Sink
from streamactors.kafka import (
    Committer,
    CommitterSettings,
    Consumer,
    MetadataClient,
    ProducerRecord,
    Subscriptions,
    Transactional,
)
from streamactors.kafka.reading.consumer_state import ConsumerState
from streamactors.kafka.reading.pausing import Limits
from streamactors.kafka.subscriptions import TopicPartition

KEY = TopicPartition("t", 0)


@pytest.fixture
def transactions(cluster):
    """Write transactions of so many records each to a new topic; a negative number is aborted. Return the topic's end."""

    def write(topic, *sizes):
        if topic not in written:
            cluster.create_topic(topic)
        written.add(topic)
        producer = BareProducer(
            {"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": topic, "log_level": 0}
        )
        producer.init_transactions()
        for size in sizes:
            producer.begin_transaction()
            for number in range(abs(size)):
                producer.produce(topic, b"%d" % number)
            producer.flush()
            if size < 0:
                producer.abort_transaction()
            else:
                producer.commit_transaction()

    written = set()
    return write


def committing(kind, settings, topic, producer_settings):
    """Return a graph that reads the topic and commits, as this kind of source does."""
    subscription = Subscriptions.topics(topic)
    if kind == "committable":
        offsets = Consumer.committable_source(settings, subscription).map(lambda message: message.offset)
        return offsets.to_mat(Committer.sink(CommitterSettings(max_interval_ms=50)), Keep.left)
    if kind == "partitioned":
        sources = Consumer.partitioned_source(settings, subscription)
        return sources.flat_map_merge(8, lambda pair: pair[1]).to_mat(Sink.ignore(), Keep.left)
    if kind == "transactional":
        copied = Transactional.source(settings, subscription).map(lambda r: ProducerRecord(f"{topic}-copy", r.value))
        sink = Transactional.sink(producer_settings.with_transactional_id(f"{topic}-copies"))
        return copied.to_mat(sink, Keep.left)
    made = Consumer.at_most_once_source if kind == "at-most-once" else Consumer.source
    return made(settings, subscription).to_mat(Sink.ignore(), Keep.left)


KINDS = ["marks", "committable", "partitioned", "transactional", "at-most-once"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sizes", [(3,), (3, -100), (-5,)])
def test_lag_and_commit_reach_the_end(
    settings, producer_settings, cluster, system, transactions, committed, wait_for, kind, sizes
):
    # lag said 1,001 forever after an aborted transaction of 1,000 records, and the group stayed as far behind
    topic = f"ends-{kind}-{'-'.join(map(str, sizes)).replace('--', '-a')}"
    transactions(topic, *sizes)
    if kind == "transactional":
        cluster.create_topic(f"{topic}-copy")
    end = sum(map(abs, sizes)) + len(sizes)
    control = committing(kind, settings, topic, producer_settings).run(system)
    wait_for(lambda: control.snapshot()["partitions"].get(f"{topic}-0", {}).get("lag") == 0)
    wait_for(lambda: committed(topic) == {0: end})
    control.shutdown().result(30)
    assert committed(topic) == {0: end}


def test_a_group_that_was_left_behind_reaches_the_end(
    settings, producer_settings, system, transactions, committed, wait_for
):
    transactions("behind", 3, -100)
    with MetadataClient(settings) as metadata:
        metadata._admin.commit(settings.group_id, {TopicPartition("behind", 0): 3})
    control = committing("marks", settings, "behind", producer_settings).run(system)
    wait_for(lambda: committed("behind") == {0: 105})
    assert control.snapshot()["partitions"]["behind-0"]["lag"] == 0
    control.shutdown().result(30)


def test_a_source_that_commits_nothing_has_no_lag(settings, system, transactions, wait_for):
    transactions("plain", 3, -100)
    control = Consumer.plain_source(settings, Subscriptions.topics("plain")).to(Sink.ignore()).run(system)
    wait_for(lambda: control.snapshot()["partitions"].get("plain-0", {}).get("lag") == 0)
    control.shutdown().result(30)


@pytest.mark.parametrize("kind", ["marks", "partitioned"])
def test_a_bounded_read_commits_its_end(settings, producer_settings, system, transactions, committed, kind):
    topic = f"bounded-{kind}"
    transactions(topic, 3, -100)
    made = Consumer.source if kind == "marks" else Consumer.partitioned_source
    source = made(settings, Subscriptions.topics(topic), until="end")
    read = source if kind == "marks" else source.flat_map_merge(8, lambda pair: pair[1])
    control, done = read.to_mat(Sink.to_list(), Keep.both).run(system)
    assert len(done.result(30)) == 3
    control.is_shutdown.result(30)
    assert committed(topic) == {0: 105}


# ── the state of the consumer ─────────────────────────────────────────────────────────────────────────────────────────


class Record:
    def __init__(self, offset):
        self._offset = offset

    def offset(self):
        return self._offset


def assigned():
    state = ConsumerState(Limits(1 << 20, 1 << 10, 1 << 20, 0), 100)
    state.assigned({KEY: "feed"}, 1, {})
    return state


def test_the_end_comes_after_the_records_and_only_with_demand():
    state = assigned()
    state.read(KEY, [Record(0), Record(1)], 10, 2)
    state.end_reached(KEY, 7)  # compaction has removed the offsets 2 to 6
    assert list(state.deliveries()) == []
    state.requested("feed", 1)
    assert [(len(each.records), each.end) for each in state.deliveries()] == [(1, 1)]
    state.requested("feed", 3)
    assert [(len(each.records), each.end) for each in state.deliveries()] == [(1, 2), (0, 7)]
    assert state.demand["feed"] == 2, "an end uses up no demand"
    assert state.partitions[KEY].position == 7
    state.end_reached(KEY, 7)
    assert list(state.deliveries()) == [], "it is said once"


def test_an_end_that_the_records_have_reached_is_not_said():
    state = assigned()
    state.requested("feed", 5)
    state.read(KEY, [Record(0), Record(1)], 10, 2)
    assert len(list(state.deliveries())) == 1
    state.end_reached(KEY, 2)
    assert list(state.deliveries()) == []


def test_a_revoked_partition_has_no_end():
    state = assigned()
    state.requested("feed", 5)
    state.end_reached(KEY, 7)
    state.revoked([KEY])
    assert list(state.deliveries()) == []
