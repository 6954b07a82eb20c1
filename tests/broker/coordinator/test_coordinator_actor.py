"""A coordinator whose code raises: the client hears of it, and the coordinator goes on from its log."""

from __future__ import annotations

from typing import Any

import pytest

from streamactors.broker.coordinator.coordinator_actor import MOVES, CoordinatorPhase
from streamactors.broker.coordinator.coordinator_messages import LoadFailed, Resign
from streamactors.broker.errors import ErrorCode
from streamactors.broker.group import offset_requests
from streamactors.broker.group.classic import classic_kind
from streamactors.broker.group.group_messages import TopicsDeleted
from streamactors.broker.group.offsets_state import OffsetsState
from tests.broker.group.shard_world import ShardWorld

pytestmark = pytest.mark.expects_log("is read again in")


E = ErrorCode


class Bug(Exception):
    """A fault that a test puts into a coordinator."""


def break_once(monkeypatch: pytest.MonkeyPatch, module: Any, name: str) -> None:
    """Have the next call of a function raise."""
    right = getattr(module, name)

    def broken(*_: Any, **__: Any) -> Any:
        monkeypatch.setattr(module, name, right)
        raise Bug(name)

    monkeypatch.setattr(module, name, broken)


def restarted(world: ShardWorld) -> None:
    """Let the back-off pass and the partition be read again."""
    loads = world.loads
    world.advance(20)
    assert world.loads == loads + 1
    world.load()


def test_a_request_whose_rules_raise_is_answered_and_the_next_one_works(monkeypatch: pytest.MonkeyPatch) -> None:
    world = ShardWorld()
    world.commit()
    break_once(monkeypatch, offset_requests, "encode_offset_value")
    assert world.answers[world.commit(offsets=[("t", 0, 9)])] == [E.UNKNOWN_SERVER_ERROR]
    assert world.answers[world.commit()] == [E.COORDINATOR_LOAD_IN_PROGRESS]
    restarted(world)
    assert world.offsets() == {("t", 0): 5}
    assert world.answers[world.commit(offsets=[("t", 0, 9)])] == [E.NONE]
    assert world.offsets() == {("t", 0): 9}


def test_members_that_wait_for_a_rebalance_are_answered_when_another_request_breaks_the_coordinator(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = ShardWorld()
    world.stable()
    waiting = world.join()
    assert waiting not in world.answers
    break_once(monkeypatch, offset_requests, "encode_offset_value")
    world.commit("another")
    assert world.answers[waiting].error is E.NOT_COORDINATOR
    restarted(world)
    assert world.described("g") is not None
    assert world.answers[world.join("h")].error is E.NONE


def test_a_commit_whose_acknowledgement_raises_is_answered_and_its_offset_is_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = ShardWorld(auto=False)
    commit = world.commit(offsets=[("t", 0, 9)])
    break_once(monkeypatch, OffsetsState, "put")
    world.log.acknowledge()
    world.settle()
    assert world.answers[commit] == [E.UNKNOWN_SERVER_ERROR]
    restarted(world)
    assert world.offsets() == {("t", 0): 9}


def test_commits_of_the_same_batch_are_acknowledged_though_one_callback_raises() -> None:
    world = ShardWorld(auto=False)
    with world.one_turn():
        world.shard.log.write([(b"\x00\x63", b"")], lambda error, offset: 1 / 0)
        commit = world.commit()
    world.log.acknowledge()
    assert world.answers[commit] == [E.NONE]


def test_a_timer_that_raises_restarts_the_coordinator(monkeypatch: pytest.MonkeyPatch) -> None:
    world = ShardWorld()
    member, generation = world.stable()
    break_once(monkeypatch, classic_kind, "step")
    world.advance(10_000)
    assert world.heartbeat("g", member, generation) is E.NONE  # it is being read again
    world.advance(20)
    world.load()
    assert world.heartbeat("g", member, generation) is E.NONE


def test_a_partition_that_could_not_be_read_is_read_again() -> None:
    world = ShardWorld()
    world.commit()
    world.start(load=False)
    world.tell(LoadFailed(OSError("disk")))
    assert world.answers[world.commit()] == [E.COORDINATOR_NOT_AVAILABLE]
    restarted(world)
    assert world.offsets() == {("t", 0): 5}


def test_a_partition_that_cannot_be_taken_over_waits_longer_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    world = ShardWorld()
    world.stable()
    world.start(load=False)
    gaps = []
    for _ in range(4):
        break_once(monkeypatch, classic_kind, "step")
        world.load()
        began, loads = world.now, world.loads
        while world.loads == loads:
            world.advance(1)
        gaps.append(world.now - began)
    assert gaps == sorted(gaps)
    assert gaps[-1] >= 4 * gaps[0]
    world.load()
    assert world.described("g") is not None


def test_a_topic_deleted_during_a_restart_loses_its_offsets(monkeypatch: pytest.MonkeyPatch) -> None:
    world = ShardWorld()
    world.commit(offsets=[("t", 0, 1), ("u", 0, 2)])
    break_once(monkeypatch, offset_requests, "encode_offset_value")
    world.commit()
    world.tell(TopicsDeleted(frozenset({"t"})))
    restarted(world)
    assert world.offsets() == {("u", 0): 2}


def test_a_shard_that_was_replaced_writes_nothing_more(monkeypatch: pytest.MonkeyPatch) -> None:
    world = ShardWorld()
    old = world.shard
    break_once(monkeypatch, offset_requests, "encode_offset_value")
    world.commit()
    restarted(world)
    batches = len(world.log.batches)
    heard: list[ErrorCode] = []
    old.log.write([(b"k", b"v")], lambda error, offset: heard.append(error))
    old.log.write_batch(bytearray(b"batch"), lambda error, offset: heard.append(error))
    old.log.flush()
    assert heard == [E.NOT_LEADER_OR_FOLLOWER] * 2
    assert len(world.log.batches) == batches


def test_a_coordinator_that_resigned_is_not_restarted(monkeypatch: pytest.MonkeyPatch) -> None:
    world = ShardWorld()
    world.tell(Resign())
    world.tell(LoadFailed(OSError("disk")))
    world.advance(20_000)
    assert world.actor.phase is CoordinatorPhase.RESIGNED
    assert world.loads == 1


def test_resigning_is_the_end() -> None:
    assert MOVES[CoordinatorPhase.RESIGNED] == {CoordinatorPhase.RESIGNED}
    assert all(CoordinatorPhase.RESIGNED in moves for moves in MOVES.values())
