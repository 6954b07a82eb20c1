"""The consumer's decisions under random assignments, revocations, losses, late data, pauses and several stages; the model is a broker
that keeps what a client would do: positions, pauses that outlive a revocation, and a prefetch that a pause throws away."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from streamactors.kafka.consumer_state import ConsumerState, Limits
from streamactors.kafka.subscriptions import TopicPartition

KEYS = [TopicPartition("t", n) for n in range(4)]
LIMITS = Limits(high=400_000, low=150_000, total=1_600_000, dwell_ms=100)
RECORD_BYTES = 1_000


@dataclass(frozen=True)
class Rec:
    key: TopicPartition
    offset: int


class ConsumerMachine(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.state = ConsumerState(LIMITS)
        self.now = 0.0
        self.epoch = 0
        self.position = dict.fromkeys(KEYS, 0)  # what the client fetches next
        self.paused: set[TopicPartition] = set()  # in the client; survives a revocation there
        self.expected = {}  # the next offset to be delivered, per (key, epoch)
        self.owned = {}
        self.delivered = {}

    # ── the model ─────────────────────────────────────────────────────────────────────────────────────────────────

    def deliver(self):
        for delivery in self.state.deliveries():
            owner = self.owned.get(delivery.key)
            assert owner == (delivery.epoch, delivery.stage), "no record of a revoked partition is delivered"
            assert delivery.key not in self.state.user_paused
            for record in delivery.records:
                assert record.key == delivery.key, "each stage gets its own partitions only"
                assert record.offset == self.expected[delivery.key], "no gap, nothing twice"
                self.expected[delivery.key] += 1
            assert delivery.end == self.expected[delivery.key]
            self.delivered[delivery.stage] = self.delivered.get(delivery.stage, 0) + len(delivery.records)

    def fetch(self, key, n):
        start = self.position[key]
        self.position[key] = start + n
        self.state.read(key, [Rec(key, start + i) for i in range(n)], n * RECORD_BYTES, start + n)

    def tell_client(self):
        to_pause, to_resume = self.state.pauses(self.now)
        assert not set(to_pause) & self.paused, "only differences are told"
        assert set(to_resume) <= self.paused, "only differences are told"
        for key in to_pause:
            partition = self.state.partitions[key]
            assert partition.fetched is not None, "nothing is paused before its first record"
        self.paused |= set(to_pause)
        self.paused -= set(to_resume)

    # ── what happens ──────────────────────────────────────────────────────────────────────────────────────────────

    @rule(keys=st.sets(st.sampled_from(KEYS), min_size=1), stage=st.sampled_from("ab"))
    def assign(self, keys, stage):
        keys = {key for key in keys if key not in self.owned}
        self.epoch += 1
        self.paused -= keys  # as the actor: every assignment starts unpaused
        for key in keys:
            self.owned[key] = (self.epoch, stage)
            self.expected[key] = self.position[key]
        self.state.assigned(keys, self.epoch, stage, {})

    @rule(keys=st.sets(st.sampled_from(KEYS), min_size=1), committed=st.booleans())
    def revoke_or_lose(self, keys, committed):
        gone = {key for key in keys if key in self.owned}
        self.state.revoked(keys)
        for key in gone:
            del self.owned[key]
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
        self.state.pause(keys)

    @rule(keys=st.sets(st.sampled_from(KEYS)))
    def user_resumes(self, keys):
        self.state.resume(keys)
        self.deliver()

    # ── laws ──────────────────────────────────────────────────────────────────────────────────────────────────────

    @invariant()
    def demand_is_never_exceeded(self):
        assert all(n >= 0 for n in self.state.demand.values())

    @invariant()
    def what_the_client_was_told_is_what_we_believe(self):
        ours = {key for key, partition in self.state.partitions.items() if partition.paused}
        assert ours == {key for key in self.paused if key in self.owned}

    @invariant()
    def sizes_add_up(self):
        for partition in self.state.partitions.values():
            assert partition.buffered == sum(len(chunk.records) for chunk in partition.chunks)
            assert partition.size == sum(chunk.size for chunk in partition.chunks)

    @precondition(lambda self: self.owned)
    @rule()
    def every_partition_with_demand_and_data_is_eventually_delivered(self):
        """None stays paused: with demand, a partition delivers again whatever happened before."""
        self.state.resume(KEYS)
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
TestConsumerState.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


def test_a_partition_is_paused_above_high_for_the_dwell_time_and_resumed_below_low():
    state = ConsumerState(LIMITS)
    key = KEYS[0]
    state.assigned([key], 1, "s", {})
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
    state = ConsumerState(LIMITS)
    keys = [TopicPartition("t", n) for n in range(1_000)]
    state.assigned(keys, 1, "s", {})
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


def test_partitions_take_turns():
    state = ConsumerState(LIMITS)
    state.assigned(KEYS, 1, "s", {})
    for key in KEYS:
        for chunk in range(3):
            state.read(key, [Rec(key, chunk)], 10, chunk + 1)
    state.requested("s", 4)
    assert {delivery.key for delivery in state.deliveries()} == set(KEYS)
