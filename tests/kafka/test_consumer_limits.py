"""When the consumer pauses partitions because it holds too much of them, and when it resumes them."""

from __future__ import annotations

from streamactors.kafka.reading.consumer_state import ConsumerState
from streamactors.kafka.reading.pausing import SMALLEST_SHARE, Limits
from streamactors.kafka.subscriptions import TopicPartition
from tests.kafka.polled_records import KEYS, LIMITS, Rec


def test_a_partition_is_paused_above_high_for_the_dwell_time_and_resumed_below_low():
    state = ConsumerState(LIMITS, 500)
    key = KEYS[0]
    state.assigned({key: "s"}, 1, {})
    state.read(key, [Rec(key, i) for i in range(500)], 500_000, 500)
    assert state.pauses(0) == ([], []), "not before the dwell time"
    assert state.pauses(100) == ([key], [])
    assert state.pauses(200) == ([], []), "differences only"
    state.requested("s", 200)
    assert sum(len(d.records) for d in state.deliveries()) == 200
    assert state.pauses(300) == ([], []), "between low and high nothing changes"
    state.requested("s", 200)
    list(state.deliveries())
    assert state.pauses(400) == ([], [key])


def test_very_many_partitions_are_paused_when_together_they_are_too_much():
    # polls go on without demand, a record each: a thousand partitions below their own limits would fill the memory
    state = ConsumerState(LIMITS, 500)
    keys = [TopicPartition("t", n) for n in range(1_000)]
    state.assigned(dict.fromkeys(keys, "s"), 1, {})
    for n, key in enumerate(keys[:500]):
        state.read(key, [Rec(key, i) for i in range(3)], 3_000, 3)
        assert state.pauses(n * 200) == ([], []), "not yet"
    for key in keys[500:900]:
        state.read(key, [Rec(key, i) for i in range(3)], 3_000, 3)
    state.pauses(10**6)
    to_pause, _ = state.pauses(10**6 + LIMITS.dwell_ms)
    assert to_pause == keys[:900], "those that hold something; the others can still bring what is wanted"
    state.requested("s", 2_000)
    list(state.deliveries())
    assert state.pauses(2 * 10**6)[1] == keys[:900]


def test_a_poll_reads_ahead_until_one_more_would_only_grow_old():
    state = ConsumerState(LIMITS, 10)
    assert not state.hungry, "without partitions"
    state.assigned(dict.fromkeys(KEYS[:2], "s"), 1, {})
    assert state.hungry
    state.end_reached(KEYS[0], 0)
    assert state.hungry, "one partition may have more"
    state.end_reached(KEYS[1], 0)
    assert not state.hungry
    state.read(KEYS[1], [Rec(KEYS[1], i) for i in range(9)], 9, 9)
    assert state.hungry
    state.read(KEYS[1], [Rec(KEYS[1], 9)], 1, 10)
    assert not state.hungry, "as much as a poll brings"
    state.revoked(KEYS[1:])
    state.assigned({KEYS[1]: "s"}, 2, {})
    state.read(KEYS[1], [Rec(KEYS[1], 0)], LIMITS.low, 1)
    assert not state.hungry, "large records"


def test_a_partition_that_delivers_nothing_is_paused_once_it_holds_something():
    state = ConsumerState(LIMITS, 500)
    key = KEYS[0]
    state.assigned({key: "s"}, 1, {})
    state.pausing.by_user.add(key)
    assert state.pauses(0) == ([], [])
    state.read(key, [Rec(key, 0)], 100, 1)
    assert state.pauses(0) == ([], [])
    assert state.pauses(LIMITS.dwell_ms) == ([key], [])
    state.pausing.by_user.clear()
    assert state.pauses(LIMITS.dwell_ms) == ([], [key]), "little is buffered"
    state.pausing.withheld.add(key)
    assert state.pauses(300) == ([], [])
    assert state.pauses(300 + LIMITS.dwell_ms) == ([key], [])


def test_twice_the_limit_pauses_without_the_dwell_time():
    state = ConsumerState(LIMITS, 500)
    key = KEYS[0]
    state.assigned({key: "s"}, 1, {})
    state.read(key, [Rec(key, 0)], 2 * LIMITS.high, 1)
    assert state.pauses(0) == ([], [])
    state.read(key, [Rec(key, 1)], 1, 2)
    assert state.pauses(0) == ([key], [])
    assert (state.counts.pauses, state.counts.resumes) == (1, 0)
    state.revoked([key])
    state.assigned({key: "s"}, 2, {})
    assert not state.partitions[key].paused, "every assignment begins unpaused"
    assert state.pauses(10_000) == ([], [key]), "librdkafka keeps the pause of the assignment before"
    assert state.pauses(10_000) == ([], [])


def test_the_limits_of_a_partition_shrink_with_their_number():
    limits = Limits(high=4_000_000, low=2_000_000, total=8_000_000, dwell_ms=0)
    assert limits.per_partition(1) == limits.per_partition(2) == (4_000_000, 2_000_000)
    assert limits.per_partition(4) == (2_000_000, 1_000_000)
    assert limits.per_partition(1_000) == (SMALLEST_SHARE, SMALLEST_SHARE // 2)
    assert limits.bound == 10_000_000


def test_an_assignment_of_more_partitions_shrinks_the_limits_of_those_that_are_there():
    state = ConsumerState(Limits(high=2_000_000, low=1_000_000, total=2_000_000, dwell_ms=0), 500)
    one = KEYS[0]
    state.assigned({one: "s"}, 1, {})
    state.read(one, [Rec(one, 0)], 800_000, 1)
    assert state.pauses(0) == ([], [])
    state.assigned(dict.fromkeys(KEYS[1:], "s"), 2, {})
    assert state.pauses(0) == ([one], []), "its share is 500,000 bytes now"


def test_a_partition_that_was_held_back_delivers_when_it_is_assigned_again():
    state = ConsumerState(LIMITS, 500)
    one = KEYS[0]
    state.assigned({one: "s"}, 1, {})
    state.pausing.hold_back([one])
    state.requested("s", 5)
    state.read(one, [Rec(one, 0)], 100, 1)
    assert list(state.deliveries()) == []
    state.revoked([one])
    state.assigned({one: "s"}, 2, {})
    state.read(one, [Rec(one, 0)], 100, 1)
    assert len(list(state.deliveries())) == 1
