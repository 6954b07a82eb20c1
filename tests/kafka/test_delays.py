"""Delayed records in the consumer's buffers: none before its time, the order of a partition kept, and no other partition held up."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from streamactors.kafka.reading.consumer_state import ConsumerState
from streamactors.kafka.reading.delays import DelayedTopics, Delays
from streamactors.kafka.reading.pausing import Limits
from streamactors.kafka.subscriptions import TopicPartition

LATE, PLAIN = TopicPartition("late", 0), TopicPartition("plain", 0)


class Message:
    def __init__(self, offset, due_ms):
        self.at, self.due_ms = offset, due_ms

    def offset(self):
        return self.at


class Buffers:
    def __init__(self, now_ms=0):
        self.now_ms = now_ms
        delays = Delays(DelayedTopics(frozenset({"late"}), lambda message: message.due_ms), lambda: self.now_ms)
        self.state = ConsumerState(Limits(1_000, 500, 100_000, 0), 100, delays)
        self.state.assigned({LATE: "feed", PLAIN: "feed"}, 1, {})
        self.state.requested("feed", 1_000)

    def read(self, key, dues, first=0):
        messages = [Message(first + i, due) for i, due in enumerate(dues)]
        self.state.read(key, messages, len(messages), first + len(messages))

    def delivered(self):
        return [(d.key, m.offset()) for d in self.state.deliveries() for m in d.records]


@given(
    chunks=st.lists(st.lists(st.none() | st.integers(0, 20), min_size=1, max_size=6), max_size=5),
    steps=st.lists(st.integers(0, 7), max_size=8),
)
def test_no_record_comes_before_its_time_and_none_behind_it_overtakes_it(chunks, steps):
    buffers, dues, got = Buffers(), [], []
    for chunk in chunks:
        buffers.read(LATE, chunk, len(dues))
        dues += chunk
    for step in [0, *steps]:
        buffers.now_ms += step
        got += [offset for _, offset in buffers.delivered()]
        expected = next((i for i, due in enumerate(dues) if due is not None and due > buffers.now_ms), len(dues))
        assert got == list(range(expected))
        waits = expected < len(dues)
        assert buffers.state.pausing.silences(LATE) is waits
    assert buffers.state.buffered == len(dues) - len(got)


def test_a_partition_that_waits_is_paused_in_the_client_and_resumed_when_its_record_is_due():
    buffers = Buffers()
    buffers.read(LATE, [100])
    buffers.read(PLAIN, [100])  # a topic without delays: the header says nothing
    assert buffers.delivered() == [(PLAIN, 0)]
    assert buffers.state.pauses(0) == ([LATE], [])
    buffers.now_ms = 99
    assert buffers.delivered() == []
    assert buffers.state.pauses(99) == ([], [])
    buffers.now_ms = 100
    assert buffers.delivered() == [(LATE, 0)]
    assert buffers.state.pauses(100) == ([], [LATE])


def test_a_revoked_partition_forgets_what_it_waited_for():
    buffers = Buffers()
    buffers.read(LATE, [100])
    assert buffers.delivered() == []
    buffers.state.revoked([LATE])
    buffers.state.assigned({LATE: "feed"}, 2, {})
    buffers.read(LATE, [None])
    assert buffers.delivered() == [(LATE, 0)]
