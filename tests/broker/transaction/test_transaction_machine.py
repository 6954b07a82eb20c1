"""Random producers, crashes, lost answers and late markers against the transaction coordinator; its laws hold after every step.

Producers of both protocols share the transactional ids. For one of version 2 the leader of a partition adds it to the transaction, and each end
gives a new epoch. The epochs of some ids are about to run out."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from streamactors.broker.errors import BrokerError, ErrorCode
from streamactors.broker.transaction.transaction import BUMPS_EPOCH, PREPARED, TopicPartition, Transaction
from streamactors.broker.transaction.transaction_events import ExpiryCheck, TimeoutCheck
from tests.broker.transaction.transaction_world import World

E = ErrorCode
IDS = ("tx", "ty")
PARTITIONS = (TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0))


@dataclass
class Producer:
    """A client: it knows its id and epoch, and what it wrote in the transaction it believes to be in."""

    transactional_id: str
    producer: tuple[int, int] | None = None
    waiting: tuple[str, str] | None = None  # (what for, token)
    wants: TopicPartition | None = None
    added: set[TopicPartition] = field(default_factory=set)
    sequences: dict[TopicPartition, int] = field(default_factory=dict)
    number: int = 0
    in_flight: int = 0
    dead: bool = False
    version: int = 0
    must: bool | None = None  # version 2: the only decision that is left, because an answer was lost or a batch refused


class TransactionMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.world = World(auto=False)
        self.producers: list[Producer] = []
        self.slow = False
        self.fates: dict[object, bool] = {}  # transaction -> how it was answered
        self.written: dict[object, list[tuple[TopicPartition, object]]] = {}
        self.asked: set[object] = set()  # transactions whose own producer asked to commit
        self.delayed: list[tuple[Producer, TopicPartition]] = []  # let in by the coordinator, not appended yet

    @initialize(
        ids=st.lists(st.sampled_from(IDS), min_size=1, max_size=3),
        auto=st.booleans(),
        level=st.sampled_from([0, 1, 2, 2, 2]),
        epoch=st.sampled_from([-1, -1, 32_760, 32_764]),
    )
    def begin(self, ids: list[str], auto: bool, level: int, epoch: int) -> None:
        self.world.auto = auto
        self.world.version = level
        for number, transactional_id in enumerate(IDS):
            self.world.ids[transactional_id] = Transaction(transactional_id, 100 + number, producer_epoch=epoch)
        for transactional_id in ids:
            self.a_producer_starts(transactional_id, level)

    def teardown(self) -> None:
        """Law: when all is delivered, every transaction is committed everywhere or nowhere, as its producer was told."""
        world = self.world
        world.auto = True
        world.settle()
        self.hear()
        for producer in self.producers:
            assert producer.waiting is None, f"{producer.waiting} was never answered"
        while self.delayed:
            self.a_delayed_write_arrives(0)
        world.now_ms += 10**7
        for transactional_id in list(world.ids):
            world.step(transactional_id, TimeoutCheck(world.version))
        for txn in world.ids.values():
            assert txn.state not in PREPARED
            assert txn.pending is None
        for partition in world.partitions.values():
            assert partition.open == {}
            assert partition.last_stable_offset == partition.end
        for transaction, values in self.written.items():
            committed = [value in world.partition(where).committed for where, value in values]
            assert all(committed) or not any(committed), f"{transaction} is torn: {values}"
            assert not any(committed) or transaction in self.asked, f"{transaction} was committed by somebody else"
            if transaction in self.fates and values:
                assert all(committed) is self.fates[transaction], f"{transaction} was answered otherwise"

    # -- producers -----------------------------------------------------------------------------------------------------

    def producer(self, number: int) -> Producer | None:
        return self.producers[number % len(self.producers)] if self.producers else None

    @rule(transactional_id=st.sampled_from(IDS), version=st.sampled_from([0, 2, 2]))
    def a_producer_starts(self, transactional_id: str, version: int) -> None:
        """The ones before it are not told: they go on as zombies. Old producers exist in a cluster of any level."""
        if len(self.producers) < 6:
            self.producers.append(Producer(transactional_id, version=min(version, self.world.version)))
            self.producers[-1].waiting = ("init", self.world.init(transactional_id))
            self.hear()

    @rule(number=st.integers(0, 9))
    def a_producer_tries_again(self, number: int) -> None:
        producer = self.producer(number)
        if producer is not None and producer.waiting is None and producer.producer is None and not producer.dead:
            producer.waiting = ("init", self.world.init(producer.transactional_id))
            self.hear()

    @rule(number=st.integers(0, 9))
    def a_producer_asks_for_a_new_epoch(self, number: int) -> None:
        producer = self.idle(number)
        if producer is not None and not producer.in_flight and producer.must is None:
            token = self.world.init(producer.transactional_id, claim=producer.producer)
            producer.waiting = ("init", token)
            self.hear()

    def idle(self, number: int) -> Producer | None:
        producer = self.producer(number)
        if producer is None or producer.dead or producer.waiting is not None or producer.producer is None:
            return None
        return producer if producer.transactional_id in self.world.ids else None

    @rule(number=st.integers(0, 9), partition=st.sampled_from(PARTITIONS))
    def a_producer_writes(self, number: int, partition: TopicPartition) -> None:
        producer = self.idle(number)
        if producer is None or producer.must is not None:
            return
        if producer.version >= BUMPS_EPOCH:
            self.write_adding(producer, partition)
        elif partition not in producer.added:
            producer.wants = partition
            token = self.world.add(producer.producer, partition, transactional_id=producer.transactional_id, version=0)
            producer.waiting = ("add", token)
            self.hear()
        else:
            self.write(producer, partition)

    def write_adding(self, producer: Producer, partition: TopicPartition) -> None:
        """The partition's leader has it added before the first record of the transaction."""
        entry = self.world.partition(partition).producers.entries.get(producer.producer[0])
        if entry is not None and entry.producer_epoch == producer.producer[1] and entry.transaction_first_offset >= 0:
            self.arrive(producer, partition)
            return
        token = self.world.add(producer.producer, partition, transactional_id=producer.transactional_id, version=2)
        producer.waiting, producer.wants = ("lead", token), partition
        self.hear()

    def write(self, producer: Producer, partition: TopicPartition) -> None:
        data = self.world.partition(partition)
        if data.producers.entries.get(producer.producer[0]) is None or producer.producer[0] not in data.open:
            # The partition's leader asks before the first record of a transaction.
            found = self.world.verify(producer.producer, partition, transactional_id=producer.transactional_id)
            if found[partition] is not E.NONE:
                producer.dead = producer.dead or found[partition] is E.PRODUCER_FENCED
                return
        self.arrive(producer, partition)

    def arrive(self, producer: Producer, partition: TopicPartition) -> None:
        if self.slow:
            self.delayed.append((producer, partition))
            producer.in_flight += 1
        else:
            self.append(producer, partition)

    @precondition(lambda self: self.delayed)
    @rule(at=st.integers(0, 9))
    def a_delayed_write_arrives(self, at: int) -> None:
        producer, partition = self.delayed.pop(at % len(self.delayed))
        producer.in_flight -= 1
        self.append(producer, partition)

    @rule(slow=st.booleans())
    def the_network_changes(self, slow: bool) -> None:
        self.slow = slow

    def append(self, producer: Producer, partition: TopicPartition) -> None:
        data = self.world.partition(partition)
        sequence = producer.sequences.get(partition, 0)
        value = (id(producer), producer.number, sequence, partition)
        try:
            data.write(*producer.producer, sequence, value)
        except BrokerError:
            self.refused(producer)
            return
        producer.sequences[partition] = sequence + 1
        self.written.setdefault(self.transaction(producer), []).append((partition, value))

    def refused(self, producer: Producer) -> None:
        """A batch was refused for its epoch. A producer of version 2 aborts and goes on, any other ends."""
        if producer.version >= BUMPS_EPOCH:
            producer.must = False
        else:
            producer.dead = True

    def transaction(self, producer: Producer) -> object:
        return id(producer), producer.number

    @rule(number=st.integers(0, 9), commit=st.booleans())
    def a_producer_ends(self, number: int, commit: bool) -> None:
        producer = self.idle(number)
        if producer is None or producer.in_flight:
            return
        if producer.must is not None:
            commit = producer.must
        # Version 2 aborts a transaction without a partition, too.
        if producer.added or producer.must is not None or (producer.version >= BUMPS_EPOCH and not commit):
            if commit:
                self.asked.add(self.transaction(producer))
            token = self.world.end(producer.producer, commit, producer.transactional_id, version=producer.version)
            producer.waiting = ("commit" if commit else "abort", token)
            self.hear()

    @rule(number=st.integers(0, 9))
    def a_producer_crashes(self, number: int) -> None:
        producer = self.producer(number)
        if producer is not None:
            producer.dead = True

    @rule(number=st.integers(0, 9), ends=st.sampled_from([None, True, False]))
    def a_producer_runs_a_whole_transaction(self, number: int, ends: bool | None) -> None:
        auto, self.world.auto = self.world.auto, True
        self.world.settle()
        self.hear()
        for _ in range(2):
            self.a_producer_tries_again(number)
        for partition in PARTITIONS[:2]:
            self.a_producer_writes(number, partition)
            self.a_producer_writes(number, partition)
        self.world.auto = auto
        if ends is not None:
            self.a_producer_ends(number, ends)

    # -- the coordinator -----------------------------------------------------------------------------------------------

    @precondition(lambda self: self.world.writes)
    @rule(error=st.sampled_from([E.NONE, E.NONE, E.NONE, E.COORDINATOR_NOT_AVAILABLE]))
    def the_log_answers(self, error: ErrorCode) -> None:
        self.world.written(error)
        self.hear()

    @precondition(lambda self: self.world.markers)
    @rule(at=st.integers(0, 9))
    def a_marker_arrives(self, at: int) -> None:
        self.world.deliver_marker(at % len(self.world.markers))
        self.hear()

    @rule()
    def the_coordinator_crashes(self) -> None:
        """Requests that wait are never answered; markers on their way may still arrive."""
        self.world.crash()
        for producer in self.producers:
            if producer.waiting is not None:
                what, _ = producer.waiting
                producer.waiting = None
                if what in ("commit", "abort"):
                    if producer.version >= BUMPS_EPOCH:
                        producer.must = what == "commit"  # it asks again
                    else:
                        producer.dead = True  # it does not know; its successor will find out
        self.hear()

    @rule(ms=st.sampled_from([1, 30_000, 60_001]), transactional_id=st.sampled_from(IDS))
    def the_sweep_comes_by(self, ms: int, transactional_id: str) -> None:
        self.world.now_ms += ms
        if transactional_id in self.world.ids:
            self.world.step(transactional_id, TimeoutCheck(self.world.version))
        self.hear()

    @rule(transactional_id=st.sampled_from(IDS))
    def an_old_id_is_forgotten(self, transactional_id: str) -> None:
        if transactional_id in self.world.ids:
            self.world.now_ms += 10**6
            self.world.step(transactional_id, ExpiryCheck(10**6))
        self.hear()

    # -- what producers make of the answers ----------------------------------------------------------------------------

    def hear(self) -> None:
        for producer in self.producers:
            while producer.waiting is not None and producer.waiting[1] in self.world.answers:
                (what, token), producer.waiting = producer.waiting, None
                answer = self.world.answers[token]
                self.hear_one(producer, what, answer.error, answer)

    def hear_one(self, producer: Producer, what: str, error: ErrorCode, answer) -> None:
        retriable = error in (E.CONCURRENT_TRANSACTIONS, E.COORDINATOR_NOT_AVAILABLE)
        if what == "init":
            if error is E.NONE:
                producer.producer = (answer.producer_id, answer.producer_epoch)
                producer.number += 1
                producer.added, producer.sequences = set(), {}
            elif not retriable:
                producer.dead = True
        elif what == "add":
            if error is E.NONE:
                producer.added.add(producer.wants)
                if not producer.dead:
                    self.write(producer, producer.wants)
            elif not retriable:
                producer.dead = True
        elif what == "lead":
            if error is E.NONE:
                producer.added.add(producer.wants)
                self.arrive(producer, producer.wants)
            elif not retriable:
                self.refused(producer)
        elif error is E.NONE:
            if producer.version >= BUMPS_EPOCH:
                producer.producer = (answer.producer_id, answer.producer_epoch)
                producer.sequences, producer.must = {}, None
            self.fates[self.transaction(producer)] = what == "commit"
            producer.added = set()
            producer.number += 1
        elif not retriable:
            producer.dead = True

    # -- laws ----------------------------------------------------------------------------------------------------------

    @invariant()
    def the_last_stable_offset_never_passes_an_open_transaction(self) -> None:
        for partition in self.world.partitions.values():
            for first in partition.first_open.values():
                assert partition.last_stable_offset <= first

    @invariant()
    def one_epoch_has_one_writer(self) -> None:
        alive: dict[tuple[int, int], Producer] = {}
        for producer in self.producers:
            if producer.producer is not None:
                assert alive.setdefault(producer.producer, producer) is producer

    @invariant()
    def an_epoch_never_comes_back(self) -> None:
        for transactional_id, txn in self.world.ids.items():
            for producer in self.producers:
                if producer.transactional_id == transactional_id and producer.producer is not None:
                    producer_id, epoch = producer.producer
                    assert txn.producer_id != producer_id or txn.producer_epoch >= epoch

    @invariant()
    def a_partition_hears_one_decision_of_a_transaction(self) -> None:
        """Between two markers of one producer in a partition lies the transaction that the second one ends."""
        for partition in self.world.partitions.values():
            assert not set(partition.committed) & set(partition.aborted)

    @invariant()
    def whoever_was_answered_is_in_the_log(self) -> None:
        for transaction, committed in self.fates.items():
            for where, value in self.written.get(transaction, []):
                data = self.world.partition(where)
                assert value not in (data.aborted if committed else data.committed)


TestTransactions = TransactionMachine.TestCase
TestTransactions.settings = settings(
    max_examples=100, stateful_step_count=50, deadline=None, suppress_health_check=list(HealthCheck)
)


@pytest.mark.slow
@pytest.mark.timeout(1_200)
def test_thousands_of_runs() -> None:
    run_state_machine_as_test(
        TransactionMachine,
        settings=settings(
            max_examples=5_000, stateful_step_count=60, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
