"""A missing right is told by its operation, its resource and the user, with the command that gives it."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaException

from streamactors import Sink, Source
from streamactors.broker import Acl, Cluster
from streamactors.kafka import (
    Consumer,
    ConsumerSettings,
    DeadLetters,
    MetadataClient,
    Producer,
    ProducerRecord,
    ProducerSettings,
    SendProducer,
    Subscriptions,
    Transactional,
)
from streamactors.kafka.client.admin import Admin
from streamactors.kafka.client.producer import StreamProducer
from streamactors.kafka.errors import ConsumerFailed, KafkaError, ProducerFailed, RecordError, TopicError

ACLS = [
    *(Acl("boss", "ALL", kind, "*") for kind in ("TOPIC", "GROUP", "TRANSACTIONAL_ID")),
    Acl("sees", "DESCRIBE", "TOPIC", "*"),
    Acl("reads", "READ", "TOPIC", "orders"),
    Acl("groups", "READ", "GROUP", "*"),
    Acl("other", "WRITE", "TOPIC", "other"),
    Acl("other", "DESCRIBE", "TOPIC", "orders"),
    Acl("other", "WRITE", "TRANSACTIONAL_ID", "t"),
]
RECORD = ProducerRecord("orders", b"1")


@pytest.fixture(scope="module")
def guarded() -> Iterator[Cluster]:
    with Cluster(users={acl.principal: "pw" for acl in ACLS} | {"nobody": "pw"}, acls=ACLS) as cluster:
        for topic in ("orders", "empty", "other"):
            cluster.create_topic(topic)
        yield cluster


def reading(cluster, user, group="g"):
    properties = cluster.client_properties(user)
    return ConsumerSettings(properties.pop("bootstrap.servers"), group, "earliest", properties=properties)


def writing(cluster, user, **more):
    properties = cluster.client_properties(user)
    return ProducerSettings(properties.pop("bootstrap.servers"), properties=properties, **more)


def lacks(user, *rights):
    told = ", ".join(f"{operation} {kind} {name}" for operation, kind, name in rights)
    commands = "; ".join(
        f"streamactors acls add {user} {operation.lower()} {kind.replace(' ', '_')} {name}"
        for operation, kind, name in rights
    )
    return re.escape(f"user {user} may not {told} at ") + ".*" + re.escape(f"allows it with: {commands}")


WRITE = ("WRITE", "topic", "orders")


@pytest.mark.parametrize("user", ["nobody", "sees", "reads", "other"])
def test_a_sink_without_the_right_to_write_names_it(guarded, system, user):
    # "sees" and "reads" may write no topic at all: the producer got no id, and its records read "Purged in queue (_PURGE_QUEUE)"
    with pytest.raises(RecordError, match=lacks(user, WRITE)):
        Source.single(RECORD).run_with(Producer.plain_sink(writing(guarded, user)), system).result(30)


def test_a_producer_without_a_stream_names_it_too(guarded):
    with SendProducer(writing(guarded, "sees")) as producer, pytest.raises(RecordError, match=lacks("sees", WRITE)):
        producer.send(RECORD).result(30)


def test_the_exception_of_a_refused_record_keeps_no_frame_of_the_producer(guarded):
    # the client of librdkafka ends with its last reference, and a thread may keep its last exception for long
    producer = StreamProducer(writing(guarded, "nobody"))
    handled: list[BaseException | None] = []
    try:
        producer.start().result(30)
        while not handled:  # the first records are taken, until the broker has answered that the user may not write
            producer.produce_all([RECORD], [lambda *_: None], lambda *_: handled.append(sys.exception()))
    finally:
        producer.close(drop=True).result(30)
    assert isinstance(handled[0], KafkaException)
    assert handled[0].__traceback__ is None


@pytest.mark.parametrize(
    ("user", "error", "right"),
    [
        ("sees", ProducerFailed, ("WRITE", "transactional id", "t")),
        ("other", ProducerFailed, WRITE),
    ],
)
def test_a_transactional_sink_names_it(guarded, system, user, error, right):
    sink = Transactional.sink(writing(guarded, user, transactional_id="t"))
    with pytest.raises(error, match=lacks(user, right)):
        Source.single(RECORD).run_with(sink, system).result(30)


def test_dead_letters_name_it(guarded, system):
    Source.single(RECORD).run_with(Producer.plain_sink(writing(guarded, "boss")), system).result(30)

    def fails(_):
        raise ValueError

    source = Consumer.records(
        reading(guarded, "boss", "letters"),
        Subscriptions.topics("orders"),
        value=fails,
        dead_letters=DeadLetters("dead", writing(guarded, "other")),
    )
    with pytest.raises(RecordError, match=lacks("other", ("WRITE", "topic", "dead"))):
        source.run_with(Sink.ignore(), system).result(30)


@pytest.mark.parametrize("topic", ["orders", "empty"])
@pytest.mark.parametrize("until", ["end", None])
def test_a_source_names_every_right_that_it_lacks(guarded, system, topic, until):
    source = Consumer.source(reading(guarded, "nobody"), Subscriptions.topics(topic), until=until)
    with pytest.raises(ConsumerFailed, match=lacks("nobody", ("READ", "topic", topic), ("READ", "group", "g"))):
        source.run_with(Sink.ignore(), system).result(30)


def test_a_source_without_the_right_to_its_group_names_it(guarded, system):
    source = Consumer.source(reading(guarded, "reads"), Subscriptions.topics("orders"))
    with pytest.raises(ConsumerFailed, match=lacks("reads", ("READ", "group", "g"))):
        source.run_with(Sink.ignore(), system).result(30)


def test_a_bounded_read_of_an_empty_topic_needs_the_right_to_read(guarded, system):
    # no fetch was made, so none was refused: success with no rows
    source = Consumer.plain_source(reading(guarded, "sees", None), Subscriptions.assignment(("empty", 0)), until="end")
    with pytest.raises(ConsumerFailed, match=lacks("sees", ("READ", "topic", "empty"))):
        source.run_with(Sink.ignore(), system).result(30)


def test_the_admin_client_names_the_operation(guarded):
    admin = Admin(reading(guarded, "sees"))
    with pytest.raises(TopicError, match=lacks("sees", ("CREATE", "topic", "new"))):
        admin.create("new")
    with pytest.raises(TopicError, match=lacks("sees", ("DELETE", "topic", "orders"))):
        admin.delete("orders")
    with pytest.raises(TopicError, match=lacks("sees", ("ALTER_CONFIGS", "topic", "orders"))):
        admin.alter("orders", {"retention.ms": "1"})
    with pytest.raises(KafkaError, match=lacks("sees", ("DESCRIBE", "group", "g"))):
        admin.describe_group("g")
    with pytest.raises(
        KafkaError, match=r"user sees may not DESCRIBE the cluster at .* acls add sees describe cluster\n"
    ):
        admin.acls()
    with (
        MetadataClient(reading(guarded, "nobody")) as client,
        pytest.raises(KafkaError, match="may not DESCRIBE topic"),
    ):
        client.partitions_for("orders")  # it read "no topic orders; create it"
