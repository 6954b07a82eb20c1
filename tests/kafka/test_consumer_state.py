"""The consumer's decisions under random assignments, revocations, losses, late data, pauses and several stages; the model is a broker
that keeps what a client would do: positions, pauses that outlive a revocation, and a prefetch that a pause throws away."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from streamactors.kafka.reading.consumer_state import LONG_CHUNK, ConsumerState
from streamactors.kafka.subscriptions import TopicPartition
from tests.kafka.polled_records import KEYS, LIMITS, Rec

RECORD_BYTES = 1_000


class ConsumerMachine(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.state = ConsumerState(LIMITS, 500)
        self.now = 0.0
        self.epoch = 0
        self.position = dict.fromkeys(KEYS, 0)  # what the client fetches next
        self.paused: set[TopicPartition] = set()  # in the client; survives a revocation there
        self.assigned_paused: set[TopicPartition] = set()  # assigned again since, and not resumed by a poll yet
        self.expected = {}  # the next offset to be delivered, per (key, epoch)
        self.owned = {}
        self.delivered = {}
        self.ended_at = {}  # when the broker said that there is nothing further, unless a record has come since

    # ── the model ─────────────────────────────────────────────────────────────────────────────────────────────────

    def deliver(self):
        for delivery in self.state.deliveries():
            owner = self.owned.get(delivery.key)
            assert owner == (delivery.epoch, delivery.feed), "no record of a revoked partition is delivered"
            assert not self.state.pausing.waits(delivery.key)
            for record in delivery.records:
                assert record.key == delivery.key, "each stage gets its own partitions only"
                assert record.at == self.expected[delivery.key], "no gap, nothing twice"
                self.expected[delivery.key] += 1
            assert delivery.end == self.expected[delivery.key]
            self.delivered[delivery.feed] = self.delivered.get(delivery.feed, 0) + len(delivery.records)

    def fetch(self, key, n):
        start = self.position[key]
        self.position[key] = start + n
        self.ended_at.pop(key, None)
        self.state.read(key, [Rec(key, start + i) for i in range(n)], n * RECORD_BYTES, start + n)

    def tell_client(self):
        to_pause, to_resume = self.state.pauses(self.now)
        assert not set(to_pause) & self.paused, "only changes are sent to the client"
        assert set(to_resume) <= self.paused, "only changes are sent to the client"
        for key in to_pause:
            partition = self.state.partitions[key]
            assert partition.fetched is not None, "nothing is paused before its first record"
        self.paused |= set(to_pause)
        self.paused -= set(to_resume)
        assert not self.assigned_paused & self.paused, "the poll after an assignment resumes what was paused before it"
        self.assigned_paused.clear()

    # ── what happens ──────────────────────────────────────────────────────────────────────────────────────────────

    @rule(keys=st.sets(st.sampled_from(KEYS), min_size=1), stage=st.sampled_from("ab"))
    def assign(self, keys, stage):
        keys = {key for key in keys if key not in self.owned}
        self.epoch += 1
        for key in keys:
            self.owned[key] = (self.epoch, stage)
            self.expected[key] = self.position[key]
        self.assigned_paused |= keys & self.paused
        self.state.assigned(dict.fromkeys(keys, stage), self.epoch, {})

    @rule(keys=st.sets(st.sampled_from(KEYS), min_size=1), committed=st.booleans())
    def revoke_or_lose(self, keys, committed):
        gone = {key for key in keys if key in self.owned}
        self.state.revoked(keys)
        for key in gone:
            del self.owned[key]
            self.assigned_paused.discard(key)
            self.ended_at.pop(key, None)
            self.position[key] = self.expected[key] if committed else max(0, self.expected[key] - 7)

    @rule(key=st.sampled_from(KEYS), n=st.integers(1, 300))
    def data(self, key, n):
        if key in self.owned and key not in self.paused:
            self.fetch(key, n)
            self.deliver()

    @rule(key=st.sampled_from(KEYS))
    def late_data(self, key):
        if key not in self.owned:
            before = self.state.counts.dropped_stale
            self.state.read(key, [Rec(key, 10**9)], RECORD_BYTES, 10**9 + 1)
            assert self.state.counts.dropped_stale == before + 1

    @rule(stage=st.sampled_from("ab"), n=st.integers(1, 500))
    def request(self, stage, n):
        self.state.requested(stage, n)
        self.deliver()

    @rule(ms=st.integers(1, 300))
    def tick(self, ms):
        self.now += ms
        self.tell_client()

    @rule(keys=st.sets(st.sampled_from(KEYS)))
    def user_pauses(self, keys):
        self.state.pausing.by_user.update(keys)

    @rule(keys=st.sets(st.sampled_from(KEYS)))
    def user_resumes(self, keys):
        self.state.pausing.by_user.difference_update(keys)
        self.deliver()

    @rule(keys=st.sets(st.sampled_from(KEYS)))
    def others_are_far_behind(self, keys):
        self.state.pausing.hold_back(keys)
        self.deliver()

    @rule(keys=st.sets(st.sampled_from(KEYS)))
    def too_much_is_acknowledged_above_a_gap(self, keys):
        self.state.pausing.count_as_full(keys)
        self.deliver()

    @rule(key=st.sampled_from(KEYS), offset=st.integers(0, 50))
    def starts_elsewhere(self, key, offset):
        """As the actor: the partition is withheld when it is assigned, and resumed in the client before it seeks."""
        if key in self.owned:
            self.state.pausing.withheld.add(key)
            self.paused.discard(key)
            self.assigned_paused.discard(key)
            self.state.partitions[key].paused = False
            self.state.pausing.resumed(key)
            self.state.start_over(key)
            self.position[key] = self.expected[key] = offset
            self.ended_at.pop(key, None)

    @rule(key=st.sampled_from(KEYS))
    def end(self, key):
        if key in self.owned and key not in self.paused:
            self.state.end_reached(key, self.position[key])
            self.ended_at.setdefault(key, self.now)

    @rule()
    def look_for_idle_ones(self):
        for partition, silent_ms in self.state.idle(self.now, every_ms=1):
            key = partition.key
            assert self.owned[key][0] == partition.epoch
            assert key in self.ended_at, "a record has come since the end was reached"
            assert 0 <= silent_ms <= self.now - self.ended_at[key]
            assert self.position[key] == self.expected[key], "a record waits for its delivery"
            assert key not in self.paused
            assert not self.state.pausing.silences(key)
            assert self.state.demand[partition.feed] > 0

    # ── laws ──────────────────────────────────────────────────────────────────────────────────────────────────────

    @invariant()
    def demand_is_never_exceeded(self):
        assert all(n >= 0 for n in self.state.demand.values())

    @invariant()
    def what_the_client_was_told_is_what_we_believe(self):
        ours = {key for key, partition in self.state.partitions.items() if partition.paused}
        assert ours == {key for key in self.paused if key in self.owned} - self.assigned_paused

    @invariant()
    def sizes_add_up(self):
        for partition in self.state.partitions.values():
            assert partition.buffered == sum(len(chunk.records) for chunk in partition.chunks)
            assert partition.size == sum(chunk.size for chunk in partition.chunks)
            assert partition.buffered == self.position[partition.key] - self.expected[partition.key]
        assert self.state.buffered == sum(partition.buffered for partition in self.state.partitions.values())
        assert self.state.size == sum(partition.size for partition in self.state.partitions.values())

    @invariant()
    def what_is_known_of_revoked_partitions_is_forgotten(self):
        assert set(self.state.partitions) == set(self.owned)
        assert self.state.pausing.withheld <= set(self.owned)

    @invariant()
    def a_feed_is_fed_when_something_may_be_delivered(self):
        pausing = self.state.pausing
        filled = {key for key, partition in self.state.partitions.items() if partition.chunks}
        assert self.state.feeding == any(not pausing.silences(key) and key not in pausing.held_back for key in filled)
        assert self.state.starving == any(self.state.demand.values())

    @precondition(lambda self: self.owned)
    @rule()
    def every_partition_with_demand_and_data_is_eventually_delivered(self):
        """None stays paused: with demand, a partition delivers again whatever happened before."""
        self.state.pausing.by_user.clear()
        self.state.pausing.hold_back(())
        self.state.pausing.count_as_full(())
        for stage in "ab":
            self.state.requested(stage, 20_000)
        self.deliver()
        self.now += LIMITS.dwell_ms + 1
        self.tell_client()
        assert not {key for key in self.paused if key in self.owned}
        for key in list(self.owned):
            before = self.expected[key]
            self.fetch(key, 3)
            self.deliver()
            assert self.expected[key] == before + 3


TestConsumerState = ConsumerMachine.TestCase


TestConsumerState.settings = settings(max_examples=250, stateful_step_count=40, deadline=None)


def test_partitions_take_turns():
    state = ConsumerState(LIMITS, 500)
    state.assigned(dict.fromkeys(KEYS, "s"), 1, {})
    for key in KEYS:
        for at in range(0, 60, 20):
            state.read(key, [Rec(key, at + n) for n in range(20)], 200, at + 20)
    state.requested("s", 80)
    assert {delivery.key for delivery in state.deliveries()} == set(KEYS)


def test_short_polls_become_one_delivery_and_long_ones_stay_apart():
    # While a source does not ask, each poll reads one record, to serve rebalances. Each was a chunk of its own for every stage after it.
    state, key = ConsumerState(LIMITS, 500), KEYS[0]
    state.assigned({key: "s"}, 1, {})
    for offset in range(LONG_CHUNK + 1):
        state.read(key, [Rec(key, offset)], 10, offset + 1)
    state.requested("s", 10_000)
    first, second = state.deliveries()
    assert [record.offset() for record in first.records] == list(range(LONG_CHUNK))
    assert (first.end, first.size) == (LONG_CHUNK, 10 * LONG_CHUNK)
    assert [record.offset() for record in second.records] == [LONG_CHUNK]
    assert (state.buffered, state.size) == (0, 0)


def test_records_of_a_revoked_partition_are_not_delivered_and_weigh_nothing():
    state = ConsumerState(LIMITS, 500)
    for epoch in range(1, 4):
        state.assigned(dict.fromkeys(KEYS, "s"), epoch, {})
        for key in KEYS:
            state.read(key, [Rec(key, i) for i in range(10)], 1_000, 10)
        assert [partition.key for partition in state.revoked(KEYS[:2])] == KEYS[:2]
        assert (state.buffered, state.size) == (20, 2_000)
        state.requested("s", 5)
        assert {delivery.key for delivery in state.deliveries()} <= set(KEYS[2:])
        assert len(state.revoked(KEYS)) == 2
        assert (state.buffered, state.size) == (0, 0)
        state.requested("s", 100)
        assert list(state.deliveries()) == []
        state.feed_gone("s")
    assert state.counts.dropped_stale == 3 * 40 - state.counts.delivered
    state.read(KEYS[0], [Rec(KEYS[0], 0)], 100, 1)
    assert list(state.deliveries()) == []


def test_a_partition_is_idle_from_its_end_until_a_record_comes():
    state = ConsumerState(LIMITS, 500)
    key = KEYS[0]
    state.assigned({key: "s"}, 1, {})
    state.end_reached(key, 0)
    assert state.partitions[key].fetched == 0
    assert state.idle(0, 500) == [], "nobody has asked"
    state.requested("s", 10)
    assert [(p.key, ms) for p, ms in state.idle(100, 500)] == [(key, 0)]
    assert state.idle(599, 500) == [], "not too often"
    assert [(p.key, ms) for p, ms in state.idle(600, 500)] == [(key, 500)]
    state.read(key, [Rec(key, 0)], 100, 1)
    assert state.idle(1_200, 500) == []
    assert len(list(state.deliveries())) == 1
    assert state.idle(1_800, 500) == [], "where records have come more may follow"
    state.end_reached(key, 1)
    assert [(p.key, ms) for p, ms in state.idle(2_000, 500)] == [(key, 0)], "silent anew"
    state.pausing.by_user.add(key)
    assert state.idle(9_000, 500) == []
    state.pausing.by_user.clear()
    state.revoked([key])
    assert state.idle(20_000, 500) == []


def test_a_partition_at_its_end_is_not_idle_while_its_records_wait():
    state = ConsumerState(LIMITS, 500)
    key = KEYS[0]
    state.assigned({key: "s"}, 1, {})
    state.read(key, [Rec(key, 0)], 100, 1)
    state.end_reached(key, 1)
    state.requested("s", 10)
    assert state.idle(100, 500) == []
    assert len(list(state.deliveries())) == 1
    assert [(p.key, ms) for p, ms in state.idle(200, 500)] == [(key, 0)]


def test_a_partition_that_starts_over_is_silent_anew():
    state = ConsumerState(LIMITS, 500)
    key = KEYS[0]
    state.assigned({key: "s"}, 1, {})
    state.requested("s", 10)
    state.end_reached(key, 0)
    assert [(p.key, ms) for p, ms in state.idle(100, 1)] == [(key, 0)]
    state.pausing.withheld.add(key)
    state.start_over(key)
    assert state.idle(200, 1) == [], "its end is not known"
    state.read(key, [Rec(key, 5)], 100, 6)
    assert len(list(state.deliveries())) == 1
    state.end_reached(key, 6)
    assert [(p.key, ms) for p, ms in state.idle(300, 1)] == [(key, 0)], "the silence before the seek does not count"


def test_a_bounded_read_is_finished_when_its_last_record_is_delivered():
    state = ConsumerState(LIMITS, 500)
    one, two = KEYS[:2]
    state.assigned({one: "s", two: "s"}, 1, {one: 2, two: 0})
    assert [state.finished(state.partitions[key]) for key in (one, two)] == [False, True]
    state.pausing.withheld.add(two)
    assert not state.finished(state.partitions[two]), "where it begins is not known yet"
    state.read(one, [Rec(one, 0)], 100, 1)
    state.requested("s", 1)
    list(state.deliveries())
    assert not state.finished(state.partitions[one])
    state.end_reached(one, 2)
    assert state.finished(state.partitions[one]), "a transaction marker occupies the last offset"
    state.assigned({one: "s"}, 2, {})
    assert not state.finished(state.partitions[one]), "a read without an end"
