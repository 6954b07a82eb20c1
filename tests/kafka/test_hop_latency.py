"""The latency of each hop on the real broker: from the record's timestamp to the commit, with no hop missing and nothing that goes back in time."""

from __future__ import annotations

import time
from dataclasses import replace
from types import SimpleNamespace

import pytest
from confluent_kafka import Producer as BareProducer

from streamactors import Keep, LatencyMeter, Sink, Source
from streamactors.engine.hops.ledger import HopLedger
from streamactors.engine.marks.progress import SinkProgress
from streamactors.kafka import Consumer, Producer, ProducerRecord, ProducerSettings, Subscriptions, Transactional
from streamactors.kafka.client.connection import ck
from streamactors.kafka.client.runs import made_message
from streamactors.kafka.reading.delivery import Delivery
from streamactors.kafka.reading.offset_tracker import OffsetTracker
from streamactors.kafka.sources.lane_stamps import APPENDED, BUFFER, CREATED, OLDEST_MS, SENT, LaneStamps
from streamactors.kafka.subscriptions import TopicPartition
from streamactors.windows import TimeWindows


def test_a_thousand_records_are_followed_from_the_producer_to_the_commit(cluster, settings, system, topic_with):
    topic = topic_with("journeys", [], 3)
    producer = BareProducer({"bootstrap.servers": cluster.bootstrap_servers, "linger.ms": 0})
    with LatencyMeter(system, every=0) as meter:
        control, done = (
            Consumer.source(settings, Subscriptions.topics(topic))
            .map(lambda record: int(record.value))
            .named("decode")
            .async_boundary()
            .map_async(4, lambda n: n)
            .grouped_within(10, 0.02)
            .to_mat(Sink.foreach(lambda _: None).named("store"), Keep.both)
            .run(system)
        )
        until = time.monotonic() + 60
        n = 0
        while time.monotonic() < until and (not meter.graphs() or len(meter.graphs()[0].journeys) < 1_000):
            for _ in range(5):
                producer.produce(topic, b"%d" % n, partition=n % 3)
                n += 1
            producer.flush()
        control.stop()
        done.result(30)
        control.is_shutdown.result(30)
        (run,) = meter.graphs()
    assert len(run.journeys) == 1_000
    expected = [CREATED, BUFFER, "Consumer.source+decode", "async_boundary", "map_async", "grouped_within", "store"]
    ended: dict[int, float] = {}
    for journey in sorted(run.journeys, key=lambda each: each.position):
        labels = [hop.label for hop in journey.hops]
        answered = labels[:2] == [SENT, APPENDED]
        assert labels == ([SENT, APPENDED, *expected[1:]] if answered else expected), "no hop is missing"
        assert all(hop.waited_ms >= 0 <= hop.worked_ms for hop in journey.hops), "no hop ends before it begins"
        whole = journey.ended_ms - journey.began_ms
        assert sum(hop.waited_ms + hop.worked_ms for hop in journey.hops) == pytest.approx(whole, rel=0.02)
        assert journey.ended_ms >= ended.get(journey.partition, 0), "stamps of a partition keep their order"
        ended[journey.partition] = journey.ended_ms
    assert run.share == pytest.approx(1.0, abs=0.02)
    rows = {hop.hop: hop for hop in run.hops}
    assert [hop for hop in rows if hop not in (SENT, APPENDED)] == [*expected, "commit"]
    assert rows["commit"].n > 0
    ends = {end.hop: end for end in run.whole}
    assert ends["committed"].n == rows["commit"].n
    assert ends["committed"].max_ms >= ends["store"].max_ms * 0.99


def test_in_a_transaction_the_wait_for_the_commit_is_a_hop_and_no_other_commit_follows(
    cluster, settings, system, topic_with
):
    topic = topic_with("copied", [b"%d" % n for n in range(500)], 2)
    cluster.create_topic("copies", partitions=2)
    writes = ProducerSettings(
        cluster.bootstrap_servers, transactional_id="hops", commit_interval_ms=20, preflight_timeout_ms=30_000
    )
    with LatencyMeter(system, every=0) as meter:
        control, done = (
            Transactional.source(settings, Subscriptions.topics(topic), until="end")
            .map(lambda record: ProducerRecord("copies", record.value, partition=record.partition))
            .to_mat(Transactional.sink(writes), Keep.both)
            .run(system)
        )
        done.result(60)
        control.is_shutdown.result(30)
        (run,) = meter.graphs()
    assert run.journeys
    for journey in run.journeys:
        labels = [hop.label for hop in journey.hops]
        assert labels == [CREATED, BUFFER, "Transactional.source+map", "Transactional.sink", "transaction", "ignore"]
        assert sum(hop.waited_ms + hop.worked_ms for hop in journey.hops) == pytest.approx(
            journey.ended_ms - journey.began_ms
        )
    assert "commit" not in {hop.hop for hop in run.hops}
    assert run.on_their_way == 0


def test_results_of_windows_and_their_stamps_leave_at_the_commit(cluster, settings, system):
    """The stage let the mark of a cut pass before the stamps: the sink stopped at the mark, and the stamps came after the last commit."""
    cluster.create_topic("times", partitions=2)
    cluster.create_topic("counts", partitions=2)
    records = Source.range(0, 2_000).map(
        lambda n: ProducerRecord("times", b"1", b"%d" % (n % 5), partition=n % 2, timestamp=1_000_000 + n * 10)
    )
    writes = ProducerSettings(cluster.bootstrap_servers, preflight_timeout_ms=30_000)
    records.run_with(Producer.plain_sink(writes), system).result(30)
    with LatencyMeter(system, every=0) as meter:
        (
            Consumer.records(settings, Subscriptions.topics("times"), key="string", until="end")
            .group_by_key()
            .windowed_by(TimeWindows.of_size(1_000).with_grace(0))
            .count(name="per-second")
            .to_stream()
            .map(lambda row: ProducerRecord("counts", b"%d" % row.value, row.key, row.context.partition))
            .run_with(Transactional.sink(replace(writes, transactional_id="counts", commit_interval_ms=20)), system)
            .result(60)
        )
        (run,) = meter.graphs()
    assert run.journeys
    assert run.on_their_way == 0
    for journey in run.journeys:
        labels = [hop.label for hop in journey.hops]
        assert labels.index("until its results are committed") < labels.index("transaction")
        assert len(labels) == len(set(labels)), "each hop once"


