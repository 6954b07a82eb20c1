"""A group coordinator told as sentences: what is in the log before anybody hears of it, and what comes back out of it."""

from __future__ import annotations

import pytest

from streamactors.broker.coordinator.coordinator_messages import LoadFailed, Resign
from streamactors.broker.errors import ErrorCode
from streamactors.broker.group.classic.classic_group import GroupState
from streamactors.broker.group.group_messages import Sweep, TopicsDeleted
from streamactors.broker.group.group_record import encode_group_key
from streamactors.broker.group.offset_requests import OffsetRules
from tests.broker.group.shard_world import ShardWorld

E = ErrorCode


def test_a_commit_is_answered_and_seen_when_the_log_has_it() -> None:
    world = ShardWorld(auto=False)
    commit = world.commit(offsets=[("t", 0, 5), ("t", 1, 6)])
    assert commit not in world.answers
    assert world.offsets() == {}
    world.log.acknowledge()
    assert world.answers[commit] == [E.NONE, E.NONE]
    assert world.offsets() == {("t", 0): 5, ("t", 1): 6}


@pytest.mark.parametrize(
    ("of_log", "heard"),
    [
        (E.NOT_ENOUGH_REPLICAS, E.COORDINATOR_NOT_AVAILABLE),
        (E.KAFKA_STORAGE_ERROR, E.NOT_COORDINATOR),
        (E.MESSAGE_TOO_LARGE, E.INVALID_COMMIT_OFFSET_SIZE),
    ],
)
def test_a_commit_the_log_refuses_changes_nothing(of_log: ErrorCode, heard: ErrorCode) -> None:
    world = ShardWorld()
    world.commit()
    world.log.fail_next = of_log
    assert world.answers[world.commit(offsets=[("t", 0, 9)])] == [heard]
    assert world.offsets() == {("t", 0): 5}


def test_oversized_metadata_is_refused_and_the_rest_committed() -> None:
    world = ShardWorld(offset_rules=OffsetRules(metadata_max_bytes=10))
    assert world.answers[world.commit(metadata="x" * 10)] == [E.NONE]
    assert world.answers[world.commit(offsets=[("t", 0, 7)], metadata="x" * 11)] == [E.OFFSET_METADATA_TOO_LARGE]
    assert world.offsets() == {("t", 0): 5}


def test_commits_of_a_turn_are_one_batch() -> None:
    world = ShardWorld()
    with world.one_turn():
        tokens = [world.commit(f"g{number}") for number in range(10)]
    assert len(world.log.batches) == 1
    assert [world.answers[token] for token in tokens] == [[E.NONE]] * 10


def test_groups_and_offsets_come_back_after_a_crash() -> None:
    world = ShardWorld()
    member_id, generation = world.stable()
    world.commit(member_id=member_id, generation=generation, offsets=[("t", 0, 7)])
    world.crash()
    group = world.described("g")
    assert group is not None
    assert (group.state, group.generation, group.leader) == (GroupState.STABLE, generation, member_id)
    assert group.members[member_id].assignment == b"all"
    assert world.offsets() == {("t", 0): 7}
    assert world.heartbeat("g", member_id, generation) is E.NONE
    assert world.answers[world.commit(member_id=member_id, generation=generation)] == [E.NONE]


def test_members_of_a_loaded_group_expire_when_they_stay_silent() -> None:
    world = ShardWorld()
    world.stable()
    world.crash()
    world.advance(10_000)
    group = world.described("g")
    assert group is not None
    assert group.state is GroupState.EMPTY


def test_commits_keep_a_session_alive() -> None:
    world = ShardWorld()
    member_id, generation = world.stable()
    for _ in range(5):
        world.advance(9_000)
        world.commit(member_id=member_id, generation=generation)
    assert world.heartbeat("g", member_id, generation) is E.NONE


def test_while_a_partition_is_read_all_requests_but_heartbeats_are_refused() -> None:
    world = ShardWorld()
    world.commit()
    world.start(load=False)
    assert world.answers[world.join()].error is E.COORDINATOR_LOAD_IN_PROGRESS
    assert world.answers[world.commit()] == [E.COORDINATOR_LOAD_IN_PROGRESS]
    assert world.fetch().error is E.COORDINATOR_LOAD_IN_PROGRESS
    assert world.heartbeat("g", "m", 1) is E.NONE
    assert world.answers[world.delete("g")] == [E.COORDINATOR_LOAD_IN_PROGRESS]
    world.load()
    assert world.offsets() == {("t", 0): 5}


