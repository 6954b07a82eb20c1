"""The requests that wait for a partition hear of every change of it."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from streamactors.broker.errors import ErrorCode
from streamactors.broker.log.config import LogConfig
from streamactors.broker.log.manager import LogManager
from streamactors.broker.replication.hosted_partition import HostedPartition, NotLeader, PartitionState
from streamactors.broker.replication.lease_state import ALWAYS
from streamactors.broker.replication.sessions.fetch_session import Cached, FetchSession

NOW_MS = 1_700_000_000_000
STATE = PartitionState("orders", uuid.UUID(int=7), 0, leader=1, leader_epoch=3, replicas=(1, 2), isr=(1, 2))


class Waiting:
    """Stands for a purgatory in which requests wait for a partition; keeps the error that each of them would get now."""

    def __init__(self) -> None:
        self.watchers: dict[Any, None] = {}
        self.checked: list[ErrorCode] = []

    def check_and_complete(self, partition: HostedPartition) -> None:
        self.checked.append(partition.epoch_error(3))


class Rig:
    """A leader of two replicas, with a request in the purgatory of Produce and one in that of Fetch."""

    def __init__(self, root: Path) -> None:
        self.logs = LogManager(root, default_config=LogConfig(), clock_ms=lambda: NOW_MS)
        self.logs.open()
        self.produce, self.fetch, self.unwatched = Waiting(), Waiting(), Waiting()
        self.now_ms = 0.0
        self.node: Any = SimpleNamespace(
            node_id=1,
            clock=SimpleNamespace(now_ms=lambda: self.now_ms, wall_ms=lambda: NOW_MS),
            logs=self.logs,
            purgatories=(self.produce, self.fetch, self.unwatched),
            fetch_purgatory=self.fetch,
            replication=SimpleNamespace(
                others=True, lag_ms=30_000.0, lease_end_ms=ALWAYS, eligible=lambda replica, epoch: True
            ),
        )
        self.partition = HostedPartition(self.node, STATE, self.logs.create("orders", 0, STATE.topic_id, LogConfig()))
        for purgatory in (self.produce, self.fetch):
            purgatory.watchers[self.partition] = None

    def close(self) -> None:
        self.logs.close()


def _lose_then_become(partition: HostedPartition) -> None:
    partition.lost = True
    partition.become(replace(STATE, leader=2, leader_epoch=4))


CHANGES: dict[str, tuple[Callable[[HostedPartition], object], ErrorCode]] = {
    "another broker leads": (
        lambda each: each.become(replace(STATE, leader=2, leader_epoch=4)),
        ErrorCode.FENCED_LEADER_EPOCH,
    ),
    "this broker leads on in a new epoch": (
        lambda each: each.become(replace(STATE, leader_epoch=4)),
        ErrorCode.FENCED_LEADER_EPOCH,
    ),
    "a replica left the in-sync set": (
        lambda each: each.become(replace(STATE, isr=(1,), partition_epoch=1)),
        ErrorCode.NONE,
    ),
    "nobody leads": (lambda each: each.become(replace(STATE, leader=-1)), ErrorCode.NOT_LEADER_OR_FOLLOWER),
    "a change after its folder has failed": (_lose_then_become, ErrorCode.KAFKA_STORAGE_ERROR),
    "its folder fails": (lambda each: each.lose(), ErrorCode.KAFKA_STORAGE_ERROR),
    "its log is in another folder": (lambda each: each.moved(each.log), ErrorCode.NONE),
    "a flush failed": (lambda each: each.flush_ended(ErrorCode.KAFKA_STORAGE_ERROR), ErrorCode.NONE),
    "it is deleted": (lambda each: each.delete(), ErrorCode.NOT_LEADER_OR_FOLLOWER),
}


@pytest.mark.parametrize("change", CHANGES)
def test_who_waits_for_a_partition_is_asked_again_after_each_change(change: str, tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    happen, error = CHANGES[change]
    happen(rig.partition)
    # asked at least once, and the last time when everything of the change holds
    assert rig.produce.checked[-1:] == rig.fetch.checked[-1:] == [error]
    assert rig.unwatched.checked == []
    rig.close()


def test_only_a_leader_counts_followers_and_forgets_them_with_the_epoch(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    partition = rig.partition
    partition.followed(2, 9, 0)
    assert partition.leader_state is not None
    with pytest.raises(NotLeader):
        partition.followed(3, 9, 0)  # no replica
    partition.become(replace(STATE, isr=(1,), partition_epoch=1))
    assert partition.leader_state.remotes[2].broker_epoch == 9  # the same epoch: what is known stays
    partition.become(replace(STATE, leader_epoch=4))
    assert partition.leader_state.remotes[2].broker_epoch != 9
    partition.become(replace(STATE, leader=2, leader_epoch=5))
    assert partition.leader_state is None
    with pytest.raises(NotLeader):
        partition.followed(2, 9, 0)
    rig.close()


def test_a_leader_without_a_lease_refuses_clients_and_answers_followers(tmp_path: Path) -> None:
    # A leader that was cut off named 100 as the end where 150 was acknowledged, until it heard of the next leader.
    rig = Rig(tmp_path)
    partition = rig.partition
    rig.node.replication.lease_end_ms = 1_000.0
    rig.now_ms = 1_000.0
    assert partition.client_error(3) is ErrorCode.NONE
    rig.now_ms = 1_000.1
    assert partition.client_error(3) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert partition.client_error(2) is ErrorCode.FENCED_LEADER_EPOCH
    assert partition.epoch_error(3) is ErrorCode.NONE
    with pytest.raises(NotLeader):
        partition.append_for(memoryview(b""), NOW_MS, 1)  # it would be lost
    rig.close()


def test_the_fetches_of_every_follower_that_may_be_elected_are_a_lease(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    partition = rig.partition
    partition.become(replace(STATE, replicas=(1, 2, 3), isr=(1, 2, 3), partition_epoch=1))
    rig.node.replication.lease_end_ms = 0.0
    rig.now_ms = 1_000.0
    partition.followed(2, 9, 0)
    assert not partition.has_lease, "3 may lead"
    partition.followed(3, 9, 0)
    assert partition.has_lease
    rig.now_ms += 30_000.0
    partition.followed(3, 9, 0)
    assert partition.has_lease
    rig.now_ms += 0.1
    assert not partition.has_lease, "2 may lead by now"
    partition.become(replace(STATE, replicas=(1, 2, 3), isr=(1, 3), partition_epoch=2))
    assert partition.has_lease
    partition.become(replace(STATE, replicas=(1, 2, 3), isr=(1, 3), elr=(2,), partition_epoch=2))
    assert not partition.has_lease, "2 is eligible outside the ISR"
    partition.become(replace(STATE, replicas=(1, 2, 3), isr=(1, 3), unclean=True, partition_epoch=2))
    assert not partition.has_lease, "an unclean election makes 2 the leader"
    rig.close()


def test_an_idle_follower_in_a_fetch_session_gives_a_lease(tmp_path: Path) -> None:
    # Its requests do not name a partition again that has not changed.
    rig = Rig(tmp_path)
    partition = rig.partition
    rig.node.replication.lease_end_ms = 0.0
    partition.followed(2, 9, 0)
    session = FetchSession(1, 2, (), 0.0)
    partition.sessions[session] = Cached(("orders", 0), None, 0)  # type: ignore[arg-type]
    rig.now_ms = session.used_ms = 40_000.0
    assert partition.has_lease
    del partition.sessions[session]
    assert not partition.has_lease
    rig.close()


def test_a_partition_with_one_replica_needs_no_lease(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.partition.become(replace(STATE, replicas=(1,), isr=(1,), partition_epoch=1))
    rig.node.replication.lease_end_ms = 0.0
    rig.now_ms = 1e9
    assert rig.partition.client_error(-1) is ErrorCode.NONE
    rig.close()
