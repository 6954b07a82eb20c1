"""A transactional run that has lost its partitions or its transaction begins again in its process, under the same control and future.

Partitions are lost by the consumer's own handler, called while results of them are in the open transaction. So a freeze that outlasts
the session looks to the run."""

from __future__ import annotations

import threading

import pytest
from confluent_kafka import KafkaError, Producer

from streamactors import Keep, RestartSettings, Sink
from streamactors.kafka import (
    Consumer,
    ProducerMessage,
    ProducerRecord,
    ProducerSettings,
    Subscriptions,
    Transactional,
)
from streamactors.kafka.client.diagnosis.delivery_errors import producer_failed
from streamactors.kafka.client.producer import StreamProducer
from streamactors.kafka.controls.supervised import SupervisedRun
from streamactors.kafka.errors import ProducerFailed
from streamactors.kafka.reading.consumer_actor import ConsumerActor
from streamactors.kafka.transactions import writes
from streamactors.kafka.transactions.run_transaction import transaction_of
from streamactors.metrics.kafka import ConsumerCollector
from streamactors.windows import State, TimeWindows

pytestmark = [pytest.mark.expects_log("in a row of the run in"), pytest.mark.expects_log(": lost ")]
AT_ONCE = RestartSettings("1ms", "1ms", max_restarts=3)
LATER = RestartSettings("1h", "1h")
TAKEN = "was revoked while its results were in an open transaction"


class Loss:
    """Takes partitions away from the consumers of this process."""

    def __init__(self) -> None:
        self._due = 0
        self._lock = threading.Lock()

    def later(self, times: int = 1) -> None:
        """The next message of a consumer takes its first partition away."""
        with self._lock:
            self._due = times

    def take(self, actor) -> None:
        with self._lock:
            if not self._due or not actor._context.state.partitions:
                return
            self._due -= 1
        actor._rebalances.on_lost([min(actor._context.state.partitions)])
        for listener in list(actor._context.tracker._drain_listeners):
            listener.draining()  # commit now


@pytest.fixture
def loss(monkeypatch):
    genuine, loss = ConsumerActor.receiveMessage, Loss()

    def receive(actor, message, sender):
        loss.take(actor)
        genuine(actor, message, sender)

    monkeypatch.setattr(ConsumerActor, "receiveMessage", receive)
    return loss


def send(cluster, topic, values, partitions):
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "enable.idempotence": True, "log_level": 0})
    for i, value in enumerate(values):
        producer.produce(topic, b"%d" % value, b"%d" % (value % 7), i % partitions, timestamp=1_000 + i)
    assert producer.flush(60) == 0


def writing(cluster, name, on_fenced=AT_ONCE, **more):
    return ProducerSettings(
        cluster.bootstrap_servers, transactional_id=name, commit_interval_ms=600_000, on_fenced=on_fenced, **more
    )


def copy(cluster, settings, name, on_fenced=AT_ONCE):
    return (
        Transactional.source(settings, Subscriptions.topics(name))
        .map(lambda record: ProducerRecord(f"{name}-out", record.value, partition=record.partition))
        .to_mat(Transactional.sink(writing(cluster, name, on_fenced)), Keep.both)
    )


def flow(cluster, settings, name):
    return (
        Transactional.source(settings, Subscriptions.topics(name))
        .map(
            lambda record: ProducerMessage.message(
                ProducerRecord(f"{name}-out", record.value, partition=record.partition)
            )
        )
        .via(Transactional.flow(writing(cluster, name)))
        .to_mat(Sink.ignore(), Keep.both)
    )


def counting(cluster, settings, name):
    return (
        Consumer.records(settings, Subscriptions.topics(name), value=int)
        .map(lambda record: record.replace(key=record.value % 7))
        .group_by_key()
        .windowed_by(TimeWindows.of_size("1h").with_grace("1d"))
        .count(name="seen")
        .to_stream()
        .map(lambda row: ProducerRecord(f"{name}-out", b"%d" % row.value, partition=row.context.partition))
        .to_mat(Transactional.sink(writing(cluster, name)), Keep.both)
    )


