"""Share fetches and acknowledgements over a socket: who gets which record, how often, and what a crash leaves."""

from __future__ import annotations

import errno
import os
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from streamactors.broker.errors import ErrorCode
from streamactors.broker.replication import warming
from streamactors.clock import SystemClock
from tests.broker.apis.share_member import ACCEPT, REJECT, RELEASE, RENEW, ShareMember, begin_share_partitions
from tests.broker.live_broker import LiveBroker, batch, produce_body

E = ErrorCode
SETTINGS = {
    "offsets.topic.num.partitions": 1,
    "share.coordinator.state.topic.num.partitions": 1,
    "group.share.assignment.interval.ms": 0,
    "group.share.record.lock.duration.ms": 60_000,
}
SHORT_LOCKS = {**SETTINGS, "group.share.record.lock.duration.ms": 1000}


@pytest.fixture
def live(tmp_path: Path) -> Iterator[LiveBroker]:
    """A broker whose locks outlast a machine that stops for some seconds."""
    with LiveBroker(tmp_path / "data", SETTINGS) as live:
        live.create_topic("t", 1)
        begin(live)
        yield live


@pytest.fixture
def short(tmp_path: Path) -> Iterator[LiveBroker]:
    """A broker whose locks end while a test waits."""
    with LiveBroker(tmp_path / "data", SHORT_LOCKS) as live:
        live.create_topic("t", 1)
        begin(live)
        yield live


def topic_id(live: LiveBroker) -> uuid.UUID:
    return live.node.metadata.image.topics["t"].topic_id


def begin(live: LiveBroker, start: int = 0, group: str = "g") -> None:
    begin_share_partitions(live.client(), topic_id(live), start=start, group=group)


def append(live: LiveBroker, *values: bytes) -> None:
    """Produce one batch."""
    answer = live.client().call(0, 9, produce_body(batch(*values), "t"))
    assert answer.responses[0].partition_responses[0].error_code == E.NONE


def member(live: LiveBroker, name: str = "m1") -> ShareMember:
    return ShareMember(live.client(), topic_id(live), name)


def test_records_are_delivered_once_while_two_members_fetch(live: LiveBroker) -> None:
    append(live, *(b"%d" % each for each in range(10)))
    one, other = member(live, "m1"), member(live, "m2")
    assert one.take() == [(0, 9, 1)]
    assert ShareMember.parts(other.fetch())[0].records == b""
    append(live, b"more")
    assert other.take() == [(10, 10, 1)]


def test_the_records_themselves_come_with_what_is_acquired(live: LiveBroker) -> None:
    append(live, b"a", b"b", b"c")
    one = member(live)
    for _ in range(20):
        answer = one.fetch(wait_ms=500)
        if ShareMember.values(answer):
            break
    assert ShareMember.values(answer) == [b"a", b"b", b"c"]
    assert answer.acquisition_lock_timeout_ms == 60_000


def test_accepted_records_are_gone_and_released_ones_come_again_with_a_higher_count(live: LiveBroker) -> None:
    append(live, *(b"%d" % each for each in range(6)))
    one = member(live)
    assert one.take() == [(0, 5, 1)]
    assert one.acknowledge((0, 1, ACCEPT), (2, 3, RELEASE), (4, 5, REJECT)).error_code == E.NONE
    assert one.take() == [(2, 3, 2)]
    answer = one.fetch(acks={0: [{"first_offset": 2, "last_offset": 3, "acknowledge_types": [1, 2]}]})
    (part,) = ShareMember.parts(answer)
    assert part.acknowledge_error_code == E.NONE
    assert one.take() == [(3, 3, 3)]


def test_a_lock_that_times_out_gives_the_record_to_another_member(short: LiveBroker) -> None:
    append(short, b"slow")
    one, other = member(short, "m1"), member(short, "m2")
    assert one.take() == [(0, 0, 1)]
    assert other.take() == [(0, 0, 2)]
    assert one.acknowledge((0, 0, ACCEPT)).error_code == E.INVALID_RECORD_STATE