class Clock:
    """Both clocks of a machine, as a test sets them."""

    at_ms, wall = 500.0, 1_000_000

    def now_ms(self) -> float:
        return self.at_ms

    def wall_ms(self) -> int:
        return self.wall


class Questions:
    """A broker that does not tell when records were appended."""

    answers = False

    def ask(self, key: TopicPartition, offset: int, then: object) -> bool:
        return False


A = TopicPartition("t", 0)


def stamps(clock: Clock) -> tuple[LaneStamps, HopLedger]:
    ledger = HopLedger(clock, SinkProgress(), 0.0)
    run = SimpleNamespace(hops=ledger)
    stage = SimpleNamespace(name="source", attributes=SimpleNamespace(graph=None))
    consumer = SimpleNamespace(tracker=None, commits_by_itself=False, append_times=Questions)
    return LaneStamps(stage, run, "s", consumer), ledger  # type: ignore[arg-type]


def delivery(at_ms: int | None, polled_ms: float, offsets: range = range(3)) -> Delivery:
    records = [made_message(A, offset, None, b"", at_ms) for offset in offsets]
    return Delivery(None, A, 1, records, offsets.stop, polled_ms=polled_ms)


def test_the_first_hop_is_from_the_timestamp_to_the_poll_and_the_second_to_the_source():
    clock = Clock()
    made, _ = stamps(clock)
    stamp = made.stamp(delivery(clock.wall - 100, polled_ms=470.0), 3, taken_ms=490.0)
    assert stamp.origin.began_ms == 400.0, "100 ms before now"
    (first, row, waited, worked) = stamp.path
    assert (row.label, waited, worked) == (BUFFER, 20.0, 0.0)
    assert (first[1].label, first[2]) == (CREATED, 70.0)


def test_a_record_of_the_future_is_flagged_and_its_first_hop_is_not_below_zero():
    clock = Clock()
    made, _ = stamps(clock)
    stamp = made.stamp(delivery(clock.wall + 5_000, polled_ms=470.0), 3, taken_ms=490.0)
    assert stamp.origin.skewed
    assert stamp.origin.began_ms == 470.0, "the journey begins at the poll"
    assert stamp.path[0][2] == 0.0


def test_a_record_without_a_timestamp_begins_at_the_poll():
    clock = Clock()
    made, _ = stamps(clock)
    stamp = made.stamp(delivery(None, polled_ms=470.0), 3, taken_ms=490.0)
    assert (stamp.origin.began_ms, stamp.origin.skewed) == (470.0, False)
    assert stamp.path[0] is None


@pytest.mark.parametrize(
    ("kind", "age_ms", "begins"),
    [
        (ck.TIMESTAMP_CREATE_TIME, OLDEST_MS + 60_000, "poll"),
        (ck.TIMESTAMP_CREATE_TIME, OLDEST_MS - 60_000, "timestamp"),
        (ck.TIMESTAMP_LOG_APPEND_TIME, OLDEST_MS + 60_000, "timestamp"),
    ],
)
def test_the_time_of_an_event_long_ago_is_not_taken_for_the_time_of_the_write(kind, age_ms, begins):
    # The demo's flights are of 2013: their first hop was thirteen years long, and so was the sum of the hops.
    clock = Clock()
    clock.wall = 10**12
    made, _ = stamps(clock)
    message = ck.Message(*A, 0, None, b"", None, timestamp=(kind, int(clock.wall - age_ms)))
    stamp = made.stamp(Delivery(None, A, 1, [message], 1, polled_ms=470.0), 1, taken_ms=490.0)
    assert not stamp.origin.skewed
    assert (stamp.path[0] is None) == (begins == "poll")
    assert (stamp.origin.began_ms == 470.0) == (begins == "poll")


def test_a_stamp_of_a_chunk_that_was_not_taken_whole_is_of_the_last_record_that_was():
    clock = Clock()
    made, _ = stamps(clock)
    chunk = delivery(None, 470.0, range(10))
    chunk.records[4] = made_message(A, 4, None, b"", clock.wall - 300)
    stamp = made.stamp(chunk, 5, taken_ms=490.0)
    assert stamp.origin.place == (1, 5)
    assert stamp.origin.began_ms == 200.0


def test_the_sources_of_a_consumers_partitions_hear_of_a_commit_once() -> None:
    """Each source that a rebalance had ever made was called for each commit, and kept for as long as the consumer."""
    heard = []

    class Hops:
        """The part of a ledger that hears of commits."""

        sampler = commits = staticmethod(lambda *_: None)
        committed = staticmethod(lambda *told: heard.append(told))

    tracker, key = OffsetTracker(), TopicPartition("t", 0)
    consumer = SimpleNamespace(tracker=tracker, commits_by_itself=True, append_times=Questions)
    run = SimpleNamespace(hops=Hops())
    for _ in range(100):
        LaneStamps(None, run, 0, consumer)
    tracker.assigned([key], 1)
    tracker.committed({key: 7})
    assert heard == [((0, key), (1, 7))]
    assert len(tracker.when_committed) == 1
