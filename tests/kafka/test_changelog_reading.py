"""Changelogs are read from where each store stands to the ends of the start: what is taken, when it is over, and what is refused.

The broker is the test's."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import Message

from streamactors.kafka import ConsumerSettings
from streamactors.kafka.state.changelogs import changelog_topics
from streamactors.kafka.state.changelogs.changelog_topics import NO_PROGRESS_S, PROGRESS_S, ChangelogTopics
from streamactors.kafka.subscriptions import TopicPartition
from streamactors.windows.errors import RestoreError

A, B = TopicPartition("g-one-changelog", 0), TopicPartition("g-one-changelog", 1)


def message(offset: int, key: bytes | None, value: bytes | None) -> Any:
    return Message(topic="g-one-changelog", partition=0, offset=offset, key=key, value=value)


class Client:
    """Gives the batches of the test; each may take some time."""

    def __init__(self, clock: SimpleNamespace, *batches: Any) -> None:
        self.clock = clock
        self.batches = list(batches)
        self.assigned: list[Any] = []

    def assign(self, positions: Any) -> None:
        self.assigned.append(positions)

    def read(self, most: int, timeout_s: float) -> Any:
        assert (most, timeout_s) == (10_000, 0.5)
        seconds, batch = self.batches.pop(0)
        self.clock.now_s += seconds
        return batch


class Target:
    def __init__(self) -> None:
        self.taken: list[Any] = []

    def add(self, number: int, store: str, keys: Any, values: Any, end: int) -> None:
        self.taken.append((number, store, list(keys), list(values), end))


def rows(key: Any, *messages: Any, end: int, seconds: float = 0) -> Any:
    return seconds, SimpleNamespace(runs=[(key, list(messages), None, end)], ends=[])


def ends(*found: tuple[Any, int], seconds: float = 0) -> Any:
    return seconds, SimpleNamespace(runs=[], ends=list(found))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    made = SimpleNamespace(now_s=0.0)
    monkeypatch.setattr(changelog_topics, "time", SimpleNamespace(monotonic=lambda: made.now_s))
    return made


def topics() -> ChangelogTopics:
    return ChangelogTopics(ConsumerSettings("localhost:1", "g"), {"one": "g-one-changelog"})


def read(client: Client, to: dict[Any, int], begins: dict[Any, int], of: ChangelogTopics | None = None) -> list[Any]:
    target = Target()
    (of or topics())._read(client, to, begins, target)  # type: ignore[arg-type]
    return target.taken


def test_entries_are_taken_in_order_with_the_offset_behind_them(clock: SimpleNamespace) -> None:
    client = Client(
        clock, rows(A, message(0, b"k", b"1"), message(1, b"k", None), end=2), rows(A, message(2, b"l", b"2"), end=3)
    )
    assert read(client, {A: 3}, {A: -2}) == [(0, "one", [b"k", b"k"], [b"1", None], 2), (0, "one", [b"l"], [b"2"], 3)]
    assert (client.assigned, client.batches) == ([{A: -2}], [])


def test_a_partition_that_ends_with_markers_is_read_to_them(clock: SimpleNamespace) -> None:
    client = Client(clock, rows(A, message(0, b"k", b"1"), end=1), ends((B, 9), (A, 3)))
    assert read(client, {A: 3}, {A: 0}) == [(0, "one", [b"k"], [b"1"], 1), (0, "one", [], [], 3)]


def test_a_partition_is_waited_for_until_it_is_at_its_end(clock: SimpleNamespace) -> None:
    client = Client(clock, ends((A, 2)), ends((A, 3)), ends((B, 5)))
    assert [each[0::4] for each in read(client, {A: 3, B: 5}, {A: 0, B: 1})] == [(0, 2), (0, 3), (1, 5)]
    assert client.assigned == [{A: 0, B: 1}]


def test_a_partition_that_has_nothing_new_is_not_read(clock: SimpleNamespace) -> None:
    assert read(Client(clock), {A: 3, B: 0}, {A: 3, B: -2}) == []
    client = Client(clock, ends((B, 5)))
    read(client, {A: 3, B: 5}, {A: 3, B: 1})
    assert client.assigned == [{B: 1}]


def test_a_record_without_a_key_is_refused_with_its_place(clock: SimpleNamespace) -> None:
    client = Client(clock, rows(A, message(4, b"k", b"1"), message(7, None, b"1"), end=8))
    with pytest.raises(RestoreError, match=f"changelog {A}: a record at 7 has no key; no store wrote it"):
        read(client, {A: 9}, {A: 0})


def test_silence_is_an_error_after_a_time_that_begins_with_the_last_entry(clock: SimpleNamespace) -> None:
    late = NO_PROGRESS_S - 1
    client = Client(
        clock,
        ends((A, 1), seconds=late),
        rows(A, message(1, b"k", b"1"), end=2, seconds=0.5),
        ends(seconds=late),
        ends(seconds=1),
        ends(seconds=0.1),
    )
    with pytest.raises(
        RestoreError, match=f"no record of the changelogs {A} .to 9. arrived in {NO_PROGRESS_S:g} s: a transaction"
    ):
        read(client, {A: 9}, {A: 0})
    assert client.batches == []


def test_a_reading_that_was_cancelled_ends(clock: SimpleNamespace) -> None:
    of = topics()
    of.cancel()
    assert read(Client(clock), {A: 9}, {A: 0}, of) == []


def test_a_long_restore_tells_how_far_it_is(clock: SimpleNamespace, caplog: pytest.LogCaptureFixture) -> None:
    step = PROGRESS_S / 2
    batches = [rows(A, message(at, b"k", b"1"), end=at + 1, seconds=step) for at in range(5)]
    with caplog.at_level(logging.INFO):
        read(Client(clock, *batches), {A: 5}, {A: 0})
    assert [each.message for each in caplog.records] == [
        "g-one-changelog: restored 3 entries of at most 5, 0 a second",
        "g-one-changelog: restored 5 entries, 0 a second",
    ]


def test_a_restore_without_entries_tells_nothing(clock: SimpleNamespace, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        read(Client(clock, ends((A, 5))), {A: 5}, {A: 0})
    assert caplog.records == []
