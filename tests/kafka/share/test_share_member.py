"""The threads of a share group's member and its source, on a cluster without sockets: what happens to brokers, coordinators and the member itself."""

from __future__ import annotations

import threading

import pytest

from streamactors import ActorSystem, Keep, RestartSettings, RestartSource, Sink
from streamactors.engine.supervision import resuming
from streamactors.kafka import Consumer, SharedSourceSettings
from streamactors.kafka.client.share.protocol import ErrorCode, Purpose
from streamactors.kafka.errors import ConsumerFailed
from tests.broker.wire import wait_until
from tests.kafka.share.fake_cluster import FakeCluster

SETTINGS = SharedSourceSettings("fake:1", "workers")


def run(work=lambda record: record, settings: SharedSourceSettings = SETTINGS):
    return Consumer.shared_source(settings, "jobs").map(work).to_mat(Sink.ignore(), Keep.both).run()


def all_done(cluster: FakeCluster) -> bool:
    return set(cluster.states()) == {"accepted"}


def test_every_record_of_two_brokers_is_accepted_and_the_member_leaves(monkeypatch) -> None:
    cluster = FakeCluster(monkeypatch, 3, 50, gaps={4})
    got = []
    control, done = run(lambda record: got.append((record.partition, record.offset)) or record)
    wait_until(lambda: all_done(cluster))
    control.drain_and_shutdown(done, timeout=30)
    assert sorted(got) == [(p, n) for p in range(3) for n in range(50) if n != 4]
    assert cluster.heartbeats[-1][1] == -1
    assert {each.purpose for each in cluster.requests} >= {Purpose.FETCH, Purpose.CLOSE}
    assert cluster.model.sessions == {}


@pytest.mark.expects_log("the connection broke")
@pytest.mark.expects_log("has put this member out")
def test_leaders_that_move_connections_that_break_and_fencing_lose_no_record(monkeypatch) -> None:
    cluster = FakeCluster(monkeypatch, 3, 120)
    got, trouble = set(), iter(range(1_000))

    def work(record):
        got.add((record.partition, record.offset))
        n = next(trouble)
        with cluster.lock:
            if n == 20:
                cluster.model.move(cluster.model.shards[0], 1)
            if n == 60:
                cluster.broken.add(0)
            if n == 100:
                cluster.errors.append(ErrorCode.UNKNOWN_MEMBER_ID)
            if n == 140:
                cluster.errors.append(ErrorCode.NOT_COORDINATOR)
        return record

    control, done = run(work, SharedSourceSettings("fake:1", "workers", max_in_flight=20))
    wait_until(lambda: all_done(cluster))
    wait_until(lambda: cluster.coordinators == 2)
    control.drain_and_shutdown(done, timeout=30)
    assert len(got) == 360
    assert len({member for member, _ in cluster.heartbeats}) == 2, "a fenced member takes another id"
    assert cluster.look_ups > 1


def test_without_demand_nothing_is_fetched_and_heartbeats_continue(monkeypatch) -> None:
    cluster = FakeCluster(monkeypatch, 1, 3_000)

    def asked() -> int:
        with cluster.lock:
            return sum(each.max_records for each in cluster.requests)

    iterator = iter(Consumer.shared_source(SETTINGS, "jobs").run_iter())
    assert next(iterator).value == b"0"
    before = len(cluster.heartbeats)
    wait_until(lambda: len(cluster.heartbeats) > before + 5)
    wanted = asked()
    before = len(cluster.heartbeats)
    wait_until(lambda: len(cluster.heartbeats) > before + 20)
    assert asked() == wanted < 1_000
    iterator.close()


def test_a_missing_right_fails_the_stream_with_the_way_out(monkeypatch) -> None:
    cluster = FakeCluster(monkeypatch, 1, 10)
    cluster.denied = ErrorCode.GROUP_AUTHORIZATION_FAILED
    control, done = run()
    for error in (done.exception(timeout=30), control.is_shutdown.exception(30)):
        assert isinstance(error, ConsumerFailed)
        assert "grant Read on the group" in str(error)


