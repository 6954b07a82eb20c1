"""Two windowed computations in a row, each with a changelog, while rows come without a pause."""

from __future__ import annotations

import threading
from itertools import count

import pytest
from confluent_kafka import Producer as BareProducer

from streamactors import Flow, Keep, Sink
from streamactors.kafka import (
    Committer,
    CommitterSettings,
    Consumer,
    ProducerRecord,
    ProducerSettings,
    Subscriptions,
    Transactional,
)
from streamactors.windows import Record
from tests.kafka.test_changelog_silence import records, settings_of


@pytest.fixture
def feed(cluster):
    """Return a function that begins to write rows into a topic; what that returns ends it and tells the number of rows."""
    over, threads = threading.Event(), []

    def begin(topic):
        cluster.create_topic(topic, partitions=1)
        written = []

        def write():
            producer = BareProducer({"bootstrap.servers": cluster.bootstrap_servers, "linger.ms": 1})
            for number in count():
                if over.is_set():
                    break
                producer.produce(topic, b"x", b"k%d" % (number % 50))
                if number % 10 == 9:
                    producer.flush(30)
            assert producer.flush(30) == 0
            written.append(number)

        threads.append(threading.Thread(target=write))
        threads[0].start()

        def end():
            over.set()
            threads[0].join(30)
            return written[0]

        return end

    yield begin
    over.set()
    for thread in threads:
        thread.join(30)


def counted_twice(rows):
    first = rows.group_by_key().count(name="first").to_stream()
    again = first.map(lambda row: Record(row.key, row.value, row.timestamp, row.context))
    return again.via(Flow.group_by_key().count(name="second").to_stream())


@pytest.mark.expects_log("does not belong to any step of this run")  # other tests have changelogs that begin alike
def test_what_both_have_counted_is_committed_while_rows_keep_coming(cluster, system, feed, wait_for, committed_of):
    # The second stage did not pass a mark that had come before its commit interval was over -> the first waited for the sinks to do that mark ->
    # it passed no further mark -> the second stage waited for one, as long as rows came behind the last.
    topic = "twice"
    end = feed(topic)
    source = counted_twice(records(settings_of(cluster, topic), topic))
    control, done = source.to_mat(Sink.ignore(), Keep.both).run(system)
    wait_for(lambda: committed_of(topic) > 0)
    before = committed_of(topic)
    wait_for(lambda: committed_of(topic) > before)
    rows = end()
    wait_for(lambda: committed_of(topic) == rows)
    control.shutdown()
    done.result(30)


def test_in_a_transaction_too(cluster, system, feed, wait_for, committed_of, read_all):
    topic = "twice-in-a-transaction"
    cluster.create_topic("out-" + topic, partitions=1)
    end = feed(topic)
    writing = ProducerSettings(cluster.bootstrap_servers, transactional_id=topic, commit_interval_ms=20)
    source = counted_twice(records(settings_of(cluster, topic), topic))
    written = source.map(lambda row: ProducerRecord("out-" + topic, b"%d" % row.value, row.key))
    control, done = written.to_mat(Transactional.sink(writing), Keep.both).run(system)
    wait_for(lambda: committed_of(topic) > 0)
    rows = end()
    wait_for(lambda: committed_of(topic) == rows)
    control.shutdown()
    done.result(30)
    assert len(read_all("out-" + topic)) == rows


def test_where_offsets_are_committed_by_hand_too(cluster, system, feed, wait_for, committed_of, read_all):
    topic = "twice-by-hand"
    end = feed(topic)
    source = Consumer.committable_source(settings_of(cluster, topic), Subscriptions.topics(topic))
    by_hand = source.also_to(Flow.map(lambda message: message.offset).to(Committer.sink(CommitterSettings())))
    rows = by_hand.map(lambda message: Record(message.record.key, b"x", message.record.timestamp, message.record))
    control, done = counted_twice(rows).to_mat(Sink.ignore(), Keep.both).run(system)

    def entries():
        return [len(read_all(f"{topic}-{store}-store-changelog")) for store in ("first", "second")]

    wait_for(lambda: committed_of(topic) > 0 and all(entries()))
    before = entries()
    wait_for(lambda: all(now > then for now, then in zip(entries(), before, strict=True)))
    end()
    control.shutdown()
    done.result(30)
