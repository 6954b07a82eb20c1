"""Cordoned data folders (KIP-1066): no new replica is put there. Codes and sentences are answers of Apache Kafka 4.4.0."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from streamactors.broker.errors import ErrorCode as E
from streamactors.broker.launch.storage_format import format_folder, new_cluster_id
from tests.broker.live_broker import LiveBroker
from tests.broker.wire import WireClient, wait_until

SET, DELETE = 0, 1
BROKERS = 4
NAME = "cordoned.log.dirs"
UPGRADE = 1


class Cordoning:
    """One broker with two data folders, and a client."""

    def __init__(self, folder: Path) -> None:
        self.folders = [folder / "a", folder / "b"]
        if not self.folders[0].exists():
            format_folder(self.folders[0], 1, new_cluster_id(), {"metadata.version": 29})  # of a cluster from before
        self.live = LiveBroker(self.folders[0], {"log.dirs": ",".join(map(str, self.folders))})

    def raise_level(self, level: int) -> None:
        update = {"feature": "metadata.version", "max_version_level": level, "upgrade_type": UPGRADE}
        body = {"timeout_ms": 10_000, "validate_only": False, "feature_updates": [update]}
        assert self.client.call(57, 2, body).error_code == E.NONE

    def cordon(self, value: str | None, name: str = "1") -> tuple[int, str | None]:
        config = {"name": NAME, "config_operation": DELETE if value is None else SET, "value": value}
        resource = {"resource_type": BROKERS, "resource_name": name, "configs": [config]}
        (answer,) = self.client.call(44, 1, {"resources": [resource], "validate_only": False}).responses
        return answer.error_code, answer.error_message

    def create(self, name: str, partitions: int = 1, assignment: Any = ()) -> tuple[int, str | None]:
        sizes = (-1, -1) if assignment else (partitions, 1)
        topic = {"name": name, "num_partitions": sizes[0], "replication_factor": sizes[1], "configs": []}
        body = {"topics": [{**topic, "assignments": assignment}], "timeout_ms": 10_000, "validate_only": False}
        (answer,) = self.client.call(19, 7, body).topics
        return answer.error_code, answer.error_message

    def partitions_in(self, folder: Path, topic: str) -> int:
        return len([each for each in folder.iterdir() if each.name.startswith(f"{topic}-")])

    def described(self) -> list[bool]:
        return [each.is_cordoned for each in self.client.call(35, 5, {"topics": None}).results]

    def known(self) -> tuple[Any, ...] | None:
        return self.live.node.metadata.image.brokers[1].cordoned

    def __enter__(self) -> Cordoning:
        self.live.__enter__()
        self.client: WireClient = self.live.client()
        return self

    def __exit__(self, *error: Any) -> None:
        self.client.close()
        self.live.__exit__(*error)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Cordoning]:
    with Cordoning(tmp_path) as made:
        yield made


def test_a_cordoned_folder_gets_no_new_partition_until_it_is_opened_again(broker: Cordoning) -> None:
    broker.raise_level(30)
    first, second = broker.folders
    assert broker.cordon(str(first)) == (E.NONE, None)
    wait_until(lambda: broker.known() == broker.live.node.logs.folders.ids[:1], "the controller knows the folder")
    assert broker.described() == [True, False]
    assert broker.create("one", 3) == (E.NONE, None)
    assert (broker.partitions_in(first, "one"), broker.partitions_in(second, "one")) == (0, 3)
    assert broker.cordon(None) == (E.NONE, None)
    wait_until(lambda: broker.known() == (), "the controller knows that no folder is cordoned")
    assert broker.create("two", 3) == (E.NONE, None)
    assert broker.partitions_in(first, "two") > 0
    assert broker.described() == [False, False]


def test_a_broker_with_only_cordoned_folders_gets_no_replica(broker: Cordoning) -> None:
    broker.raise_level(33)
    assert broker.create("before") == (E.NONE, None)
    assert broker.cordon("*") == (E.NONE, None)
    wait_until(lambda: len(broker.known() or ()) == 2, "the controller knows the folders")
    none = "All brokers are currently fenced, or have all their log directories cordoned."
    assert broker.create("after") == (
        E.INVALID_REPLICATION_FACTOR,
        f"Unable to replicate the partition 1 time(s): {none}",
    )
    by_hand = [{"partition_index": 0, "broker_ids": [1]}]
    assert broker.create("after", assignment=by_hand) == (
        E.INVALID_REPLICA_ASSIGNMENT,
        "The manual partition assignment includes broker 1, but all its log directories are cordoned.",
    )
    move = {"path": str(broker.folders[1]), "topics": [{"name": "before", "partitions": [0]}]}
    (result,) = broker.client.call(34, 2, {"dirs": [move]}).results
    assert [each.error_code for each in result.partitions] == [E.INVALID_REPLICA_ASSIGNMENT]


def test_below_level_30_folders_cannot_be_cordoned(broker: Cordoning) -> None:
    text = "The cordoned.log.dirs configuration value cannot be set because it requires metadata.version >= 4.3-IV0"
    for value in ("*", "", None):
        assert broker.cordon(value) == (E.INVALID_CONFIG, text)


def test_only_folders_of_the_broker_can_be_cordoned(broker: Cordoning) -> None:
    broker.raise_level(30)
    missing = "requirement failed: All entries in cordoned.log.dirs must be present in log.dirs or log.dir. Missing entries : "
    assert broker.cordon("/nowhere") == (E.INVALID_REQUEST, f"{missing}/nowhere")
    assert broker.cordon(f"{broker.folders[0]},/nowhere") == (E.INVALID_REQUEST, f"{missing}/nowhere")
    alone = "requirement failed: When cordoned.log.dirs is set to *, it must not contain other values"
    assert broker.cordon("*,/x") == (E.INVALID_REQUEST, alone)
    everywhere = (
        "Cannot update these configs at default cluster level, broker id must be specified: [cordoned.log.dirs]"
    )
    assert broker.cordon("*", name="") == (E.INVALID_REQUEST, everywhere)


def test_cordoned_folders_are_cordoned_after_a_restart(tmp_path: Path) -> None:
    with Cordoning(tmp_path) as broker:
        broker.raise_level(30)
        assert broker.cordon(str(broker.folders[1])) == (E.NONE, None)
    with Cordoning(tmp_path) as broker:
        wait_until(lambda: len(broker.known() or ()) == 1, "the controller knows the folder again")
        assert broker.described() == [False, True]