def joining(cluster, settings, name):
    topics = Consumer.topics(settings, producer=writing(cluster, name))
    numbers = topics.stream(name, key="bytes", value="json")
    counts = numbers.group_by_key().count(name="seen")
    numbers.join_table(counts, lambda number, count: count).to(f"{name}-out", key="bytes", value="json")
    graph = topics.graph()
    return graph.map_materialized_value(lambda control: (control, control.completion))


def copied(numbers):
    return sorted((value % 2, value) for value in range(numbers))


def counted(numbers):
    seen, found = {}, []
    for value in range(numbers):
        key = (value % 2, value % 7)
        seen[key] = seen.get(key, 0) + 1
        found.append((value % 2, seen[key]))
    return sorted(found)


KINDS = {
    "copy": (copy, copied),
    "counting": (counting, counted),
    "counting-on-disk": (counting, counted),
    "joining": (joining, counted),
}


@pytest.fixture
def running(cluster, settings, system, wait_for, read_all, request, tmp_path):
    """Make a topic of two partitions with 100 numbers, run a graph until it has written a result for each, and commit nothing."""

    def begin(kind, name, *, make=None, partitions=2, of=system):
        for topic in (name, f"{name}-out"):
            cluster.create_topic(topic, partitions=partitions)
        send(cluster, name, range(100), partitions)
        told = settings.with_group_id(name).with_property("isolation.level", "read_committed")
        if kind.endswith("disk"):
            told = told.with_state(State.on_disk(str(tmp_path)))
        graph = (make or KINDS[kind][0])(cluster, told, name)
        control, done = graph.run(of)
        wait_for(lambda: len(read_all(f"{name}-out", partitions, isolation="read_uncommitted")) == 100)
        return control, done

    return begin


def commit_now(control):
    """Have the run commit what it has written."""
    transaction_of(control._stands_for.run()).draining()


def written(read_all, name):
    return len(read_all(f"{name}-out", 2, isolation="read_uncommitted"))


def results(read_all, name, partitions=2):
    return sorted((message.partition(), int(message.value())) for message in read_all(f"{name}-out", partitions))


@pytest.mark.parametrize("kind", [*KINDS])
def test_a_run_whose_partition_is_taken_away_in_an_open_transaction_begins_again_and_gives_each_result_once(
    cluster, running, loss, wait_for, read_all, caplog, kind
):
    # The instance was frozen beyond its session: the run failed, and a service manager had to start the process again.
    name = f"again-{kind}"
    control, done = running(kind, name)
    commit_now(control)
    wait_for(lambda: len(read_all(f"{name}-out", 2)) == 100)  # this the restart keeps
    send(cluster, name, range(100, 120), 2)
    wait_for(lambda: written(read_all, name) == 120)
    loss.later()
    control.snapshot()  # a message, with which the partition is lost
    wait_for(lambda: written(read_all, name) == 140)
    assert not done.done()
    assert control.snapshot()["restarts"] == 1
    control.stop()
    assert done.result(60) is None
    control.is_shutdown.result(60)
    found, wanted = results(read_all, name), KINDS[kind][1](120)
    if kind == "joining":  # its results lie where the hash of their key says
        found, wanted = (sorted(value for _, value in rows) for rows in (found, wanted))
    assert found == wanted
    told = [record.getMessage() for record in caplog.records if TAKEN in record.getMessage()]
    assert len(told) == 1
    assert "restart 1 of at most 3 in a row of the run" in told[0]