def test_a_renewed_lock_holds(short: LiveBroker) -> None:
    append(short, b"slow")
    one, other = member(short, "m1"), member(short, "m2")
    assert one.take() == [(0, 0, 1)]
    until = time.monotonic() + 2.5
    while time.monotonic() < until:
        acks = {0: [{"first_offset": 0, "last_offset": 0, "acknowledge_types": [RENEW]}]}
        answer = one.fetch(acks=acks, renew=True)
        assert [part.acknowledge_error_code for part in ShareMember.parts(answer)] == [E.NONE]
        other.fetch(wait_ms=200)
        assert not any(part.acquired_records for part in ShareMember.parts(other.fetch()))
    assert one.acknowledge((0, 0, ACCEPT)).error_code == E.NONE


def test_a_renewal_with_a_fetch_is_refused(live: LiveBroker) -> None:
    answer = member(live).fetch(renew=True, max_bytes=5, max_wait_ms=7)
    assert answer.error_code == E.INVALID_REQUEST
    assert answer.error_message == "maxBytes must be set to 0, maxWaitMs must be set to 0, if isRenewAck is true."


def test_a_member_that_asks_for_a_number_of_records_gets_no_more(live: LiveBroker) -> None:
    append(live, *(b"%d" % each for each in range(10)))
    assert member(live, "m1").take(max_records=3, strict=True) == [(0, 2, 1)]
    assert member(live, "m2").take() == [(3, 9, 1)]


def test_a_session_that_is_closed_releases_its_records(live: LiveBroker) -> None:
    append(live, b"a")
    one, other = member(live, "m1"), member(live, "m2")
    other.fetch()
    assert one.take() == [(0, 0, 1)]
    one.close()
    assert other.take() == [(0, 0, 2)]
    one.epoch = 3
    assert one.fetch().error_code == E.SHARE_SESSION_NOT_FOUND


def test_a_connection_that_is_lost_releases_its_records_at_once(tmp_path: Path) -> None:
    with LiveBroker(tmp_path / "data", {**SETTINGS, "group.share.record.lock.duration.ms": 60_000}) as live:
        live.create_topic("t", 1)
        begin(live)
        append(live, b"a")
        one, other = member(live, "m1"), member(live, "m2")
        other.fetch()
        assert one.take() == [(0, 0, 1)]
        one.client.close()
        assert other.take() == [(0, 0, 2)]
        assert len(live.node.share_partitions.sessions) == 1


def test_a_request_that_was_late_on_an_old_connection_takes_no_session_away(tmp_path: Path) -> None:
    with LiveBroker(tmp_path / "data", {**SETTINGS, "group.share.record.lock.duration.ms": 60_000}) as live:
        live.create_topic("t", 1)
        begin(live)
        append(live, b"a")
        old, new, other = member(live, "m1"), member(live, "m1"), member(live, "m2")
        other.fetch()
        assert new.take() == [(0, 0, 1)]
        assert old.fetch().error_code == E.INVALID_SHARE_SESSION_EPOCH
        old.client.close()
        for _ in range(3):
            assert not any(part.acquired_records for part in ShareMember.parts(other.fetch(wait_ms=200)))
        assert new.acknowledge((0, 0, ACCEPT)).error_code == E.NONE


def test_a_fetch_waits_for_a_record(live: LiveBroker) -> None:
    one = member(live)
    one.fetch()
    found: list[Any] = []
    waiting = threading.Thread(target=lambda: found.append(one.take(wait_ms=20_000)), daemon=True)
    waiting.start()
    append(live, b"now")
    waiting.join(15)
    assert found == [[(0, 0, 1)]]


