"""Bugs that users and authors of other queue brokers have reported, each tried on this broker. The comments name the report."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from streamactors.broker.errors import ErrorCode
from tests.broker.apis.share_member import ACCEPT, REJECT, RELEASE, ShareMember, stored_state
from tests.broker.apis.test_share_dead_letters import (
    QUEUE,
    append,
    archived,
    configure,
    letters,
    prepare,
    told,
    topic_id,
)
from tests.broker.live_broker import LiveBroker
from tests.broker.wire import wait_until

E = ErrorCode
SETTINGS = {
    "offsets.topic.num.partitions": 1,
    "share.coordinator.state.topic.num.partitions": 1,
    "group.share.record.lock.duration.ms": 1000,
    "errors.deadletterqueue.auto.create.topics.enable": True,
}
LONG_MS = 60_000
"""A wait that no test waits out: what must come at once comes before."""


@pytest.fixture
def live(tmp_path: Path) -> Iterator[LiveBroker]:
    with LiveBroker(tmp_path / "data", SETTINGS) as live:
        prepare(live)
        yield live


def member(live: LiveBroker, name: str = "m1") -> ShareMember:
    return ShareMember(live.client(), topic_id(live), name)


def in_background(call: Any) -> tuple[threading.Thread, list[Any]]:
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(call()), daemon=True)
    thread.start()
    return thread, found


def test_a_fetch_without_partitions_holds_up_no_other(live: LiveBroker) -> None:
    # KAFKA-17210: a fetch of a session without partitions was at the head of a queue, and the fetches after it were never answered.
    empty = ShareMember(live.client(), topic_id(live), "empty", partitions=())
    assert empty.fetch(wait_ms=0).error_code == E.NONE
    waiting, _ = in_background(lambda: empty.fetch(wait_ms=500))
    append(live, b"a")
    assert member(live).take() == [(0, 0, 1)]
    waiting.join(30)
    assert not waiting.is_alive()


def test_records_that_are_released_again_and_again_stay_within_the_lock_limit(live: LiveBroker) -> None:
    # confluentinc/kafka 1208: records that were released all the time let more be in flight than the limit.
    configure(live, share_partition_max_record_locks="100", share_delivery_count_limit="10")
    for _ in range(30):
        append(live, *(b"%d" % each for each in range(10)))
    one = member(live)
    for _ in range(6):
        (first, last, _), *_ = one.take(max_records=40)
        assert one.acknowledge((first, last, RELEASE)).error_code == E.NONE
        led = live.node.share_partitions.get(("g", topic_id(live), 0))
        assert led is not None
        assert led.records.in_flight <= 100


def test_an_acknowledgement_in_a_fetch_makes_room_for_that_fetch(live: LiveBroker) -> None:
    # KAFKA-19227: all locks were taken, the fetch acknowledged them, and waited for its whole timeout though there was room then.
    configure(live, share_partition_max_record_locks="100")
    for _ in range(15):
        append(live, *(b"%d" % each for each in range(10)))
    one = member(live)
    held = one.take(max_records=100)
    assert sum(last - first + 1 for first, last, _ in held) == 100
    acks = {0: [{"first_offset": first, "last_offset": last, "acknowledge_types": [ACCEPT]} for first, last, _ in held]}
    asking, found = in_background(lambda: one.fetch(acks=acks, wait_ms=LONG_MS))
    asking.join(30)
    assert not asking.is_alive()
    assert ShareMember.parts(found[0])[0].acquired_records


def test_a_waiting_fetch_ends_at_once_when_its_partition_goes(live: LiveBroker) -> None:
    # KAFKA-19567: fetches that waited when the leader changed were stuck until their timeout, and longer in the lists.
    one = member(live)
    one.fetch(wait_ms=200)
    asking, found = in_background(lambda: one.fetch(wait_ms=LONG_MS))
    wait_until(lambda: live.node.fetch_purgatory.delayed > 0)
    live.client().call(20, 6, {"topics": [{"name": "t", "topic_id": None}], "timeout_ms": 30_000})
    asking.join(30)
    assert not asking.is_alive()
    assert [part.error_code for part in ShareMember.parts(found[0])] == [E.NOT_LEADER_OR_FOLLOWER]


def test_acknowledgements_of_a_partition_that_is_forgotten_in_the_same_request_count(live: LiveBroker) -> None:
    # librdkafka 5393: a partition was forgotten first, and the acknowledgements of it in the same request were lost.
    append(live, b"a")
    one = member(live)
    assert one.take() == [(0, 0, 1)]
    acks = {0: [{"first_offset": 0, "last_offset": 0, "acknowledge_types": [ACCEPT]}]}
    forgotten = [{"topic_id": topic_id(live), "partitions": [0]}]
    answer = one.fetch(acks=acks, forgotten_topics_data=forgotten)
    assert [part.acknowledge_error_code for part in ShareMember.parts(answer)] == [E.NONE]
    archived_or_done(live, 1)


def test_the_last_request_of_a_session_may_acknowledge(live: LiveBroker) -> None:
    # librdkafka 5393 as well: acknowledgements with epoch -1 were refused, so a member that closed had its last records delivered again.
    append(live, b"a", b"b")
    one, other = member(live, "m1"), member(live, "m2")
    other.fetch()
    assert one.take() == [(0, 1, 1)]
    one.epoch = -1
    assert one.acknowledge((0, 0, ACCEPT)).error_code == E.NONE
    assert other.take() == [(1, 1, 2)]


def test_a_delivery_counts_when_its_member_and_then_the_broker_fails(tmp_path: Path) -> None:
    # nats-server 5346: the number of deliveries was wrong after a consumer had failed, and some messages were delivered forever.
    with LiveBroker(tmp_path / "data", SETTINGS) as live:
        prepare(live)
        append(live, b"a")
        one, other = member(live, "m1"), member(live, "m2")
        other.fetch()
        assert one.take() == [(0, 0, 1)]
        one.client.close()
        assert other.take() == [(0, 0, 2)]
        assert other.acknowledge((0, 0, RELEASE)).error_code == E.NONE
    with LiveBroker(tmp_path / "data", SETTINGS) as live:
        assert member(live).take() == [(0, 0, 3)]


def test_a_record_at_its_limit_is_gone_and_holds_nothing_up(live: LiveBroker) -> None:
    # nats-server 5564: a message at its delivery limit stayed in the work queue.
    configure(live, "", share_delivery_count_limit="2")
    append(live, b"poison")
    one = member(live)
    for deliveries in (1, 2):
        assert one.take() == [(0, 0, deliveries)]
        assert one.acknowledge((0, 0, RELEASE)).error_code == E.NONE
    append(live, b"next")
    assert one.take() == [(1, 1, 1)]
    assert one.acknowledge((1, 1, ACCEPT)).error_code == E.NONE
    archived_or_done(live, 2)


@pytest.mark.slow
def test_three_members_that_never_acknowledge_make_one_dead_letter(live: LiveBroker) -> None:
    # pulsar 6960: three consumers without acknowledgements sent a message to the dead letter topic twice.
    configure(live, share_delivery_count_limit="2")
    append(live, b"poison")
    threads = [in_background(lambda name=name: hang(live, name))[0] for name in ("m1", "m2", "m3")]
    (letter,) = letters(live, 1)
    assert told(letter)["delivery.count"] == b"2"
    for thread in threads:
        thread.join(60)
    archived(live, 1)
    assert len(letters(live, 1)) == 1


def hang(live: LiveBroker, name: str) -> None:
    """Fetch for a few locks long, and acknowledge nothing."""
    one = member(live, name)
    end = time.monotonic() + 5
    while time.monotonic() < end:
        one.fetch(wait_ms=200)


def test_dead_letters_keep_the_order_of_their_records(live: LiveBroker) -> None:
    # rabbitmq-server 3620, 14926: messages that were rejected together were dead-lettered in another order.
    configure(live)
    append(live, *(b"%d" % each for each in range(40)))
    one = member(live)
    assert one.take() == [(0, 39, 1)]
    kinds = [REJECT if each % 3 else ACCEPT for each in range(40)]
    acks = {0: [{"first_offset": 0, "last_offset": 39, "acknowledge_types": kinds}]}
    assert [part.acknowledge_error_code for part in ShareMember.parts(one.fetch(acks=acks))] == [E.NONE]
    rejected = [b"%d" % each for each in range(40) if each % 3]
    assert [told(each)["offset"] for each in letters(live, len(rejected))] == rejected


def test_a_group_that_reads_its_own_dead_letter_queue_gets_each_letter_again(live: LiveBroker) -> None:
    # rabbitmq-server 8799: a queue that was its own target for dead letters never got empty.
    live.create_topic(QUEUE, 1, errors_deadletterqueue_group_enable="true")
    configure(live)
    append(live, b"a")
    one = member(live)
    assert one.take() == [(0, 0, 1)]
    assert one.acknowledge((0, 0, REJECT)).error_code == E.NONE
    letters(live, 1)
    queue_id = live.node.metadata.image.topics[QUEUE].topic_id
    part = {"partition": 0, "state_epoch": 1, "start_offset": 0}
    asked = {"group_id": "g", "topics": [{"topic_id": queue_id, "partitions": [part]}]}
    assert live.client().call(83, 0, asked).results[0].partitions[0].error_code == E.NONE
    other = ShareMember(live.client(), queue_id, "m2")
    assert other.take() == [(0, 0, 1)]
    assert other.acknowledge((0, 0, REJECT)).error_code == E.NONE
    assert told(letters(live, 2)[1])["topic"] == QUEUE.encode()
    assert other.take() == [(1, 1, 1)]
    assert other.acknowledge((1, 1, ACCEPT)).error_code == E.NONE
    assert len(letters(live, 2)) == 2


def archived_or_done(live: LiveBroker, start: int) -> None:
    """Wait until the share partition begins at an offset."""
    client = live.client()

    def done() -> bool:
        part = stored_state(client, topic_id(live))
        ended = {
            at
            for each in part.state_batches
            if each.delivery_state in (2, 4)
            for at in range(each.first_offset, each.last_offset + 1)
        }
        return part.start_offset >= start or set(range(part.start_offset, start)) <= ended

    wait_until(
        done, f"the end of what is before offset {start}", describe=lambda: str(stored_state(client, topic_id(live)))
    )