@pytest.mark.parametrize("code", ["UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION"])
def test_a_stale_membership_that_the_transaction_cannot_outlive_begins_the_run_again(
    running, loss, wait_for, read_all, monkeypatch, code
):
    genuine, refusals = StreamProducer.send_offsets, [getattr(KafkaError, code)]

    def refuse(producer, *arguments):
        if refusals:
            raise producer_failed(KafkaError(refusals.pop()), "the test")
        genuine(producer, *arguments)

    monkeypatch.setattr(StreamProducer, "send_offsets", refuse)
    name = f"stale-{code}"
    control, done = running("flow", name, make=flow)
    commit_now(control)
    wait_for(lambda: control.snapshot()["restarts"] == 1)
    wait_for(lambda: written(read_all, name) == 200)
    control.stop()
    done.result(60)
    assert results(read_all, name) == copied(100)


def fence(cluster, name):
    """Be another producer with the id of the run."""
    other = Producer({"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": name, "log_level": 0})
    other.init_transactions(30)
    return other


def test_a_producer_that_another_one_has_fenced_ends_and_does_not_fence_the_other_one(cluster, running, loss):
    # Both would restart, and fence each other again and again.
    control, done = running("copy", "clones")
    other = fence(cluster, "clones")
    commit_now(control)
    error = done.exception(60)
    assert isinstance(error, ProducerFailed)
    assert "not restarted in its process: its transaction was not overdue, so another producer has the id" in str(error)
    control.is_shutdown.exception(60)
    other.begin_transaction()  # it was not fenced
    other.produce("clones-out", b"1")
    other.commit_transaction(30)


def test_a_transaction_that_the_broker_has_aborted_because_it_was_overdue_begins_the_run_again(
    cluster, running, loss, wait_for, read_all, monkeypatch
):
    control, done = running("copy", "overdue")
    fence(cluster, "overdue")  # what the coordinator does to an overdue transaction
    now = writes.elapsed_s()
    monkeypatch.setattr(writes, "elapsed_s", lambda: now + 60)
    commit_now(control)
    wait_for(lambda: control.snapshot()["restarts"] == 1)
    wait_for(lambda: written(read_all, "overdue") == 200)
    control.stop()
    done.result(60)
    assert results(read_all, "overdue") == copied(100)


def test_a_stop_during_the_back_off_ends_the_stream_and_the_next_run_does_the_rest(
    cluster, settings, running, loss, wait_for, read_all, system, caplog
):
    name = "stopped"
    control, done = running("copy", name, make=lambda *told: copy(*told, on_fenced=LATER))
    loss.later()
    control.snapshot()
    wait_for(lambda: "restart 1 of the run" in caplog.text)
    assert control.drain_and_shutdown(done, timeout=30) is None
    assert results(read_all, name) == []
    told = settings.with_group_id(name).with_property("isolation.level", "read_committed")
    control, done = copy(cluster, told, name).run(system)
    wait_for(lambda: written(read_all, name) == 200)
    control.drain_and_shutdown(done, timeout=30)
    assert results(read_all, name) == copied(100)


def test_on_fenced_fail_fails_the_stream(running, loss):
    control, done = running("copy", "fails", make=lambda *told: copy(*told, on_fenced="fail"))
    loss.later()
    control.snapshot()
    assert f"{TAKEN}, which is aborted" in str(done.exception(60))
    control.is_shutdown.exception(60)


def test_streamactors_run_continues_through_a_restart_and_counts_it(cluster, settings, loss, wait_for, read_all):
    name = "supervised"
    for topic in (name, f"{name}-out"):
        cluster.create_topic(topic, partitions=2)
    send(cluster, name, range(100), 2)
    told = settings.with_group_id(name).with_property("isolation.level", "read_committed")
    with SupervisedRun(copy(cluster, told, name)) as running:
        wait_for(lambda: written(read_all, name) == 100)
        loss.later()
        running.controls[0].snapshot()
        wait_for(lambda: written(read_all, name) == 200)
        assert not running.wait(0)
        (count,) = [
            sample.value
            for family in ConsumerCollector().collect()
            for sample in family.samples
            if sample.name == "streamactors_kafka_restarts_total" and sample.labels["group"] == name
        ]
        assert count == 1
        running.stop()
        assert running.wait(60)
        assert running.error is None
    assert results(read_all, name) == copied(100)
