"""Transactional copies whose group rebalances: the transaction is completed, or aborted and written again; no run fails of it."""

from __future__ import annotations

import threading

import pytest
from confluent_kafka import Producer

from streamactors import Keep, Sink, Source
from streamactors.kafka import (
    Consumer,
    ProducerMessage,
    ProducerRecord,
    ProducerSettings,
    Subscriptions,
    TopicPartition,
    Transactional,
)
from streamactors.kafka.client import bounded_call
from streamactors.kafka.client.producer import StreamProducer
from streamactors.kafka.errors import ProducerFailed, RecordError
from streamactors.kafka.reading.consumer_actor import ConsumerActor
from tests.history import Outcome, Poll, Read, Send, Write, check
from tests.kafka._members import WAYS, member_settings
from tests.kafka.test_rebalances import PARTITIONS


def copy(cluster, settings, topic, target, name, commit_interval_ms=20):
    producer = ProducerSettings(
        cluster.bootstrap_servers,
        transactional_id=name,
        commit_interval_ms=commit_interval_ms,
        preflight_timeout_ms=30_000,
    )
    return (
        Transactional.source(settings, Subscriptions.topics(topic))
        .map(lambda record: ProducerRecord(target, record.value, partition=record.partition))
        .to_mat(Transactional.sink(producer), Keep.both)
    )


