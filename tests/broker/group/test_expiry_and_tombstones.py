"""How a group coordinator deletes offsets and groups: by expiry, with their topic, in batches that a log takes, and again after a refusal."""

from __future__ import annotations

import pytest

from streamactors import log_limit
from streamactors.broker.errors import ErrorCode
from streamactors.broker.group.group_messages import Sweep, TopicsDeleted
from streamactors.broker.group.offset_requests import OffsetRules
from tests.broker.group.shard_world import ShardWorld

E = ErrorCode


def test_the_sweep_removes_offsets_and_the_groups_they_kept() -> None:
    world = ShardWorld(offset_rules=OffsetRules(retention_ms=100_000))
    world.commit("old")
    world.advance(60_000)
    world.commit("young")
    world.advance(40_000)
    world.tell(Sweep())
    assert list(world.listed()) == ["young"]
    world.crash()
    assert list(world.listed()) == ["young"]


def test_the_sweep_leaves_a_group_in_use_alone() -> None:
    world = ShardWorld(offset_rules=OffsetRules(retention_ms=1))
    member_id, generation = world.stable()
    world.commit(member_id=member_id, generation=generation)
    world.advance(5_000)
    world.tell(Sweep())
    assert world.offsets() == {("t", 0): 5}


def test_the_sweep_forgets_an_empty_group_without_offsets() -> None:
    world = ShardWorld()
    member_id, _ = world.stable()
    world.leave("g", member_id)
    world.tell(Sweep())
    assert world.listed() == {}
    world.crash()
    assert world.listed() == {}


def test_a_group_with_a_pending_member_id_is_kept() -> None:
    world = ShardWorld()
    answer = world.answers[world.join(needs_known_id=True)]
    world.tell(Sweep())
    assert world.answers[world.join(member_id=answer.member_id)].error is E.NONE


MANY = 8_000  # tombstones that do not fit into one batch


def committed_to_many_partitions(world: ShardWorld) -> None:
    for first in range(0, MANY, 500):
        world.commit(offsets=[("t", partition, 1) for partition in range(first, first + 500)])
    assert len(world.offsets()) == MANY


def test_more_offsets_than_a_batch_can_hold_are_deleted_with_their_topic() -> None:
    # One batch for all tombstones was refused as too large, and nobody heard of it: the offsets came back.
    world = ShardWorld()
    committed_to_many_partitions(world)
    world.tell(TopicsDeleted(frozenset({"t"})))
    assert world.offsets() == {}
    world.crash()
    assert world.offsets() == {}


def test_more_offsets_than_a_batch_can_hold_expire() -> None:
    world = ShardWorld()
    committed_to_many_partitions(world)
    world.advance(2_000_000)
    world.tell(Sweep())
    assert world.listed() == {}
    world.crash()
    assert world.listed() == {}


def test_a_group_with_more_offsets_than_a_batch_can_hold_is_deleted() -> None:
    world = ShardWorld()
    committed_to_many_partitions(world)
    assert world.answers[world.delete("g")] == [E.NONE]
    world.crash()
    assert world.listed() == {}


@pytest.mark.expects_log("offsets of deleted topics remain")
def test_offsets_of_a_deleted_topic_whose_tombstones_were_refused_are_deleted_at_the_next_sweep() -> None:
    world = ShardWorld()
    world.commit(offsets=[("t", 0, 1), ("t", 1, 1), ("u", 0, 1)])
    world.log.fail_next = E.NOT_ENOUGH_REPLICAS
    world.tell(TopicsDeleted(frozenset({"t"})))
    assert len(world.offsets()) == 3
    world.commit(offsets=[("t", 1, 2)])  # to a new topic of the same name
    world.tell(Sweep())
    assert world.offsets() == {("t", 1): 2, ("u", 0): 1}
    world.crash()
    assert world.offsets() == {("t", 1): 2, ("u", 0): 1}


def test_tombstones_that_the_log_refuses_are_one_line_a_second_for_all_partitions(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A leader with too few replicas refuses the tombstones of all fifty offsets partitions at once.
    worlds = [ShardWorld(offset_rules=OffsetRules(retention_ms=1)) for _ in range(3)]
    for number, world in enumerate(worlds):
        world.shard.name = f"offsets-{number}"
        world.commit("expires", [("u", 0, 1)])
        member_id, generation = world.stable("uses")
        world.commit("uses", [("t", 0, 1), ("t", 1, 1)], member_id=member_id, generation=generation)
        world.advance(10)
    for now_s in (0.0, 1.0):
        monkeypatch.setattr(log_limit._of_process, "_now_s", lambda now_s=now_s: now_s)
        for world in worlds:
            for message in (Sweep(), TopicsDeleted(frozenset({"t"}))):
                world.log.fail_next = E.NOT_ENOUGH_REPLICAS
                world.tell(message)
    log_limit.forget_causes()
    groups = "offsets-0: 1 expired groups remain (NOT_ENOUGH_REPLICAS); the next sweep deletes them"
    offsets = "offsets-0: 2 offsets of deleted topics remain (NOT_ENOUGH_REPLICAS); the next sweep deletes them"
    more = " (%d more since the last line)"
    assert caplog.messages == [groups, offsets, offsets + more % 2, groups + more % 2]
