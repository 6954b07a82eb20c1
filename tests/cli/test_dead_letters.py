"""`streamactors dead-letters`: looking at the records that could not be read, and sending them again."""

from __future__ import annotations

import json

import pytest

from streamactors import ActorSystem, Flow, Keep, Sink
from streamactors.kafka import Consumer, ConsumerSettings, RetryTopics, SendProducer, Subscriptions
from streamactors.kafka.producer_record import ProducerRecord
from streamactors.kafka.settings import ProducerSettings


@pytest.fixture
def buried(broker, request):
    """A topic with three bad orders among five, and the topic in which they ended."""
    topic = request.node.name.removeprefix("test_")[:40]
    dead = f"{topic}-dead"
    broker.create_topic(topic, partitions=2)
    broker.create_topic(dead, partitions=1)
    with SendProducer(ProducerSettings(broker.bootstrap_servers)) as producer:
        for i, value in enumerate([b"1", b"{", b"3", b"\xff\xfe", b"["]):
            headers = [("source", b"till %d" % i)]
            producer.send(ProducerRecord(topic, value, b"key %d" % i, i % 2, 1_700_000_000_000 + i, headers)).result(30)
    read_orders(broker, topic, dead)
    return topic, dead


def read_orders(broker, topic, dead):
    settings = ConsumerSettings(broker.bootstrap_servers, group_id=f"read {topic}", auto_offset_reset="earliest")
    source = Consumer.records(settings, Subscriptions.topics(topic), value="json", dead_letters=dead, until="end")
    with ActorSystem("orders") as system:
        control, done = source.map(lambda record: record.value).to_mat(Sink.to_list(), Keep.both).run(system)
        values = done.result(60)
        control.is_shutdown.result(60)
    return values


def records_of(broker, topic):
    settings = ConsumerSettings(broker.bootstrap_servers, group_id="look", auto_offset_reset="earliest")
    with ActorSystem("look") as system:
        found = Consumer.plain_source(settings, Subscriptions.topics(topic), until="end").run_with(
            Sink.to_list(), system
        )
        return sorted(found.result(60), key=lambda record: (record.partition, record.offset))


def test_topics_that_hold_dead_letters_are_found(streamactors, buried):
    topic, dead = buried
    code, out, _ = streamactors("dead-letters", "list", "--json")
    assert code == 0
    found = {row["topic"]: row["dead_letters"] for row in map(json.loads, out.splitlines())}
    assert found[dead] == 3
    assert topic not in found


def test_a_list_names_source_stage_and_error(streamactors, buried):
    topic, dead = buried
    code, out, _ = streamactors("dead-letters", "list", dead)
    assert code == 0
    assert f"{topic}-1@0" in out
    assert "JSONDecodeError" in out
    assert "Consumer.records" in out


def test_one_is_shown_whole_without_the_headers_that_made_it_a_letter(streamactors, buried):
    topic, dead = buried
    places = [
        row["letter"] for row in map(json.loads, streamactors("dead-letters", "list", dead, "--json")[1].splitlines())
    ]
    shown = [json.loads(streamactors("dead-letters", "show", dead, place, "--json")[1]) for place in places]
    second = next(each for each in shown if each["key"] == "key 3")
    assert (second["topic"], second["partition"], second["offset"]) == (topic, 1, 1)
    assert second["timestamp_ms"] == 1_700_000_000_003
    assert "value_base64" in second
    assert second["headers"] == [{"name": "source", "value": "till 3"}]
    code, out, _ = streamactors("dead-letters", "show", dead, places[0])
    assert code == 0
    assert shown[0]["key"] in out  # which of the two partitions was read first is not said


def test_replay_sends_each_record_to_where_it_came_from_once(streamactors, buried, broker):
    topic, dead = buried
    code, out, _ = streamactors("dead-letters", "replay", dead, "--dry-run")
    assert (code, out) == (0, "3 dead letters would be sent\n")
    before = records_of(broker, topic)
    code, out, _ = streamactors("dead-letters", "replay", dead)
    assert (code, out) == (0, "3 dead letters sent\n")
    again = [record for record in records_of(broker, topic) if (record.partition, record.offset) not in _places(before)]
    assert {(r.key, r.value, r.partition, r.timestamp, r.headers) for r in again} == {
        (b"key 1", b"{", 1, 1_700_000_000_001, (("source", b"till 1"),)),
        (b"key 3", b"\xff\xfe", 1, 1_700_000_000_003, (("source", b"till 3"),)),
        (b"key 4", b"[", 0, 1_700_000_000_004, (("source", b"till 4"),)),
    }
    assert streamactors("dead-letters", "replay", dead)[:2] == (0, "0 dead letters sent\n"), "they have been replayed"
    read_orders(broker, topic, dead)
    assert streamactors("dead-letters", "replay", dead)[:2] == (0, "3 dead letters sent\n"), "and failed once more"