@pytest.mark.expects_log("is read again in")
def test_a_partition_that_cannot_be_read_is_no_coordinator() -> None:
    world = ShardWorld()
    world.start(load=False)
    world.tell(LoadFailed(OSError("disk")))
    assert world.answers[world.join()].error is E.COORDINATOR_NOT_AVAILABLE


def test_a_resigned_coordinator_refuses_every_request() -> None:
    world = ShardWorld()
    world.stable()
    waiting = world.join()
    world.tell(Resign())
    assert world.answers[waiting].error is E.NOT_COORDINATOR
    assert world.answers[world.commit()] == [E.NOT_COORDINATOR]
    assert world.answers[world.leave("g", "m") and world.join()].error is E.NOT_COORDINATOR


def test_a_commit_that_was_on_its_way_when_the_coordinator_resigned_is_still_answered() -> None:
    world = ShardWorld(auto=False)
    commit = world.commit()
    world.tell(Resign())
    world.log.acknowledge()
    assert world.answers[commit] == [E.NONE]
    assert world.fetch().error is E.NOT_COORDINATOR


def test_deleting_a_group_takes_commits_on_their_way_with_it() -> None:
    # Commit is on its way to the log -> the group is deleted -> both arrive: without its own tombstone the offset would
    # be back at the next start.
    world = ShardWorld(auto=False)
    world.commit(offsets=[("t", 0, 1)])
    world.log.acknowledge()
    world.commit(offsets=[("t", 1, 2)])
    world.delete("g")
    world.log.acknowledge()
    world.log.acknowledge()
    assert world.offsets() == {}
    world.crash()
    assert world.listed() == {}


def test_only_a_newcomer_makes_a_group() -> None:
    world = ShardWorld()
    assert world.answers[world.join(member_id="m1")].error is E.UNKNOWN_MEMBER_ID
    assert world.heartbeat("g", "m1", 1) is E.UNKNOWN_MEMBER_ID
    assert world.answers[world.sync("g", "m1", 1, {})].error is E.UNKNOWN_MEMBER_ID
    left = world.leave("g", "m1")
    assert (left.error, [error for _, error in left.members]) == (E.NONE, [E.UNKNOWN_MEMBER_ID])
    assert world.listed() == {}


def test_a_refused_newcomer_leaves_no_group_behind() -> None:
    world = ShardWorld()
    assert world.answers[world.join(session_timeout_ms=1)].error is E.INVALID_SESSION_TIMEOUT
    assert world.listed() == {}


def test_commits_of_a_dead_group_are_illegal() -> None:
    world = ShardWorld()
    member_id, generation = world.stable()
    world.leave("g", member_id)
    assert world.answers[world.delete("g")] == [E.NONE]
    assert world.answers[world.commit(member_id=member_id, generation=generation)] == [E.ILLEGAL_GENERATION]
    assert world.listed() == {}


# -- deleting ----------------------------------------------------------------------------------------------------------


def test_deleting_a_group_deletes_its_offsets_from_the_log() -> None:
    world = ShardWorld()
    world.commit("g")
    world.commit("h")
    assert world.answers[world.delete("g", "nobody")] == [E.NONE, E.GROUP_ID_NOT_FOUND]
    world.crash()
    assert list(world.listed()) == ["h"]
    assert world.offsets("g") == {}


def test_a_deleted_group_has_its_tombstone_even_if_it_only_committed() -> None:
    # Apache Kafka, reading this partition, makes a group of its first offset; only the group's tombstone takes it away.
    world = ShardWorld()
    world.commit("g")
    world.delete("g")
    written = {record.key: record.value for batch in world.log.replay() for record in batch.records()}
    assert written[encode_group_key("g")] is None


def test_a_group_with_members_cannot_be_deleted() -> None:
    world = ShardWorld()
    world.stable()
    assert world.answers[world.delete("g")] == [E.NON_EMPTY_GROUP]
    assert "g" in world.listed()


def test_a_group_that_is_being_deleted_refuses_every_join() -> None:
    # Delete is on its way to the log -> a consumer joins -> the tombstones arrive: it would be a member of nothing.
    world = ShardWorld(auto=False)
    world.commit("g")
    world.log.acknowledge()
    deleted = world.delete("g")
    assert world.answers[world.join("g")].error is E.COORDINATOR_NOT_AVAILABLE
    world.log.acknowledge()
    assert world.answers[deleted] == [E.NONE]
    assert world.answers[world.join("g")].error is E.NONE