def send(cluster, topic, values, partitions):
    """Write values round robin, and return what the history says of it."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "enable.idempotence": True, "log_level": 0})
    for i, value in enumerate(values):
        producer.produce(topic, b"%d" % value, partition=i % partitions)
    assert producer.flush(60) == 0


def judged(source, target, messages, values, partitions):
    """What is wrong with a copy: everything written counts as acknowledged where it was to be copied to."""
    writes = tuple(Write((target, i % partitions), value) for i, value in enumerate(values))
    reads = tuple(Read((target, m.partition()), m.offset(), int(m.value())) for m in messages)
    return check([Send(source, Outcome.OK, writes), Poll("reader", reads, final=True)])


@pytest.mark.slow
@pytest.mark.parametrize("strategy", WAYS)
def test_members_come_and_go_under_load_and_every_record_is_copied_once_and_in_order(
    cluster, settings, system, wait_for, committed, read_all, strategy
):
    topic, target, each = f"moved-{strategy}", f"moved-to-{strategy}", 500
    cluster.create_topic(topic, partitions=PARTITIONS)
    cluster.create_topic(target, partitions=PARTITIONS)
    quick = member_settings(settings, strategy)
    values = list(range(each * PARTITIONS * 5))
    rounds = [values[i : i + each * PARTITIONS] for i in range(0, len(values), each * PARTITIONS)]
    members = []

    def shared_by(n):
        return lambda: sorted(len(c.snapshot().get("partitions", {})) for c, _ in members) == [PARTITIONS // n] * n

    def grow(n):
        members.append(copy(cluster, quick, topic, target, f"{strategy}-{n}").run(system))

    for n in (1, 2, 3):
        send(cluster, topic, rounds.pop(), PARTITIONS)
        grow(n)
        wait_for(shared_by(n))
    for n in (2, 1):
        send(cluster, topic, rounds.pop(), PARTITIONS)
        control, done = members.pop(0)
        control.stop()
        done.result(60)
        wait_for(shared_by(n))
    wait_for(lambda: set(committed(topic, PARTITIONS).values()) == {each * 5})
    for control, done in members:
        control.stop()
        done.result(60)
        control.is_shutdown.result(60)
    messages = read_all(target, PARTITIONS)
    assert judged(topic, target, messages, values, PARTITIONS) == []
    assert len(messages) == len(values)


def test_a_transaction_refused_for_a_stale_membership_is_written_again(
    cluster, settings, system, wait_for, committed, read_all, monkeypatch, caplog
):
    caplog.set_level("INFO", "streamactors.kafka")
    cluster.create_topic("stale", partitions=2)
    cluster.create_topic("stale-out", partitions=2)
    genuine, first, stale = StreamProducer.send_offsets, [], []

    def send_offsets(producer, offsets, group, timeout_s):
        first.append(group)
        genuine(producer, offsets, first[0] if stale and stale.pop() else group, timeout_s)

    monkeypatch.setattr(StreamProducer, "send_offsets", send_offsets)
    send(cluster, "stale", range(100), 2)
    control, done = copy(cluster, settings, "stale", "stale-out", "stale-1").run(system)
    wait_for(lambda: set(committed("stale", 2).values()) == {50})
    other, other_done = copy(cluster, settings, "stale", "stale-out", "stale-2").run(system)
    wait_for(lambda: len(other.snapshot().get("partitions", {})) == len(control.snapshot()["partitions"]) == 1)
    stale.append(True)  # the generation of the time when it was alone: the broker refuses it
    send(cluster, "stale", range(100, 200), 2)
    wait_for(lambda: set(committed("stale", 2).values()) == {100})
    assert not stale
    assert not done.done()
    assert not other_done.done()
    for each, end in ((control, done), (other, other_done)):
        each.stop()
        end.result(60)
        each.is_shutdown.result(60)
    assert judged("stale", "stale-out", read_all("stale-out", 2), range(200), 2) == []
    assert caplog.text.count("the transaction is aborted and written again") == 1


def test_a_flow_that_has_told_where_its_records_are_fails_of_a_stale_membership_with_the_way_out(
    cluster, settings, system, wait_for, monkeypatch
):
    cluster.create_topic("told", partitions=2)
    cluster.create_topic("told-out", partitions=2)
    genuine, first, stale = ConsumerActor.group_metadata, [], []

    def group_metadata(actor):
        first.append(genuine(actor))
        return first[0] if stale else first[-1]

    monkeypatch.setattr(ConsumerActor, "group_metadata", group_metadata)
    producer = ProducerSettings(
        cluster.bootstrap_servers, transactional_id="told", commit_interval_ms=20, on_fenced="fail"
    )
    send(cluster, "told", range(10), 2)
    control, done = (
        Transactional.source(settings, Subscriptions.topics("told"))
        .map(lambda record: ProducerMessage.message(ProducerRecord("told-out", record.value)))
        .via(Transactional.flow(producer))
        .to_mat(Sink.ignore(), Keep.both)
        .run(system)
    )
    wait_for(lambda: first)
    other, other_done = (
        Consumer.source(settings, Subscriptions.topics("told")).to_mat(Sink.ignore(), Keep.both).run(system)
    )
    wait_for(lambda: len(other.snapshot()["partitions"]) == len(control.snapshot()["partitions"]) == 1)
    stale.append(True)
    send(cluster, "told", range(100), 2)
    error = done.exception(60)
    assert isinstance(error, ProducerFailed), error
    assert "ILLEGAL_GENERATION" in str(error)
    assert "put the graph into a RestartSource, or write by Transactional.sink" in str(error)
    other.stop()
    other_done.result(60)


@pytest.mark.slow
@pytest.mark.parametrize("strategy", WAYS[::2])
def test_a_partition_that_is_taken_away_does_not_wait_for_the_commit_interval(
    cluster, settings, system, wait_for, committed, read_all, strategy
):
    topic, out = f"hurried-{strategy}", f"hurried-{strategy}-out"
    cluster.create_topic(topic, partitions=2)
    cluster.create_topic(out, partitions=2)
    slow = member_settings(settings, strategy)
    send(cluster, topic, range(100), 2)
    control, done = copy(cluster, slow, topic, out, f"{topic}-1", commit_interval_ms=600_000).run(system)
    wait_for(lambda: len(read_all(out, 2, isolation="read_uncommitted")) == 100)
    assert read_all(out, 2) == []
    other, other_done = copy(cluster, slow, topic, out, f"{topic}-2").run(system)
    wait_for(lambda: set(committed(topic, 2).values()) == {50})
    assert not done.done()
    for each, end in ((control, done), (other, other_done)):
        each.stop()
        end.result(60)
        each.is_shutdown.result(60)
    assert judged(topic, out, read_all(out, 2), range(100), 2) == []


def test_the_error_of_a_run_is_what_failed_its_transaction(cluster, system):
    cluster.create_topic("lost-in-transaction", partitions=1)
    settings = ProducerSettings(
        cluster.bootstrap_servers,
        transactional_id="lost-in-transaction",
        transaction_timeout_ms=1_000,  # librdkafka's commit waits that long for the record behind the lost one
        preflight_timeout_ms=30_000,
        properties={"message.max.bytes": 3_000_000, "linger.ms": 0},
    )
    records = [ProducerRecord("lost-in-transaction", value) for value in (b"a", bytes(2_000_000), b"b")]
    done = Source.from_iterable(records).run_with(Transactional.sink(settings), system)
    error = done.exception(60)
    assert isinstance(error, RecordError), error
    assert "a record of 2000000 bytes was not delivered" in str(error)
    assert "MSG_SIZE_TOO_LARGE" in str(error)


class Stuck:
    """librdkafka's client, whose call for the read positions does not come back until it is let go."""

    def __init__(self, genuine):
        self._genuine = genuine
        self.asked, self.let_go = threading.Event(), threading.Event()

    def __getattr__(self, name):
        return getattr(self._genuine, name)

    def __len__(self):
        return len(self._genuine)

    def send_offsets_to_transaction(self, *_):
        self.asked.set()
        self.let_go.wait()