def _places(records):
    return {(record.partition, record.offset) for record in records}


def test_those_named_go_to_the_topic_named(streamactors, buried, broker):
    _, dead = buried
    target = f"{dead}-by-hand"
    broker.create_topic(target, partitions=1)
    code, out, _ = streamactors("dead-letters", "replay", dead, "0@0", "0@2", "--to", target)
    assert (code, out) == (0, "2 dead letters sent\n")
    letters = records_of(broker, dead)
    assert [(r.key, r.value) for r in records_of(broker, target)] == [
        (letters[i].key, letters[i].value) for i in (0, 2)
    ]


def test_letters_that_cannot_be_sent_are_named_and_the_others_are_sent(streamactors, buried, broker):
    topic, dead = buried
    headers = [("dead-letter.topic", topic.encode()), ("dead-letter.partition", b"9"), ("dead-letter.offset", b"0")]
    with SendProducer(ProducerSettings(broker.bootstrap_servers)) as producer:
        producer.send(ProducerRecord(dead, b"of a partition that is gone", headers=headers)).result(30)
    before = len(records_of(broker, topic))
    code, out, err = streamactors("dead-letters", "replay", dead, "0@3", "0@0")
    assert (code, out) == (1, "")
    assert "1 of 2 dead letters not sent; 0@3: " in err
    assert "partition" in err
    assert len(records_of(broker, topic)) == before + 1


def test_what_is_no_letter_is_told_in_one_line(streamactors, buried, broker):
    topic, dead = buried
    code, _, err = streamactors("dead-letters", "show", dead, "0@99")
    assert code == 1
    assert f"there is no dead letter at {dead} 0@99" in err
    code, _, err = streamactors("dead-letters", "show", topic, "0@0")
    assert code == 1
    assert "no dead letter" in err
    code, _, err = streamactors("dead-letters", "show", dead, "first")
    assert code == 2
    assert "PARTITION@OFFSET" in err
    code, _, err = streamactors("dead-letters", "list", "nowhere")
    assert code == 1
    assert "nowhere" in err
    assert err.count("\n") == 1


def test_records_beside_the_letters_are_left_alone(streamactors, buried, broker):
    _, dead = buried
    with SendProducer(ProducerSettings(broker.bootstrap_servers)) as producer:
        producer.send(ProducerRecord(dead, b"by hand", headers=[("dead-letter.topic", b"x")])).result(30)
    assert streamactors("dead-letters", "replay", dead)[:2] == (0, "3 dead letters sent\n")


def test_a_dead_letter_of_retry_topics_is_replayed_to_its_first_topic_and_a_retry_topic_is_refused(
    streamactors, broker
):
    broker.create_topic("bills", partitions=1)
    writing = ProducerSettings(broker.bootstrap_servers)
    with SendProducer(writing) as producer:
        producer.send(ProducerRecord("bills", b"1", b"k", None, 1_700_000_000_000, [("own", b"x")])).result(30)
    retries = RetryTopics("bills", "bills", delays=["1ms"], dead_letters="bills-dead")
    settings = ConsumerSettings(broker.bootstrap_servers, group_id="bills", auto_offset_reset="earliest")
    retries.create(settings, partitions=1)
    flow = Flow.map(lambda record: 1 // 0).retry(2, "1ms", dead_letters=retries.sink(writing))
    with ActorSystem("bills") as system:
        for _ in range(2):
            source = retries.source(settings, until="end").via(flow)
            control, done = source.to_mat(Sink.ignore(), Keep.both).run(system)
            done.result(60)
            control.is_shutdown.result(60)
    code, _, err = streamactors("dead-letters", "replay", "bills-retry-1")
    assert code != 0
    assert "is a retry topic" in err
    shown = json.loads(streamactors("dead-letters", "show", "bills-dead", "0@0", "--json").out)
    assert (shown["topic"], shown["offset"], shown["attempts"], shown["due_ms"]) == ("bills", 0, 4, None)
    streamactors("dead-letters", "replay", "bills-dead")
    first, again = records_of(broker, "bills")
    assert (again.value, again.key, again.headers, again.timestamp) == (
        first.value,
        first.key,
        first.headers,
        first.timestamp,
    )