def test_a_group_whose_deletion_failed_is_as_before() -> None:
    world = ShardWorld()
    world.commit("g")
    world.log.fail_next = E.NOT_ENOUGH_REPLICAS
    assert world.answers[world.delete("g")] == [E.COORDINATOR_NOT_AVAILABLE]
    assert world.offsets("g") == {("t", 0): 5}
    assert world.answers[world.join("g")].error is E.NONE


def test_offsets_of_a_subscribed_topic_cannot_be_deleted() -> None:
    world = ShardWorld()
    member_id, generation = world.stable()  # subscribes to t
    world.commit(member_id=member_id, generation=generation, offsets=[("t", 0, 5), ("u", 0, 6)])
    error, errors = world.delete_offsets("g", ("t", 0), ("u", 0), ("u", 9))
    assert (error, errors) == (E.NONE, [E.GROUP_SUBSCRIBED_TO_TOPIC, E.NONE, E.NONE])
    assert world.offsets() == {("t", 0): 5}
    assert world.delete_offsets("nobody", ("t", 0))[0] is E.GROUP_ID_NOT_FOUND


def test_offsets_go_with_their_topic() -> None:
    world = ShardWorld()
    world.commit(offsets=[("t", 0, 5), ("u", 0, 6)])
    world.tell(TopicsDeleted(frozenset({"t"})))
    assert world.offsets() == {("u", 0): 6}
    world.crash()
    assert world.offsets() == {("u", 0): 6}


def test_offsets_of_a_topic_deleted_while_the_partition_was_read_go_too() -> None:
    world = ShardWorld()
    world.commit(offsets=[("t", 0, 5), ("u", 0, 6)])
    world.start(load=False)
    world.tell(TopicsDeleted(frozenset({"t"})))
    world.load()
    assert world.offsets() == {("u", 0): 6}


# -- transactions ------------------------------------------------------------------------------------------------------


def test_offsets_in_a_transaction_wait_for_its_marker() -> None:
    world = ShardWorld()
    world.commit(offsets=[("t", 0, 5)])
    assert world.answers[world.commit(offsets=[("t", 0, 9)], producer=(7, 0))] == [E.NONE]
    assert world.offsets() == {("t", 0): 5}
    (unstable,) = world.fetch(require_stable=True).offsets
    assert unstable.error is E.UNSTABLE_OFFSET_COMMIT
    assert world.answers[world.end((7, 0), True)] is E.NONE
    assert world.offsets() == {("t", 0): 9}
    assert world.fetch(require_stable=True).offsets[0].error is E.NONE


def test_an_open_transaction_survives_a_crash() -> None:
    world = ShardWorld()
    world.commit(offsets=[("t", 0, 9)], producer=(7, 0))
    world.crash()
    assert world.offsets() == {}
    world.end((7, 0), True)
    assert world.offsets() == {("t", 0): 9}
    world.crash()
    assert world.offsets() == {("t", 0): 9}


def test_an_aborted_transaction_leaves_no_group() -> None:
    world = ShardWorld()
    world.commit(offsets=[("t", 0, 9)], producer=(7, 0))
    world.end((7, 0), False)
    world.tell(Sweep())
    assert world.listed() == {}


def test_a_marker_comes_after_the_commits_before_it() -> None:
    world = ShardWorld(auto=False)
    plain, inside, end = world.commit(offsets=[("t", 0, 1)]), world.commit(producer=(7, 0)), world.end((7, 0), True)
    world.log.acknowledge()
    world.log.acknowledge()
    assert plain in world.answers
    assert inside in world.answers
    assert end not in world.answers
    world.log.acknowledge()
    assert world.offsets() == {("t", 0): 5}


def test_records_of_other_protocols_are_left_alone(caplog: pytest.LogCaptureFixture) -> None:
    world = ShardWorld()
    world.commit()
    world.log.writer.write([(b"\x00\x63\x00\x01g", b"\x00\x00whatever"), (b"\x00", b"")], lambda *_: None)
    world.log.writer.flush()
    world.crash()
    assert world.offsets() == {("t", 0): 5}
    assert "1 with key version 99" in caplog.text
    assert "it has no key" in caplog.text
