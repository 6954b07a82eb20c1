"""Windows over two topics of our own broker: the older row goes first, exactly once over failures."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from confluent_kafka import Producer as BareProducer

from streamactors import ActorSystem, Flow, Keep
from streamactors.errors import BuildError
from streamactors.kafka import (
    Consumer,
    ConsumerSettings,
    Producer,
    ProducerRecord,
    ProducerSettings,
    Subscriptions,
    Transactional,
)
from streamactors.windows import TimeWindows
from streamactors.windows.stage.head_time import FAR_AHEAD
from tests.kafka._windows import CLOSED, produce, read, to_records, written

WINDOWS = TimeWindows.of_size(1_000).with_grace(0)
"""Without grace a row that does not go in its turn is late."""


@pytest.mark.parametrize("failures", [pytest.param(0, marks=pytest.mark.slow), 3])
def test_T_4_rows_of_two_topics_are_counted_once_and_none_is_late(cluster, read_all, failures):
    name = f"two-{failures}"
    given = [(i % 2, "k", 1_000_000 + i * 10) for i in range(4_000)]
    produce(cluster, f"{name}-left", given[:], 2)
    produce(cluster, f"{name}-right", [(p, k, t + 1) for p, k, t in given], 2)
    cluster.create_topic(f"{name}-out", partitions=2)
    settings = ConsumerSettings(
        cluster.bootstrap_servers, group_id=name, auto_offset_reset="earliest", commit_interval_ms=50
    )
    producing = ProducerSettings(cluster.bootstrap_servers, transactional_id=name, commit_interval_ms=20)
    dice = random.Random(failures)
    for left in range(failures, -1, -1):
        fuse = [dice.randrange(500, 3_000)] if left else []

        def burn(record, fuse=fuse):
            if fuse:
                fuse[0] -= 1
                if fuse[0] == 0:
                    raise RuntimeError("a failure")
            return record

        source = (
            Consumer.records(settings, Subscriptions.topics(f"{name}-left", f"{name}-right"), key="string", until="end")
            .map(burn).group_by_key().windowed_by(WINDOWS).count(name="seconds").suppress(CLOSED).to_stream()
        )  # fmt: skip
        with ActorSystem(name) as system:
            _, done = source.map(to_records(f"{name}-out")).to_mat(Transactional.sink(producing), Keep.both).run(system)
            if left:
                with pytest.raises(Exception, match="a failure"):
                    done.result(60)
            else:
                done.result(60)
    counts = read(read_all(f"{name}-out", 2))
    assert counts == sorted((p, f"k@{1_000_000 + s * 1_000}", 100) for p in (0, 1) for s in range(40))


@pytest.fixture
def reading(cluster, request):
    """Settings of a group with a name of its own."""
    name = request.node.originalname
    return ConsumerSettings(
        cluster.bootstrap_servers,
        group_id=name,
        auto_offset_reset="earliest",
        commit_interval_ms=20,
        properties={"session.timeout.ms": 6_000, "heartbeat.interval.ms": 300},
    )


@pytest.fixture
def producing(cluster, reading):
    return ProducerSettings(cluster.bootstrap_servers, transactional_id=reading.group_id, commit_interval_ms=10)


def records(reading, name, until="end"):
    return Consumer.records(reading, Subscriptions.topics(f"{name}-left", f"{name}-right"), key="string", until=until)


def counted(source, max_task_idle=0, name="seconds"):
    grouped = source.group_by_key(max_task_idle=max_task_idle)
    return grouped.windowed_by(WINDOWS).count(name=name).suppress(CLOSED).to_stream()


def pairs(count, partitions=1, first=0):
    """Rows of the left topic and those of the right, each a millisecond behind one of the left."""
    left = [(i % partitions, "k", 1_000_000 + i * 10) for i in range(first, first + count)]
    return left, [(p, k, t + 1) for p, k, t in left]


def produce_pairs(cluster, name, count, partitions=1, first=0):
    left, right = pairs(count, partitions, first)
    produce(cluster, f"{name}-left", left, partitions)
    produce(cluster, f"{name}-right", right, partitions)


def whole(count, partitions=1, per_window=200):
    """The counts of the windows that so many pairs close."""
    seconds = range(count // 100 - 1)
    return sorted(
        (p, f"k@{1_000_000 + s * 1_000}", per_window // partitions) for p in range(partitions) for s in seconds
    )


def copy_to(topic, producing):
    return Flow.map(
        lambda row: ProducerRecord(topic, b"1", f"{row.context.topic}@{row.timestamp}", row.context.partition)
    ).to(Transactional.sink(producing))


def test_a_transactional_sink_beside_windows_in_order_of_time_is_refused(cluster, reading, producing, system):
    produce_pairs(cluster, "refused", 10)
    source = counted(records(reading, "refused").also_to(copy_to("refused-copy", producing)))
    error = written(source, "refused-out", producing).run(system)[1].exception(30)
    assert isinstance(error, BuildError)
    assert "max_task_idle=None" in str(error)


def test_two_computations_that_wait_differently_are_refused(cluster, reading, producing, system):
    produce_pairs(cluster, "waits", 10)
    other = counted(Flow.identity(), "1s", "others").map(to_records("waits-out")).to(Transactional.sink(producing))
    source = counted(records(reading, "waits").also_to(other))
    error = written(source, "waits-out", producing).run(system)[1].exception(30)
    assert isinstance(error, BuildError)
    assert "0 ms" in str(error)
    assert "1000 ms" in str(error)


def test_an_assignor_that_tears_the_topics_of_a_task_apart_is_refused(cluster, reading, producing, system):
    produce_pairs(cluster, "apart", 10)
    sticky = reading.with_property("partition.assignment.strategy", "cooperative-sticky")
    error = written(counted(records(sticky, "apart")), "apart-out", producing).run(system)[1].exception(30)
    assert isinstance(error, BuildError)
    assert "use 'range'" in str(error)


@pytest.mark.slow
def test_without_an_order_a_transactional_sink_beside_windows_meets_them(cluster, reading, producing, system, read_all):
    produce_pairs(cluster, "beside", 4_000, 2)
    for topic in ("beside-out", "beside-copy"):
        cluster.create_topic(topic, partitions=2)
    source = counted(records(reading, "beside").also_to(copy_to("beside-copy", producing)), None)
    written(source, "beside-out", producing).run(system)[1].result(60)
    assert {name for _, name, _ in read(read_all("beside-out", 2))} == {f"k@{1_000_000 + s * 1_000}" for s in range(40)}
    assert len(read_all("beside-copy", 2)) == 8_000


def test_two_computations_of_one_order_meet_and_no_row_is_late(cluster, reading, producing, system, read_all):
    produce_pairs(cluster, "both", 4_000)
    for topic in ("both-one", "both-two"):
        cluster.create_topic(topic, partitions=1)
    one = counted(Flow.identity().async_boundary(), name="one").map(to_records("both-one"))
    source = counted(records(reading, "both").also_to(one.to(Transactional.sink(producing))), name="two")
    written(source, "both-two", producing).run(system)[1].result(60)
    expected = sorted([*whole(4_000), (0, "k@1039000", 200)])
    assert read(read_all("both-two")) == expected
    assert read(read_all("both-one")) == expected


@pytest.mark.slow
def test_T_4_a_topic_without_rows_keeps_nobody_waiting(cluster, reading, producing, system, read_all, wait_for):
    produce(cluster, "empty-left", pairs(300)[0], 1)
    cluster.create_topic("empty-right", partitions=1)
    cluster.create_topic("empty-out", partitions=1)
    control, done = written(counted(records(reading, "empty", None)), "empty-out", producing).run(system)
    wait_for(lambda: read(read_all("empty-out")) == whole(300, per_window=100))
    control.shutdown().result(30)
    done.result(30)


def test_T_4_rows_still_to_come_are_waited_for_max_task_idle(cluster, reading, producing, system, read_all, wait_for):
    left, right = pairs(300)
    produce(cluster, "later-left", left, 1)
    cluster.create_topic("later-right", partitions=1)
    cluster.create_topic("later-out", partitions=1)
    control, done = written(counted(records(reading, "later", None), "1h"), "later-out", producing).run(system)
    wait_for(lambda: delivered(control, "later-left") == 300)
    produce(cluster, "later-right", right, 1)
    wait_for(lambda: read(read_all("later-out")) == whole(300))
    control.shutdown().result(30)
    done.result(30)


def test_T_4_rows_after_a_transaction_are_waited_for_max_task_idle(
    cluster, reading, producing, system, read_all, wait_for
):
    # the position after the transaction's marker released what was held, and the rows after it were late
    left, right = pairs(300)
    produce(cluster, "marker-left", left, 1)
    cluster.create_topic("marker-right", partitions=1)
    cluster.create_topic("marker-out", partitions=1)
    writer = BareProducer(
        {"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": "marker-writer", "log_level": 0}
    )
    writer.init_transactions()
    writer.begin_transaction()
    for _, key, at in right[:100]:
        writer.produce("marker-right", b"1", key, timestamp=at)
    writer.commit_transaction()
    control, done = written(counted(records(reading, "marker", None), "1h"), "marker-out", producing).run(system)
    wait_for(lambda: delivered(control, "marker-left") == 300 and delivered(control, "marker-right") == 101)
    produce(cluster, "marker-right", right[100:], 1)
    wait_for(lambda: read(read_all("marker-out")) == whole(300))
    control.shutdown().result(30)
    done.result(30)


def delivered(control, topic):
    """How many rows of a topic the stream has been given."""
    partitions = control.snapshot().get("partitions", {})
    return sum(p["position"] or 0 for key, p in partitions.items() if str(key).startswith(topic))


def test_T_4_a_paused_topic_is_waited_for_and_the_other_held_back(
    cluster, reading, producing, system, read_all, wait_for
):
    count = 12_000
    produce_pairs(cluster, "paused", count)
    cluster.create_topic("paused-out", partitions=1)
    control, done = written(counted(records(reading, "paused", None)), "paused-out", producing).run(system)
    control.pause(("paused-right", 0))
    wait_for(lambda: delivered(control, "paused-left") > FAR_AHEAD)
    control.resume(("paused-right", 0))
    wait_for(lambda: len(read_all("paused-out")) == len(whole(count)), 60)
    control.shutdown().result(30)
    done.result(30)
    assert read(read_all("paused-out")) == whole(count), "none was late"


def test_T_4_K_19_a_rebalance_takes_both_topics_of_a_task_along(cluster, reading, producing, read_all, wait_for):
    produce_pairs(cluster, "moves", 600, 2)
    cluster.create_topic("moves-out", partitions=2)

    def start(system, number):
        own = producing.with_transactional_id(f"moves-{number}")
        return written(counted(records(reading, "moves", None), "1h"), "moves-out", own).run(system)

    def assigned(control):
        return {str(key) for key in control.snapshot().get("partitions", ())}

    with ActorSystem("one") as one, ActorSystem("two") as two:
        first, first_done = start(one, 1)
        wait_for(lambda: len(read_all("moves-out", 2)) > 4)
        second, second_done = start(two, 2)
        produce_pairs(cluster, "moves", 600, 2, 600)
        wait_for(lambda: len(assigned(second)) == 2, 60)
        assert len({key[-1] for key in assigned(second)}) == 1, "both topics of one task"
        produce_pairs(cluster, "moves", 600, 2, 1_200)
        first.shutdown().result(60)
        first_done.result(60)
        produce_pairs(cluster, "moves", 600, 2, 1_800)
        wait_for(lambda: len(read_all("moves-out", 2)) >= len(whole(2_400, 2)), 60)
        second.shutdown().result(60)
        second_done.result(60)
    assert read(read_all("moves-out", 2)) == whole(2_400, 2)


@pytest.mark.parametrize("transactional", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_a_rebalance_does_not_wait_for_rows_that_two_computations_hold(
    cluster, reading, producing, read_all, wait_for, transactional
):
    name = f"held-{transactional}"
    patient = replace(
        reading.with_group_id(name), revoke_timeout_ms=600_000
    )  # in vain it would wait longer than this test
    produce_pairs(cluster, name, 600, 2)
    produce(cluster, f"{name}-left", pairs(600, 2, 600)[0], 2)  # held, until those of the right topic come
    for topic in ("one", "two"):
        cluster.create_topic(f"{name}-{topic}", partitions=2)

    def start(system, number):
        settings = producing.with_transactional_id(f"{name}-{number}")
        sink = (
            Transactional.sink(settings)
            if transactional
            else Producer.plain_sink(replace(settings, transactional_id=None))
        )
        one = counted(Flow.identity().async_boundary(), "1h", "one").map(to_records(f"{name}-one")).to(sink)
        source = counted(records(patient, name, None).also_to(one), "1h", "two")
        return source.map(to_records(f"{name}-two")).to_mat(sink, Keep.both).run(system)

    def both(topic):
        return read(read_all(f"{name}-{topic}", 2))

    with ActorSystem("one") as first_system, ActorSystem("two") as second_system:
        first, first_done = start(first_system, 1)
        wait_for(lambda: both("one") == both("two") == whole(600, 2), 60)
        second, second_done = start(second_system, 2)
        wait_for(lambda: len(second.snapshot().get("partitions", {})) == 2, 60)
        produce(cluster, f"{name}-right", pairs(600, 2, 600)[1], 2)
        wait_for(lambda: set(both("one")) & set(both("two")) >= set(whole(1_200, 2)), 60)
        for control, done in ((first, first_done), (second, second_done)):
            control.shutdown().result(60)
            done.result(60)
    if transactional:
        assert both("one") == both("two") == whole(1_200, 2)
