"""Dead letter queues of share groups over a socket: what is written where, and what happens when it cannot be."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from streamactors.broker.errors import ErrorCode
from streamactors.broker.records.batch import iter_batches
from streamactors.broker.records.record import Record
from streamactors.broker.share.dead_letters import dead_letter_queue
from tests.broker.apis.share_member import REJECT, RELEASE, ShareMember, begin_share_partitions, stored_state
from tests.broker.live_broker import LiveBroker, batch, produce_body
from tests.broker.wire import wait_until

E = ErrorCode
GROUP_RESOURCE = 32
QUEUE = "dlq.t"
SETTINGS = {
    "offsets.topic.num.partitions": 1,
    "share.coordinator.state.topic.num.partitions": 1,
    "group.share.min.delivery.count.limit": 2,
    "errors.deadletterqueue.auto.create.topics.enable": True,
}


@pytest.fixture
def live(tmp_path: Path) -> Iterator[LiveBroker]:
    with LiveBroker(tmp_path / "data", SETTINGS) as live:
        prepare(live)
        yield live


def prepare(live: LiveBroker) -> None:
    live.create_topic("t", 2)
    begin_share_partitions(live.client(), topic_id(live), partitions=2)


def topic_id(live: LiveBroker) -> uuid.UUID:
    return live.node.metadata.image.topics["t"].topic_id


def configure(live: LiveBroker, topic: str = QUEUE, **more: str) -> Any:
    wanted = {
        "errors.deadletterqueue.topic.name": topic,
        **{name.replace("_", "."): value for name, value in more.items()},
    }
    configs = [{"name": name, "config_operation": 0, "value": value} for name, value in wanted.items()]
    resource = {"resource_type": GROUP_RESOURCE, "resource_name": "g", "configs": configs}
    return live.client().call(44, 1, {"resources": [resource], "validate_only": False}).responses[0]


def append(live: LiveBroker, *values: bytes) -> None:
    answer = live.client().call(0, 9, produce_body(batch(*values), "t"))
    assert answer.responses[0].partition_responses[0].error_code == E.NONE


def letters(live: LiveBroker, count: int, topic: str = QUEUE) -> list[Record]:
    """Return the records of the dead letter queue, when there are so many."""

    def there() -> bool:
        partition = live.node.partitions.get(topic, 0)
        return partition is not None and partition.high_watermark >= count

    wait_until(there, f"{count} dead letters")
    partition = live.partition(topic)
    with partition.log.read(0, 8 << 20, partition.high_watermark) as piece:
        return [record for each in iter_batches(piece.read()) for record in each.records()]


def archived(live: LiveBroker, start: int) -> None:
    """Wait until everything before an offset is done and stored."""
    client = live.client()

    def done() -> bool:
        part = stored_state(client, topic_id(live))
        after = [each for each in part.state_batches if each.last_offset < start and each.delivery_state != 4]
        return not after and (part.start_offset >= start or bool(part.state_batches))

    wait_until(
        done, f"the end of what is before offset {start}", describe=lambda: str(stored_state(client, topic_id(live)))
    )


def told(record: Record) -> dict[str, bytes | None]:
    return {name.removeprefix("__dlq.errors."): value for name, value in record.headers}


def test_a_rejected_record_goes_to_the_queue_of_its_group_whose_topic_is_made(live: LiveBroker) -> None:
    assert configure(live).error_code == E.NONE
    append(live, b"good", b"bad")
    one = ShareMember(live.client(), topic_id(live))
    assert one.take() == [(0, 1, 1)]
    assert one.acknowledge((0, 0, 1), (1, 1, REJECT)).error_code == E.NONE
    (letter,) = letters(live, 1)
    assert (letter.key, letter.value) == (None, None)
    assert told(letter) == {
        "topic": b"t", "partition": b"0", "offset": b"1", "group": b"g", "delivery.count": b"1",
        "message": b"Offset rejected by client.",
    }  # fmt: skip
    overrides = live.node.metadata.image.topic_overrides(QUEUE)
    assert overrides["errors.deadletterqueue.group.enable"] == "true"
    archived(live, 2)


def test_a_record_that_was_delivered_too_often_takes_its_value_along_if_the_group_wants_that(live: LiveBroker) -> None:
    configure(live, errors_deadletterqueue_copy_record_enable="true", share_delivery_count_limit="2")
    append(live, b"poison")
    one = ShareMember(live.client(), topic_id(live))
    for deliveries in (1, 2):
        assert one.take() == [(0, 0, deliveries)]
        assert one.acknowledge((0, 0, RELEASE)).error_code == E.NONE
    (letter,) = letters(live, 1)
    assert letter.value == b"poison"
    assert told(letter)["message"] == b"Offset delivery count exceeded the threshold."
    assert told(letter)["delivery.count"] == b"2"


def test_a_letter_of_very_many_batches_arrives_whole(live: LiveBroker) -> None:
    # Each batch was written by the call that had written the one before. Some two hundred of them were more calls than Python allows,
    # the rest of the letter was lost, and its records stayed on their way forever.
    live.create_topic(QUEUE, 1, errors_deadletterqueue_group_enable="true", max_message_bytes=400)
    configure(live)
    append(live, *(b"%d" % each for each in range(400)))
    one = ShareMember(live.client(), topic_id(live))
    assert one.take() == [(0, 399, 1)]
    assert one.acknowledge((0, 399, REJECT)).error_code == E.NONE
    assert [told(each)["offset"] for each in letters(live, 400)] == [b"%d" % each for each in range(400)]
    archived(live, 400)


def test_the_originals_of_a_long_letter_are_never_all_in_memory(
    live: LiveBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    held: list[int] = []

    def part_of(letter: Any, first: int, data: Any, now_ms: int, max_bytes: int) -> Any:
        held.append(sum(len(value or b"") for _, value in data.values()))
        return made(letter, first, data, now_ms, max_bytes)

    made = dead_letter_queue.part_of
    monkeypatch.setattr(dead_letter_queue, "part_of", part_of)
    configure(live, errors_deadletterqueue_copy_record_enable="true")
    values = [b"%02d" % each + bytes(100_000) for each in range(48)]
    for first in range(0, 48, 4):
        append(live, *values[first : first + 4])
    one = ShareMember(live.client(), topic_id(live))
    taken = 0
    while taken < 48:
        taken = one.take()[-1][1] + 1
    assert one.acknowledge((0, 47, REJECT)).error_code == E.NONE
    assert [each.value for each in letters(live, 48)] == values
    assert max(held) <= 2 * dead_letter_queue.MOST_BYTES


@pytest.mark.expects_log("goes to no dead letter queue")
@pytest.mark.parametrize(("topic", "enabled"), [("plain", "true"), ("dlq.off", "false")])
def test_a_topic_that_may_not_be_a_dead_letter_queue_gets_nothing_and_the_records_are_archived(
    live: LiveBroker, topic: str, enabled: str
) -> None:
    live.create_topic(topic, 1, errors_deadletterqueue_group_enable=enabled)
    configure(live, topic)
    append(live, b"bad")
    one = ShareMember(live.client(), topic_id(live))
    assert one.take() == [(0, 0, 1)]
    assert one.acknowledge((0, 0, REJECT)).error_code == E.NONE
    archived(live, 1)
    assert live.node.partitions.get(topic, 0).log_end_offset == 0  # type: ignore[union-attr]


def test_a_group_without_a_queue_archives_at_once(live: LiveBroker) -> None:
    append(live, b"bad")
    one = ShareMember(live.client(), topic_id(live))
    assert one.take() == [(0, 0, 1)]
    assert one.acknowledge((0, 0, REJECT)).error_code == E.NONE
    archived(live, 1)
    assert QUEUE not in live.node.metadata.image.topics


def test_records_on_their_way_to_the_queue_when_a_broker_ended_arrive_after_its_return(tmp_path: Path) -> None:
    with LiveBroker(tmp_path / "data", {**SETTINGS, "errors.deadletterqueue.auto.create.topics.enable": False}) as live:
        prepare(live)
        append(live, b"a", b"b")
        configure(live)
        batches = [{"first_offset": 0, "last_offset": 1, "delivery_state": 3, "delivery_count": 1}]
        part = {"partition": 0, "state_epoch": 1, "leader_epoch": 0, "start_offset": 0, "state_batches": batches}
        asked = {"group_id": "g", "topics": [{"topic_id": topic_id(live), "partitions": [part]}]}
        assert live.client().call(85, 0, asked).results[0].partitions[0].error_code == E.NONE
    with LiveBroker(tmp_path / "data", SETTINGS) as live:
        ShareMember(live.client(), topic_id(live)).fetch(wait_ms=500)
        assert [told(each)["offset"] for each in letters(live, 2)] == [b"0", b"1"]
        archived(live, 2)