def test_a_run_fails_when_librdkafka_does_not_come_back_and_the_next_one_goes_on(
    cluster, settings, system, wait_for, committed, read_all, monkeypatch
):
    # The coordinator of the group had left the cluster: librdkafka waited for it forever, and so did the stream.
    cluster.create_topic("stuck", partitions=2)
    cluster.create_topic("stuck-out", partitions=2)
    genuine, stuck = StreamProducer.send_offsets, []

    def send_offsets(producer, *told):
        if not stuck:
            producer._client = Stuck(producer._client)
            stuck.append(producer._client)
        genuine(producer, *told)

    monkeypatch.setattr(StreamProducer, "send_offsets", send_offsets)
    monkeypatch.setattr(bounded_call, "GRACE_S", -9.9)  # of the ten seconds that the call may take by itself
    send(cluster, "stuck", range(100), 2)
    control, done = copy(cluster, settings, "stuck", "stuck-out", "stuck").run(system)
    error = done.exception(60)
    assert isinstance(error, ProducerFailed), error
    assert "librdkafka has not taken the read positions in 0.1 s" in str(error)
    control.is_shutdown.exception(60)
    monkeypatch.undo()
    again, done = copy(cluster, settings, "stuck", "stuck-out", "stuck").run(system)
    wait_for(lambda: set(committed("stuck", 2).values()) == {50})
    again.stop()
    done.result(60)
    again.is_shutdown.result(60)
    stuck[0].let_go.set()
    assert judged("stuck", "stuck-out", read_all("stuck-out", 2), range(100), 2) == []


@pytest.mark.expects_log(": lost ")
def test_a_partition_that_is_lost_and_comes_back_within_a_transaction_aborts_it(
    cluster, settings, system, wait_for, read_all, monkeypatch
):
    # The records of the former assignment were committed with the positions of the new one, which had read them again.
    cluster.create_topic("back", partitions=1)
    cluster.create_topic("back-out", partitions=1)
    genuine, lose = ConsumerActor.receiveMessage, []

    def receive(actor, message, sender):
        if lose:
            lose.clear()
            (key,) = actor._context.state.partitions
            actor._rebalances.on_lost([key])
            actor._rebalances.on_assigned([key])
            assert actor._context.client.seek(key, 0)  # nothing is committed
        genuine(actor, message, sender)

    monkeypatch.setattr(ConsumerActor, "receiveMessage", receive)
    send(cluster, "back", range(100), 1)
    control, done = copy(cluster, settings, "back", "back-out", "back", commit_interval_ms=600_000).run(system)
    wait_for(lambda: len(read_all("back-out", 1, isolation="read_uncommitted")) == 100)
    lose.append(True)
    control.snapshot()  # a message, with which the partition is lost
    wait_for(lambda: len(read_all("back-out", 1, isolation="read_uncommitted")) == 200)
    control.stop()
    error = done.exception(60)
    assert isinstance(error, ProducerFailed), error
    assert "back-0 was revoked while its results were in an open transaction" in str(error)
    control.is_shutdown.exception(60)
    assert read_all("back-out", 1) == []


@pytest.mark.expects_log(": lost ")
@pytest.mark.parametrize("remembers", [False, True])
def test_a_partition_that_is_lost_with_an_open_transaction_is_read_by_its_next_owner_and_the_run_goes_on(
    cluster, settings, system, wait_for, read_all, committed, monkeypatch, caplog, remembers
):
    # The run failed, though all it had was what the next owner reads again. Here the member gets the partition back.
    name = f"gone-{remembers}"
    cluster.create_topic(name, partitions=1)
    cluster.create_topic(f"{name}-out", partitions=1)
    genuine, steps = ConsumerActor.receiveMessage, []

    def receive(actor, message, sender):
        step = steps.pop() if steps else None
        if step == "lose":
            (key,) = actor._context.state.partitions
            actor._rebalances.on_lost([key])
            for listener in list(actor._context.tracker._drain_listeners):
                listener.draining()  # commit now
        elif step == "get back":
            key = TopicPartition(name, 0)
            actor._rebalances.on_assigned([key])
            assert actor._context.client.seek(key, 0)  # nothing is committed
        genuine(actor, message, sender)

    monkeypatch.setattr(ConsumerActor, "receiveMessage", receive)
    send(cluster, name, range(100), 1)
    producer = ProducerSettings(cluster.bootstrap_servers, transactional_id=name, commit_interval_ms=600_000)
    source = Transactional.source(settings, Subscriptions.topics(name))
    if remembers:
        source = source.drop(0)
    records = source.map(lambda record: ProducerRecord(f"{name}-out", record.value, partition=0))
    control, done = records.to_mat(Transactional.sink(producer), Keep.both).run(system)
    wait_for(lambda: len(read_all(f"{name}-out", 1, isolation="read_uncommitted")) == 100)
    steps.append("lose")
    control.snapshot()  # a message, with which the partition is lost
    if remembers:
        with pytest.raises(ProducerFailed, match="was revoked while its results were in an open transaction"):
            done.result(60)
        control.is_shutdown.exception(60)
        return
    wait_for(lambda: "was revoked while its results were in an open transaction" in caplog.text)
    steps.append("get back")
    control.snapshot()
    wait_for(lambda: len(read_all(f"{name}-out", 1, isolation="read_uncommitted")) == 200)
    control.stop()
    done.result(60)
    control.is_shutdown.result(60)
    assert [int(message.value()) for message in read_all(f"{name}-out", 1)] == list(range(100))
    assert committed(name) == {0: 100}
