"""RetryTopics and Producer.dead_letter_sink on a real broker: what fails is tried again later, and nothing is lost or committed too early."""

from __future__ import annotations

import queue

import pytest
from confluent_kafka import Producer as BareProducer

from streamactors import Flow, Keep, RestartSettings, Sink, Source
from streamactors.clock import SystemClock
from streamactors.errors import BuildError
from streamactors.kafka import (
    Consumer,
    MetadataClient,
    Producer,
    ProducerRecord,
    ProducerSettings,
    RetryTopics,
    Subscriptions,
    Transactional,
)
from streamactors.kafka.dead_letters import StoredLetter
from streamactors.kafka.errors import RecordError

QUICK = RestartSettings("1ms", "1ms", random_factor=0)
WAIT = 60


def written(cluster, topic, records, partitions=1):
    cluster.create_topic(topic, partitions=partitions)
    producer = BareProducer({"bootstrap.servers": cluster.bootstrap_servers, "linger.ms": 1})
    for key, value in records:
        producer.produce(topic, value, key, timestamp=1_700_000_000_000, headers=[("own", b"1")])
    assert producer.flush(10) == 0


def letters(settings, topic, system):
    source = Consumer.plain_source(settings.with_group_id("look"), Subscriptions.topics(topic), until="end")
    records = source.run_with(Sink.to_list(), system).result(WAIT)
    return [StoredLetter.read(record.key, record.value, record.headers) for record in records]


def everything_is_committed(settings, topics):
    with MetadataClient(settings) as client:
        for topic in topics:
            partitions = client.partitions_for(topic)
            ends = {key: end for key, end in client.end_offsets(partitions).items() if end}
            assert client.committed(list(ends)) == ends


def test_a_record_that_fails_goes_through_the_retry_topics_to_the_dead_letters(
    cluster, settings, producer_settings, system
):
    written(cluster, "bills", [(b"a", b"well"), (b"b", b"twice"), (b"a", b"never"), (b"a", b"also well")])
    retries = RetryTopics(settings.group_id[:20], "bills", delays=["30ms", "60ms"], dead_letters="bills-dead")
    retries.create(settings, partitions=1)
    tried = []

    def bill(record):
        letter = StoredLetter.read(record.key, record.value, record.headers)
        now_ms = SystemClock().wall_ms()
        tried.append((record.value, record.topic))
        assert letter is None or letter.due_ms <= now_ms
        if record.value == b"never" or (record.value == b"twice" and record.topic != retries.names[1]):
            raise ValueError("no money")
        return record.value

    flow = Flow.map(bill).retry(2, QUICK, dead_letters=retries.sink(producer_settings))
    source = retries.source(settings).via(flow)
    control, done = source.take(3).to_mat(Sink.to_list(), Keep.both).run(system)
    assert done.result(WAIT) == [b"well", b"also well", b"twice"]
    control.is_shutdown.result(WAIT)

    rest = retries.source(settings, until="end").via(flow).to_mat(Sink.to_list(), Keep.both)
    for _ in range(3):  # a bounded read ends before what it has put into the retry topics itself
        control, done = rest.run(system)
        assert set(done.result(WAIT)) <= {b"twice"}
        control.is_shutdown.result(WAIT)
    (dead,) = letters(settings, "bills-dead", system)
    assert (dead.value, dead.key, dead.headers) == (b"never", b"a", (("own", b"1"),))
    assert dead.source == "bills-0@2"
    assert dead.timestamp_ms == 1_700_000_000_000
    assert dead.error == "ValueError: no money"
    assert dead.attempts >= 6
    assert dead.due_ms is None
    first, second = retries.names
    for topic in ("bills", first, second):
        assert tried.count((b"never", topic)) >= 2, "each topic stands for two attempts"
    everything_is_committed(settings, ["bills", first, second])