def test_the_epoch_of_a_session_counts_its_requests(live: LiveBroker) -> None:
    one = member(live)
    one.fetch()
    one.epoch = 7
    assert one.fetch().error_code == E.INVALID_SHARE_SESSION_EPOCH
    assert one.acknowledge().error_code == E.INVALID_SHARE_SESSION_EPOCH
    one.epoch = 0
    assert one.acknowledge().error_code == E.INVALID_SHARE_SESSION_EPOCH
    assert member(live, "nobody").fetch(share_session_epoch=3).error_code == E.SHARE_SESSION_NOT_FOUND


def test_acknowledgements_in_the_first_request_are_refused(live: LiveBroker) -> None:
    acks = {0: [{"first_offset": 0, "last_offset": 0, "acknowledge_types": [1]}]}
    assert member(live).fetch(acks=acks).error_code == E.INVALID_REQUEST


@pytest.mark.parametrize(
    "wrong",
    [
        {"first_offset": 5, "last_offset": 4, "acknowledge_types": [1]},
        {"first_offset": 0, "last_offset": 1, "acknowledge_types": []},
        {"first_offset": 0, "last_offset": 2, "acknowledge_types": [1, 1]},
        {"first_offset": 0, "last_offset": 0, "acknowledge_types": [9]},
        {"first_offset": 0, "last_offset": 0, "acknowledge_types": [-1]},
        {"first_offset": 0, "last_offset": 0, "acknowledge_types": [RENEW]},
    ],
)
def test_an_acknowledgement_that_makes_no_sense_is_invalid(live: LiveBroker, wrong: dict[str, Any]) -> None:
    append(live, b"a")
    one = member(live)
    one.take()
    (part,) = ShareMember.parts(one.fetch(acks={0: [wrong]}))
    assert part.acknowledge_error_code == E.INVALID_REQUEST


def test_a_partition_that_does_not_exist_is_an_error_of_its_own(live: LiveBroker) -> None:
    one = ShareMember(live.client(), topic_id(live), partitions=(0, 9))
    codes = {part.partition_index: part.error_code for part in ShareMember.parts(one.fetch())}
    assert codes[9] == E.UNKNOWN_TOPIC_OR_PARTITION
    other = ShareMember(live.client(), uuid.uuid4(), "m2")
    assert [part.error_code for part in ShareMember.parts(other.fetch())] == [E.UNKNOWN_TOPIC_ID]


def test_a_share_partition_that_was_never_begun_is_an_error(live: LiveBroker) -> None:
    one = ShareMember(live.client(), topic_id(live), group="other")
    answer = one.fetch(wait_ms=5_000)
    assert [part.error_code for part in ShareMember.parts(answer)] == [E.UNKNOWN_SERVER_ERROR]


def test_what_is_accepted_stays_accepted_over_a_restart_and_the_rest_comes_again(tmp_path: Path) -> None:
    with LiveBroker(tmp_path / "data", SETTINGS) as live:
        live.create_topic("t", 1)
        begin(live)
        append(live, *(b"%d" % each for each in range(6)))
        one = member(live)
        assert one.take() == [(0, 5, 1)]
        assert one.acknowledge((0, 1, ACCEPT), (4, 4, ACCEPT), (5, 5, RELEASE)).error_code == E.NONE
    with LiveBroker(tmp_path / "data", SETTINGS) as live:
        one = member(live)
        seen: list[tuple[int, int, int]] = []
        while sum(last - first + 1 for first, last, _ in seen) < 3:
            seen += one.take()
        found = {at: count for first, last, count in seen for at in range(first, last + 1)}
        # What was acquired when the broker stopped may have been released in time, and then the delivery counts.
        assert (found.pop(5), set(found), set(found.values()) <= {1, 2}) == (2, {2, 3}, True)


def test_the_newest_records_come_where_a_share_partition_begins_at_the_end(tmp_path: Path) -> None:
    with LiveBroker(tmp_path / "data", SETTINGS) as live:
        live.create_topic("t", 1)
        append(live, b"old")
        begin(live, -1)
        one = member(live)
        while (
            not live.node.share_partitions.get(_key(live)) or not live.node.share_partitions.get(_key(live)).is_active
        ):  # type: ignore[union-attr]
            one.fetch(wait_ms=50)
        append(live, b"new")
        assert one.take() == [(1, 1, 1)]


