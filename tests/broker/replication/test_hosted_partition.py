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
        node: Any = SimpleNamespace(
            node_id=1,
            clock=SimpleNamespace(now_ms=lambda: 0.0, wall_ms=lambda: NOW_MS),
            logs=self.logs,
            purgatories=(self.produce, self.fetch, self.unwatched),
            fetch_purgatory=self.fetch,
            replication=SimpleNamespace(lag_ms=30_000.0, eligible=lambda replica, epoch: True),
        )
        self.partition = HostedPartition(node, STATE, self.logs.create("orders", 0, STATE.topic_id, LogConfig()))
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
