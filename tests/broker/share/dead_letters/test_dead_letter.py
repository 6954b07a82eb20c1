"""Dead letters of share groups: their format, and which topics take them."""

from __future__ import annotations

import pytest

from streamactors.broker.records.batch import RecordBatch
from streamactors.broker.share.dead_letters.dead_letter import REJECTED, DeadLetter, Queue, complaint, part_of

LETTER = DeadLetter("g", "t", 3, 10, 12, 2, REJECTED)


def test_a_letter_has_a_record_for_each_offset_with_where_it_came_from_in_headers() -> None:
    batch, after = part_of(LETTER, 10, {11: (b"k", b"v")}, 77, 1 << 20)
    assert after == 13
    records = list(RecordBatch(batch).records())
    assert [(each.key, each.value, each.timestamp) for each in records] == [
        (None, None, 77), (b"k", b"v", 77), (None, None, 77),
    ]  # fmt: skip
    assert records[1].headers == (
        ("__dlq.errors.topic", b"t"),
        ("__dlq.errors.partition", b"3"),
        ("__dlq.errors.offset", b"11"),
        ("__dlq.errors.group", b"g"),
        ("__dlq.errors.delivery.count", b"2"),
        ("__dlq.errors.message", b"Offset rejected by client."),
    )


def test_a_letter_is_cut_into_batches_that_the_topic_takes() -> None:
    data = {at: (None, bytes(600)) for at in range(10, 13)}
    seen, at = [], 10
    while at <= LETTER.last:
        batch, at = part_of(LETTER, at, data, 0, 1_000)
        assert len(batch) <= 1_000
        seen.append([len(each.value or b"") for each in RecordBatch(batch).records()])
    assert seen == [[600], [600], [600]]


def test_a_record_that_no_batch_can_hold_is_written_without_key_and_value() -> None:
    batch, after = part_of(LETTER, 10, {10: (b"k", bytes(5_000))}, 0, 1_000)
    assert len(batch) <= 1_000
    first = next(RecordBatch(batch).records())
    assert (first.key, first.value) == (None, None)
    assert after > 10


@pytest.mark.parametrize(
    ("queue", "wrong"),
    [
        (Queue("dlq.t", True, "dlq.", False), None),
        (Queue("dlq.t", None, "dlq.", True), None),
        (Queue("any", True, "", False), None),
        (Queue("", None, "dlq.", True), "is empty"),
        (Queue("__dlq", True, "", True), "cannot start with __"),
        (Queue("dlq.t", False, "dlq.", True), "DLQ is not enabled"),
        (Queue("dlq.t", None, "dlq.", False), "auto create is disabled"),
        (Queue("other", True, "dlq.", False), "does not comply with the DLQ topic prefix"),
    ],
)
def test_a_topic_takes_dead_letters_only_by_the_rules(queue: Queue, wrong: str | None) -> None:
    found = complaint("g", queue)
    assert (found is None) == (wrong is None)
    assert wrong is None or wrong in (found or "")
