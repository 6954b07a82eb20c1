"""The shard of the share coordinator over a log in memory: when it answers, what it writes, what it lets go of."""

from __future__ import annotations

import uuid
from typing import Any

from streamactors.broker.coordinator.coordinator_messages import WriteCallbackFailed
from streamactors.broker.errors import ErrorCode
from streamactors.broker.share.partition.in_flight import RecordState, StateBatch
from streamactors.broker.share.state.share_asks import (
    Ask,
    DeleteState,
    InitializeState,
    PruneSweep,
    ReadState,
    SnapshotSweep,
    StateAnswer,
    TopicsGone,
    ToShareState,
    WriteState,
)
from streamactors.broker.share.state.share_state import ShareKey
from streamactors.broker.share.state.share_state_record import load_states
from streamactors.broker.share.state.share_state_shard import ShareStateRules, ShareStateShard
from tests.broker.coordinator.memory_log import MemoryLog

E, S = ErrorCode, RecordState
TOPIC, OTHER = uuid.UUID(int=1), uuid.UUID(int=2)
RULES = ShareStateRules(updates_per_snapshot=3, snapshot_interval_ms=1000)


class World:
    """A shard, its log and the answers."""

    def __init__(self, *, auto: bool = True) -> None:
        self.now_ms = 0
        self.log = MemoryLog(lambda: self.now_ms, auto=auto)
        self.told: list[Any] = []
        self.log.tell = self.told.append
        self.trimmed: list[int] = []
        self.answers: list[StateAnswer] = []
        self.shard = self._shard()

    def _shard(self) -> ShareStateShard:
        return ShareStateShard(
            "s-0", self.log.writer, lambda: self.now_ms, RULES, lambda _: 2, self.trimmed.append, self.told.append
        )

    def ask(self, ask: Ask, topic: uuid.UUID = TOPIC, partition: int = 0) -> None:
        self.tell(ToShareState(ShareKey("g", topic, partition), ask, self.answers.append))

    def tell(self, message: object) -> None:
        self.shard.serves[type(message)](message)
        self.log.turn()

    def restart(self) -> None:
        self.log.crash()
        self.shard = self._shard()
        self.shard.take_over(load_states(self.log.replay(), "s-0"))


def _write(at: int) -> WriteState:
    return WriteState(1, 0, 0, (StateBatch(at, at, S.ACKNOWLEDGED, 1),))


def test_a_change_is_answered_when_it_is_written_and_counts_for_the_next_request_before() -> None:
    world = World(auto=False)
    world.ask(InitializeState(1, 0))
    world.ask(_write(3))
    assert world.answers == []
    world.log.acknowledge()
    assert [each.error for each in world.answers] == [E.NONE]
    world.log.acknowledge()
    assert [each.error for each in world.answers] == [E.NONE, E.NONE]


def test_a_restart_has_the_same_states() -> None:
    world = World()
    world.ask(InitializeState(1, 0))
    for at in (1, 2, 3, 4, 9):
        world.ask(_write(at))
    before = dict(world.shard.states)
    world.restart()
    assert world.shard.states == before
    world.ask(ReadState(0))
    assert world.answers[-1].batches == (StateBatch(1, 4, S.ACKNOWLEDGED, 1), StateBatch(9, 9, S.ACKNOWLEDGED, 1))


def test_a_change_that_cannot_be_written_is_refused_and_undone() -> None:
    world = World()
    world.ask(InitializeState(1, 0))
    before, told = dict(world.shard.states), len(world.told)
    world.log.fail_next = E.NOT_ENOUGH_REPLICAS
    world.ask(_write(1))
    assert world.answers[-1].error is E.COORDINATOR_NOT_AVAILABLE
    assert world.shard.states == before
    assert not any(isinstance(each, WriteCallbackFailed) for each in world.told[told:]), "the others go on"
    world.ask(_write(2))
    world.ask(ReadState(0))
    assert world.answers[-1].batches == (StateBatch(2, 2, S.ACKNOWLEDGED, 1),)


def test_a_change_on_top_of_a_refused_one_has_the_partition_read_again() -> None:
    # The first change is not acknowledged, so what becomes of the second is told later -> the third builds on it, and is written.
    world = World(auto=False)
    world.ask(InitializeState(1, 0))
    world.log.fail_next = E.NOT_ENOUGH_REPLICAS
    world.ask(_write(1))
    world.ask(_write(2))
    while world.log.pending:
        world.log.acknowledge()
    assert [each.error for each in world.answers] == [E.NONE, E.COORDINATOR_NOT_AVAILABLE, E.NONE]
    assert isinstance(world.told[-1], WriteCallbackFailed)


def test_the_log_before_the_oldest_snapshot_that_counts_is_deleted() -> None:
    world = World()
    world.ask(InitializeState(1, 0))  # offset 0
    world.ask(InitializeState(1, 0), partition=1)  # offset 1
    world.tell(PruneSweep())
    assert world.trimmed == []
    for at in range(4):
        world.ask(_write(at))  # offsets 2 to 5; the last is a snapshot
    world.tell(PruneSweep())
    assert world.trimmed == [1], "the other share partition needs its snapshot"
    world.now_ms = 1000
    world.tell(SnapshotSweep())  # offsets 6 and 7, of both
    world.tell(PruneSweep())
    assert world.trimmed == [1, 6]
    world.tell(SnapshotSweep())
    assert world.log.end == 8, "they have a new snapshot"
    world.restart()
    assert len(world.shard.states) == 2


def test_a_log_whose_share_partitions_are_deleted_keeps_its_last_record() -> None:
    world = World()
    world.ask(InitializeState(1, 0))
    world.ask(DeleteState())
    world.tell(PruneSweep())
    assert (world.trimmed, world.shard.states) == ([1], {})


def test_the_share_partitions_of_a_deleted_topic_go_with_it() -> None:
    world = World()
    world.ask(InitializeState(1, 0))
    world.ask(InitializeState(1, 0), topic=OTHER)
    world.tell(TopicsGone(frozenset({TOPIC})))
    assert [key.topic_id for key in world.shard.states] == [OTHER]
    world.restart()
    assert [key.topic_id for key in world.shard.states] == [OTHER]