def test_a_partition_that_waits_holds_up_no_other_and_says_why(cluster, settings, producer_settings, system):
    written(cluster, "slow-bills", [(b"a", b"bad"), (b"a", b"good")])
    retries = RetryTopics("slow", "slow-bills", delays=["1h"], dead_letters="slow-dead")
    retries.create(settings, partitions=1)

    def bill(record):
        if record.value == b"bad":
            raise ValueError("no money")
        return record.value

    flow = Flow.map(bill).retry(1, QUICK, dead_letters=retries.sink(producer_settings))
    got = queue.Queue()
    control, done = retries.source(settings).via(flow).to_mat(Sink.foreach(got.put), Keep.both).run(system)
    assert got.get(timeout=WAIT) == b"good"
    waiting = f"{retries.names[0]}-0"

    def paused_by():
        found = control.snapshot()["partitions"]
        return next((p["paused_by"] for name, p in found.items() if str(name) == waiting), None)

    while paused_by() != "delay":
        pass  # each look waits for the consumer's answer
    producer = BareProducer({"bootstrap.servers": cluster.bootstrap_servers})
    producer.produce("slow-bills", b"more", b"a")
    assert producer.flush(10) == 0
    assert got.get(timeout=WAIT) == b"more"
    control.stop()
    done.result(WAIT)
    control.is_shutdown.result(WAIT)
    with MetadataClient(settings) as client:
        assert client.committed([("slow-bills", 0)]) == {("slow-bills", 0): 3}
        assert client.committed([(retries.names[0], 0)]) in ({}, {(retries.names[0], 0): 0})


def test_in_transactions_results_retries_and_positions_are_committed_together(cluster, settings, system):
    written(cluster, "paid", [(b"k", b"%d" % i) for i in range(40)])
    cluster.create_topic("receipts", partitions=1)
    retries = RetryTopics("pay", "paid", delays=["1ms"], dead_letters="paid-dead")
    retries.create(settings, partitions=1)
    writing = ProducerSettings(cluster.bootstrap_servers).with_transactional_id("pay")

    def pay(record):
        number = int(record.value)
        if number % 4 == 0 and (record.topic == "paid" or number % 8 == 0):
            raise ValueError("no money")
        return ProducerRecord("receipts", record.value, record.key)

    for _ in range(2):  # the second run tries what the first has put into the retry topic
        flow = Flow.map(pay).retry(1, QUICK, dead_letters=retries.sink(writing))
        source = retries.source(settings, transactional=True, until="end")
        control, done = source.via(flow).to_mat(Transactional.sink(writing), Keep.both).run(system)
        done.result(WAIT)
        control.is_shutdown.result(WAIT)
    receipts = Consumer.plain_source(settings.with_group_id("look"), Subscriptions.topics("receipts"), until="end")
    values = receipts.map(lambda r: int(r.value)).run_with(Sink.to_list(), system).result(WAIT)
    assert sorted(values) == [i for i in range(40) if i % 8]
    assert sorted(int(each.value) for each in letters(settings, "paid-dead", system)) == [0, 8, 16, 24, 32]


def test_records_read_by_serdes_become_bytes_again(cluster, settings, producer_settings, system):
    written(cluster, "typed", [(b"a", b'{"n": 1}'), (b"b", b'{"n": 0}')])
    cluster.create_topic("typed-dead", partitions=1)
    sink = Producer.dead_letter_sink(producer_settings, "typed-dead", key="string", value="json")
    source = Consumer.records(settings, Subscriptions.topics("typed"), key="string", value="json", until="end")
    flow = Flow.map(lambda record: 6 // record.value["n"]).retry(3, QUICK, dead_letters=sink)
    control, done = source.via(flow).to_mat(Sink.to_list(), Keep.both).run(system)
    assert done.result(WAIT) == [6]
    control.is_shutdown.result(WAIT)
    (dead,) = letters(settings, "typed-dead", system)
    assert (dead.key, dead.value, dead.source, dead.attempts) == (b"b", b'{"n":0}', "typed-0@1", 3)
    assert "ZeroDivisionError" in dead.error


def test_what_has_no_origin_is_refused_with_the_way_out(producer_settings, system):
    sink = Producer.dead_letter_sink(producer_settings, "nowhere")
    flow = Flow.map(lambda x: 1 // x).retry(1, QUICK, dead_letters=sink)
    with pytest.raises(RecordError, match="is not a record of a topic"):
        Source.single(0).via(flow).run_with(Sink.ignore(), system).result(WAIT)
    with pytest.raises(BuildError, match="delays must be a list"):
        RetryTopics("x", "orders", delays="10s", dead_letters="dead")
    with pytest.raises(BuildError, match="delays"):
        RetryTopics("x", "orders", delays=["soon"], dead_letters="dead")
