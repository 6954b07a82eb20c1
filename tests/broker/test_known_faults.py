"""Faults of coordinators that were reported of other brokers, each tried on this one. Those of a log that is cleaned while it is read are in
`group/test_compacted_logs.py`."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamactors.broker.errors import ErrorCode
from streamactors.broker.group.group_messages import Sweep
from streamactors.broker.group.offset_requests import OffsetRules
from streamactors.broker.share.partition.acknowledging import Acknowledgement, AcknowledgeType, acknowledge
from streamactors.broker.share.partition.acquiring import Fetched, Span, Want, acquire
from streamactors.broker.share.partition.in_flight import RecordState, ShareLimits
from streamactors.broker.share.partition.releasing import release_expired
from streamactors.broker.share.partition.share_partition import SharePartition
from streamactors.broker.transaction.transaction import TransactionState
from tests.broker.apis.test_streams_groups import SETTINGS, active, beat, join, works
from tests.broker.group.shard_world import ShardWorld
from tests.broker.live_broker import LiveBroker
from tests.broker.transaction.test_bumped_epochs import a_world
from tests.broker.transaction.transaction_world import P0

E, S = ErrorCode, RecordState


def test_a_group_whose_only_offsets_are_in_an_open_transaction_outlives_the_sweep() -> None:
    """KAFKA-19163: the group was deleted when its offsets were looked through for expired ones."""
    world = ShardWorld(offset_rules=OffsetRules(retention_ms=1_000))
    world.commit("g", producer=(7, 0))
    world.advance(5_000)
    world.tell(Sweep())
    assert world.answers[world.end((7, 0), True)] is E.NONE
    assert world.offsets("g") == {("t", 0): 5}
    world.crash()
    assert world.offsets("g") == {("t", 0): 5}


def test_a_group_goes_when_its_deleted_offset_was_in_a_transaction_that_has_ended() -> None:
    """KAFKA-19164: the group was taken for one with an open transaction forever."""
    world = ShardWorld(offset_rules=OffsetRules(retention_ms=1_000))
    world.commit("g", [("t", 1, 4)])
    world.commit("g", producer=(7, 0))
    world.delete_offsets("g", ("t", 0))
    world.end((7, 0), True)
    assert world.offsets("g") == {("t", 1): 4}
    world.advance(5_000)
    world.tell(Sweep())
    assert world.listed() == {}


@pytest.mark.parametrize("epoch", [32_764, 32_765, 32_766])
def test_a_new_producer_takes_over_at_the_last_epochs_of_an_open_transaction(epoch: int) -> None:
    """KAFKA-19367: the epoch was raised twice, past the largest number. KAFKA-18660: the wrong identity was answered."""
    world, old = a_world(epoch)
    world.add(old, P0)
    assert world.error(world.init()) is E.CONCURRENT_TRANSACTIONS
    assert world.ids["tx"].state is TransactionState.COMPLETE_ABORT
    producer_id, next_epoch = world.producer()
    assert 0 <= next_epoch < 32_767
    assert (producer_id, next_epoch) != old
    assert world.error(world.add((producer_id, next_epoch), P0)) is E.NONE
    assert world.error(world.end((producer_id, next_epoch), True)) is E.NONE


def test_a_streams_member_that_was_fenced_joins_again_under_its_name(tmp_path: Path) -> None:
    """KAFKA-19233: epoch 0 was refused while the coordinator knew the member with a higher one."""
    with LiveBroker(tmp_path, SETTINGS) as live, live.client() as client:
        live.create_topic("in", 3)
        joined = works(client, live)
        tasks = [{"subtopology_id": name, "partitions": each} for name, each in active(joined).items()]
        beat(client, "m1", joined.member_epoch, active_tasks=tasks, standby_tasks=[], warmup_tasks=[])
        join(client, "m2", "other")
        moved = beat(client, "m1", joined.member_epoch)
        assert moved.error_code == E.NONE
        assert beat(client, "m1", 1).error_code == E.FENCED_MEMBER_EPOCH
        again = join(client, "m1")
        assert again.error_code == E.NONE
        assert again.member_epoch > 1
        assert active(again)


def test_a_stable_streams_group_is_described_as_stable_by_a_new_coordinator(tmp_path: Path) -> None:
    """KAFKA-19661: what was known of the topology only since the last heartbeat was missing, and the group was said to be not ready."""
    with LiveBroker(tmp_path, SETTINGS) as live, live.client() as client:
        live.create_topic("in", 3)
        works(client, live)
    with LiveBroker(tmp_path, SETTINGS) as live, live.client() as client:
        asked = {"group_ids": ["app"], "include_authorized_operations": False, "include_topology_description": False}
        while (found := client.call(89, 1, asked).groups[0]).error_code in (14, 15, 16):
            pass
        assert (found.error_code, found.group_state) == (E.NONE, "Stable")


def _held(**limits: int) -> SharePartition:
    partition = SharePartition(ShareLimits(**limits), 0)  # type: ignore[arg-type]
    acquire(partition, "a", Fetched(0, [Span(0, 3)]), Want(500, 500), 0)
    return partition


def test_a_lock_that_ends_while_an_acknowledgement_cannot_be_stored_counts_the_deliveries() -> None:
    """KAFKA-19476: the record was delivered once more than allowed, or stayed locked without a timer."""
    partition = _held(lock_ms=1_000, deliveries=1)
    change = acknowledge(partition, "a", [Acknowledgement(0, 3, (AcknowledgeType.ACCEPT,))], 0)
    assert release_expired(partition, 1_500).batches == [], "the acknowledgement is being stored"
    partition.finish(change, False, 1_500)
    left = [state.state for _, _, state in partition.states()]
    assert S.ACQUIRED not in left
    assert S.AVAILABLE not in left
    assert acquire(partition, "b", Fetched(4, [Span(4, 5)]), Want(500, 500), 2_000)[0].first == 4


def test_records_that_the_log_loses_while_their_release_is_stored_stay_gone() -> None:
    """KAFKA-19476: the answer of the store made them available again."""
    partition = _held()
    change = acknowledge(partition, "a", [Acknowledgement(0, 3, (AcknowledgeType.RELEASE,))], 0)
    partition.log_starts_at(2)
    partition.finish(change, True, 0)
    assert partition.start == 2
    assert all(first >= 2 or state.state is S.ARCHIVED for first, _, state in partition.states())
    assert partition.next_fetch_offset() == 2
