"""Three brokers with two data folders each: what the controller knows of them, and where replicas are after a move and a restart."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from streamactors.broker.errors import ErrorCode
from tests.broker.controller_apis.three_brokers import ThreeBrokers
from tests.broker.live_broker import batch, produce_body
from tests.broker.wire import WireClient, wait_until


class TwoFoldersEach(ThreeBrokers):
    """Every broker has the folders `N` and `N-more`."""

    def _start(self, broker: int, settings: dict[str, Any]) -> None:
        folders = [str(self._folder / f"{broker}{more}") for more in ("", "-more")]
        super()._start(broker, {**settings, "log.dirs": ",".join(folders)})

    def known(self, topic: str) -> list[tuple[uuid.UUID, ...]]:
        """The folders of the replicas of each partition, as the controller has them."""
        return [each.directories for each in self.image.topics[topic].partitions]

    def real(self, topic: str) -> list[tuple[uuid.UUID | None, ...]]:
        """The folders in which the brokers have them."""
        found: list[tuple[uuid.UUID | None, ...]] = []
        for partition in self.image.topics[topic].partitions:
            hosting = [self.brokers[each] for each in partition.replicas]
            found.append(
                tuple(
                    each.node.logs.directory_of(each.partition(topic, partition.partition).log)
                    if each.node.partitions.get(topic, partition.partition)
                    else None
                    for each in hosting
                )
            )
        return found


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[TwoFoldersEach]:
    with TwoFoldersEach(tmp_path) as cluster:
        yield cluster


def create(cluster: TwoFoldersEach, name: str, replicas: list[list[int]]) -> None:
    with cluster.brokers[1].client() as client:
        assignments = [{"partition_index": index, "broker_ids": each} for index, each in enumerate(replicas)]
        topic = {
            "name": name, "num_partitions": -1, "replication_factor": -1, "assignments": assignments, "configs": []
        }  # fmt: skip
        answer = client.call(19, 7, {"topics": [topic], "timeout_ms": 30_000})
    assert answer.topics[0].error_code == 0, answer


def test_the_controller_knows_the_folder_of_every_replica(cluster: TwoFoldersEach) -> None:
    for broker in (1, 2, 3):
        wanted = set(cluster.brokers[broker].node.logs.folders.ids)
        assert len(wanted) == 2
        assert set(cluster.image.brokers[broker].log_dirs) == wanted
    create(cluster, "orders", [[1, 2], [2, 3], [3, 1], [1, 2, 3]])
    wait_until(lambda: cluster.known("orders") == cluster.real("orders"), "the folders of all replicas")
    assert all(each.int > 100 for folders in cluster.known("orders") for each in folders)
    with cluster.brokers[1].client() as client:
        body = produce_body(batch(b"a"), partition=0)
        assert client.call(0, 9, body).responses[0].partition_responses[0].error_code == 0


def test_a_broker_that_comes_back_finds_its_replicas(cluster: TwoFoldersEach) -> None:
    create(cluster, "orders", [[2, 1], [2, 1], [2, 1]])
    wait_until(lambda: cluster.known("orders") == cluster.real("orders"), "the folders of all replicas")
    before = cluster.known("orders")
    cluster.stop(2)
    cluster.join(2)
    wait_until(lambda: cluster.real("orders") == before, "broker 2 hosts its replicas where they were")
    assert cluster.known("orders") == before


def assign(client: WireClient, broker: int, epoch: int, folder: uuid.UUID, topic_id: uuid.UUID, index: int) -> Any:
    topics = [{"topic_id": topic_id, "partitions": [{"partition_index": index}]}]
    body = {"broker_id": broker, "broker_epoch": epoch, "directories": [{"id_": folder, "topics": topics}]}
    return client.call(73, 0, body)


def code_of(answer: Any) -> int:
    assert answer.error_code == 0, answer
    code: int = answer.directories[0].topics[0].partitions[0].error_code
    return code


def test_assignments_are_checked(cluster: TwoFoldersEach) -> None:
    create(cluster, "orders", [[2, 3]])
    wait_until(lambda: cluster.known("orders") == cluster.real("orders"), "the folders of all replicas")
    topic_id = cluster.image.topics["orders"].topic_id
    epochs = {each: cluster.image.brokers[each].broker_epoch for each in (1, 2)}
    own = cluster.known("orders")[0][0]
    with cluster.controller_client() as client:
        assert assign(client, 2, epochs[2] + 1_000, own, topic_id, 0).error_code == ErrorCode.STALE_BROKER_EPOCH
        assert code_of(assign(client, 2, epochs[2], own, uuid.UUID(int=9), 0)) == ErrorCode.UNKNOWN_TOPIC_ID
        assert code_of(assign(client, 2, epochs[2], own, topic_id, 1)) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert code_of(assign(client, 1, epochs[1], own, topic_id, 0)) == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert code_of(assign(client, 2, epochs[2], own, topic_id, 0)) == 0  # it was there already
        assert cluster.known("orders")[0][0] == own


def test_a_replica_in_a_folder_that_its_broker_does_not_have_gives_up_the_leadership(cluster: TwoFoldersEach) -> None:
    create(cluster, "orders", [[2, 3]])
    wait_until(lambda: cluster.known("orders") == cluster.real("orders"), "the folders of all replicas")
    before = cluster.partition("orders")
    assert (before.leader, before.isr) == (2, (2, 3))
    with cluster.controller_client() as client:
        epoch = cluster.image.brokers[2].broker_epoch
        assert code_of(assign(client, 2, epoch, uuid.uuid4(), before.topic_id, 0)) == 0
    wait_until(lambda: cluster.partition("orders").leader == 3, "broker 3 leads")