def _key(live: LiveBroker) -> Any:
    return ("g", topic_id(live), 0)


def test_no_session_is_opened_beyond_the_limit(tmp_path: Path) -> None:
    with LiveBroker(tmp_path / "data", {**SETTINGS, "group.share.max.share.sessions": 1}) as live:
        live.create_topic("t", 1)
        begin(live)
        assert member(live, "m1").fetch().error_code == E.NONE
        assert member(live, "m2").fetch().error_code == E.SHARE_SESSION_LIMIT_REACHED


def test_a_helper_thread_reads_what_is_not_in_the_page_cache_and_other_fetches_of_the_group_leave_it_alone(
    live: LiveBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A cold read held the data plane, so every client waited for the disk.
    readers: list[str] = []
    reading, disk = threading.Event(), threading.Event()

    def preadv(fd: int, buffers: Any, position: int, flags: int = 0) -> int:
        if flags and not disk.is_set():
            raise OSError(errno.EAGAIN, "cold")
        if not disk.is_set():
            readers.append(threading.current_thread().name)
            reading.set()
            assert disk.wait(60)
        return os.preadv(fd, buffers, position)

    append(live, *(b"%d" % each for each in range(10)))
    one, other = member(live, "m1"), member(live, "m2")
    other.fetch(wait_ms=200, max_records=0)
    monkeypatch.setattr(warming, "_NOWAIT", 8)
    monkeypatch.setattr(warming, "os", SimpleNamespace(preadv=preadv))
    found: list[Any] = []
    fetching = threading.Thread(target=lambda: found.append(one.take(wait_ms=20_000)), daemon=True)
    fetching.start()
    assert reading.wait(60)
    assert all("helper" in name for name in readers), readers
    assert not any(part.acquired_records for part in ShareMember.parts(other.fetch())), (
        "the data plane answers meanwhile"
    )
    disk.set()
    fetching.join(60)
    assert found == [[(0, 9, 1)]]


def test_a_fetch_reads_no_more_of_the_log_than_it_can_acquire(
    live: LiveBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Fifty megabytes were read for five hundred records.
    for _ in range(30):
        append(live, *(bytes(1_000) for _ in range(10)))
    one = member(live)
    one.take(max_records=10)
    read: list[int] = []

    def preadv(fd: int, buffers: Any, position: int, flags: int = 0) -> int:
        done = os.preadv(fd, buffers, position, flags) if flags else os.preadv(fd, buffers, position)
        read.append(done)
        return done

    monkeypatch.setattr(warming, "os", SimpleNamespace(preadv=preadv))
    answer = one.fetch(max_records=20, max_bytes=50 << 20, wait_ms=500)
    assert len(ShareMember.values(answer)) == 20
    assert sum(read) < 40_000


class _OldClock(SystemClock):
    """A wall clock that is years behind."""

    def wall_ms(self) -> int:
        return super().wall_ms() - 10 * 365 * 86_400_000


def test_a_share_partition_begins_a_duration_back_on_the_clock_of_the_broker(tmp_path: Path) -> None:
    clock = _OldClock()
    with LiveBroker(tmp_path / "data", SETTINGS, clock) as live:
        live.create_topic("t", 1)
        begin(live, start=-1)
        configs = [{"name": "share.auto.offset.reset", "config_operation": 0, "value": "by_duration:PT1H"}]
        resource = {"resource_type": 32, "resource_name": "g", "configs": configs}
        live.client().call(44, 1, {"resources": [resource], "validate_only": False})
        for minutes in (120, 10):
            records = batch(b"%d" % minutes, timestamp=clock.wall_ms() - minutes * 60_000)
            answer = live.client().call(0, 9, produce_body(records, "t"))
            assert answer.responses[0].partition_responses[0].error_code == E.NONE
        assert member(live).take() == [(1, 1, 1)]
