"""Kafka's records, messages, results and controls without a broker, in the flows that take the real ones."""

from __future__ import annotations

import pytest

from streamactors import Flow, Keep, Sink, Source
from streamactors.kafka import Committer, CommitterSettings, DrainingControl, ProducerMessage, ProducerRecord
from streamactors.kafka.subscriptions import TopicPartition
from streamactors.testing import (
    CommittableMessages,
    TestControl,
    consumer_record,
    producer_multi_result,
    producer_result,
)


def test_a_record_has_what_it_was_made_with():
    record = consumer_record(b"v", b"k", topic="t", partition=3, offset=9, timestamp=7, headers=[("h", b"x")])
    assert (record.value, record.key, record.topic, record.partition, record.offset) == (b"v", b"k", "t", 3, 9)
    assert (record.timestamp, record.headers) == (7, (("h", b"x"),))
    assert repr(record) == "ConsumerRecord(t-3@9, key=b'k', value=b'v')"
    assert consumer_record().timestamp is None


def test_a_flow_with_a_committer_commits_what_it_has_let_through():
    messages = CommittableMessages()
    given = [messages.message(b"%d" % i, partition=i % 2) for i in range(10)]
    flow = Flow.map(lambda message: message.offset).via(Committer.flow(CommitterSettings(max_batch=3)))
    Source.from_iterable(given).take(9).via(flow).run_with(Sink.ignore()).result(10)
    assert messages.committed == {TopicPartition("topic", 0): 5, TopicPartition("topic", 1): 4}
    assert messages.commits == 3
    given[9].offset.commit().result(30)
    assert messages.committed[TopicPartition("topic", 1)] == 5


def test_results_say_where_records_were_stored():
    record = ProducerRecord("t", b"v", b"k")
    result = producer_result(ProducerMessage.message(record, "pass"), partition=2, offset=5, timestamp=8)
    assert (result.metadata.topic, result.metadata.partition, result.metadata.offset) == ("t", 2, 5)
    assert (result.metadata.timestamp, result.message.record, result.pass_through) == (8, record, "pass")
    several = producer_multi_result(ProducerMessage.multi([record, record], "all"), first_offset=4)
    assert [part.offset for part in several.parts] == [4, 5]
    assert several.pass_through == "all"


def test_a_control_stands_for_a_consumers():
    source = Source.range(3).map_materialized_value(lambda _: TestControl())
    draining = source.to_mat(Sink.to_list(), DrainingControl.create).run()
    assert draining.drain_and_shutdown(timeout=10) == [0, 1, 2]
    control = Source.range(3).map_materialized_value(lambda _: TestControl()).to_mat(Sink.ignore(), Keep.left).run()
    control.pause(("t", 0), ("t", 1))
    control.resume(("t", 0))
    assert control.paused == {("t", 1)}
    assert not control.stopped
    control.shutdown().result(30)
    assert control.stopped
    failed = TestControl()
    failed.fail(ValueError("gone"))
    with pytest.raises(ValueError, match="gone"):
        failed.is_shutdown.result(30)
