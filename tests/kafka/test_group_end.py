"""GroupEnd: whether the group has read everything, found out between the polls of a consumer without partitions. The broker is the test's."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from streamactors.kafka import ConsumerSettings, Subscriptions
from streamactors.kafka.client.offsets import unread
from streamactors.kafka.reading import group_end
from streamactors.kafka.reading.group_end import GROUP_CHECK_MS, MOST_LOOKS, GroupEnd, ReadInRun
from streamactors.kafka.subscriptions import TopicPartition

KEY = TopicPartition("t", 0)
NOTHING = SimpleNamespace(runs=[], ends=[])
AT_END = SimpleNamespace(runs=[], ends=[(KEY, 2)])
RECORD = SimpleNamespace(runs=[(KEY, [SimpleNamespace(offset=1)], None, 2)], ends=[])


class Reader:
    """The client that looks for records."""

    def __init__(self, polls):
        self.polls = polls
        self.waited_s = []
        self.closed = False

    def assign(self, starts):
        assert starts == {KEY: 1}

    def poll(self, limit, timeout_s):
        self.waited_s.append(timeout_s)
        return self.polls.pop(0) if self.polls else NOTHING

    def close(self):
        self.closed = True


class Group:
    """A group whose other member has committed offset 1 of 2. `check` asks once, when a check is due."""

    def __init__(self, monkeypatch, *polls):
        self.readers = []
        self.committed = {KEY: 1}

        def reader(settings):
            self.readers.append(Reader(list(polls)))
            return self.readers[-1]

        client = SimpleNamespace(stable_ends=lambda keys: {KEY: 2}, committed=lambda keys: dict(self.committed))
        shared = SimpleNamespace(
            settings=ConsumerSettings("localhost:1", "g", "earliest"), client=client, now_ms=lambda: self._now_ms
        )
        monkeypatch.setattr(unread, "StreamConsumer", reader)
        monkeypatch.setattr(group_end, "partitions_of", lambda subscription, client: [KEY])
        self._now_ms = 1_000.0
        self.end = GroupEnd(shared, Subscriptions.topics("t"), ReadInRun())
        assert not self.check()

    def check(self):
        self._now_ms += GROUP_CHECK_MS
        return self.end.is_reached()


def test_the_thread_of_the_consumer_never_waits_for_a_record(monkeypatch):
    # It waited up to 5 s; no rebalance and no message was served meanwhile.
    group = Group(monkeypatch, NOTHING, NOTHING, AT_END)
    assert [group.check() for _ in range(3)] == [False, False, True]
    (reader,) = group.readers
    assert set(reader.waited_s) == {0}
    assert reader.closed
    assert group.check()


def test_a_record_that_is_there_is_looked_for_once(monkeypatch):
    group = Group(monkeypatch, RECORD)
    assert not any(group.check() for _ in range(5))
    (reader,) = group.readers
    assert reader.closed
    group.committed[KEY] = 2
    assert group.check()


def test_a_broker_that_does_not_answer_is_asked_anew(monkeypatch):
    group = Group(monkeypatch)
    assert not any(group.check() for _ in range(MOST_LOOKS + 1))
    assert [reader.closed for reader in group.readers] == [True, False]
    group.end.close()
    assert [reader.closed for reader in group.readers] == [True, True]


@pytest.mark.parametrize("polls", [(), (NOTHING,)])
def test_what_the_group_commits_meanwhile_ends_the_search(monkeypatch, polls):
    group = Group(monkeypatch, *polls)
    assert not group.check()
    group.committed[KEY] = 2
    assert group.check()
    assert [reader.closed for reader in group.readers] == [True]