def test_a_heartbeat_that_is_refused_for_good_fails_the_stream(monkeypatch) -> None:
    cluster = FakeCluster(monkeypatch, 1, 10)
    cluster.errors = [ErrorCode.GROUP_MAX_SIZE_REACHED]
    _, done = run()
    error = done.exception(timeout=30)
    assert isinstance(error, ConsumerFailed)
    assert "group max size reached" in str(error)


@pytest.mark.expects_log("has not answered within 200 ms at the end")
def test_a_broker_that_is_silent_at_the_end_delays_the_shutdown_by_the_limit_only(monkeypatch) -> None:
    cluster = FakeCluster(monkeypatch, 1, 10)
    got = threading.Event()
    control, done = run(
        lambda record: got.set() or record, SharedSourceSettings("fake:1", "workers", close_timeout_ms=200)
    )
    assert got.wait(30)
    cluster.silent.set()
    control.drain_and_shutdown(done, timeout=30)
    assert "acquired" not in cluster.states()


def test_a_failed_run_releases_what_was_emitted_and_counts_it(monkeypatch) -> None:
    cluster = FakeCluster(monkeypatch, 1, 10)

    def work(record):
        if record.offset == 3:
            raise OSError("disk full")
        return record

    control, done = run(work)
    assert isinstance(done.exception(timeout=30), OSError)
    control.is_shutdown.result(30)
    (log,) = cluster.model.log.values()
    assert [each.state for each in log] == ["accepted"] * 3 + ["available"] * 7
    assert log[3].count == 1


@pytest.mark.expects_log("restart 1 in")
def test_a_restarted_source_gets_what_its_former_instance_had_released(monkeypatch) -> None:
    cluster = FakeCluster(monkeypatch, 1, 30)
    got: list[tuple[int, int]] = []

    def work(record):
        got.append((record.offset, record.delivery_count))
        if got[-1] == (7, 1):
            raise OSError("disk full")
        return record

    def source():
        return Consumer.shared_source(SETTINGS, "jobs").map(work)

    with ActorSystem("restarts") as system:
        RestartSource.on_failures_with_backoff(RestartSettings("10ms", "50ms", 0.1), source).to(Sink.ignore()).run(
            system
        )
        wait_until(lambda: all_done(cluster))
    assert (7, 2) in got


def test_downstream_that_cancels_gives_back_what_it_did_not_take(monkeypatch) -> None:
    cluster = FakeCluster(monkeypatch, 1, 10)
    control, done = Consumer.shared_source(SETTINGS, "jobs").take(4).to_mat(Sink.to_list(), Keep.both).run()
    assert [record.offset for record in done.result(timeout=30)] == [0, 1, 2, 3]
    control.is_shutdown.result(30)
    (log,) = cluster.model.log.values()
    assert [each.state for each in log] == ["accepted"] * 4 + ["available"] * 6
    assert control.snapshot()["accepted"] == 4


@pytest.mark.expects_log("skipped: ")
def test_what_is_filtered_or_skipped_is_accepted_unless_it_was_released(monkeypatch) -> None:
    cluster = FakeCluster(monkeypatch, 1, 9)

    def work(record):
        if record.offset == 5:
            raise ValueError("busy")
        if record.offset == 6 and record.delivery_count == 1:
            record.release()
        return record

    source = Consumer.shared_source(SETTINGS, "jobs").filter(lambda record: record.offset != 2).map(work)
    control, done = source.with_attributes(decider=resuming).to_mat(Sink.ignore(), Keep.both).run()
    wait_until(lambda: all_done(cluster))
    control.drain_and_shutdown(done, timeout=30)
    shot = control.snapshot()
    assert (shot["accepted"], shot["released"]) == (9, 1)
