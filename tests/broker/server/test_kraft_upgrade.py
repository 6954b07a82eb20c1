"""kraft.version 0 to 1 in a running quorum: the log names the voters from then on, and they can be added and removed (KIP-853)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from streamactors.broker.cluster.reserved_ports import HOST, free_port
from streamactors.broker.controller.own_replica import OwnReplica
from streamactors.broker.errors import ErrorCode
from streamactors.broker.launch.storage_format import format_folder
from streamactors.broker.log.disk import Disk
from streamactors.broker.quorum.stored_voters import stored_voters
from tests.broker.live_broker import LiveBroker
from tests.broker.server.test_three_controllers import QUORUM
from tests.broker.server.three_controllers import CLUSTER_ID, ThreeControllers
from tests.broker.wire import WireClient, wait_until

FEATURES = (57, 2)


def update(client: WireClient, level: int, *, kind: int = 1, validate_only: bool = False) -> tuple[int, str | None]:
    updates = [{"feature": "kraft.version", "max_version_level": level, "upgrade_type": kind}]
    body = {"timeout_ms": 30_000, "feature_updates": updates, "validate_only": validate_only}
    answer = client.call(*FEATURES, body)
    return answer.error_code, answer.error_message


def upgraded(cluster: ThreeControllers) -> bool:
    """Ask for the upgrade; it is refused until all voters have told their folders."""
    with cluster.client(cluster.leader()) as client:
        return update(client, 1)[0] == 0


def finalized(client: WireClient) -> dict[str, int]:
    body = {"client_software_name": "test", "client_software_version": "1"}
    return {each.name: each.max_version_level for each in client.call(18, 4, body).finalized_features}


def key(cluster: ThreeControllers, node: int) -> dict[str, Any]:
    return {
        "cluster_id": CLUSTER_ID,
        "voter_id": node,
        "voter_directory_id": cluster.nodes[node].node.logs.properties.directory_id,
    }


def voters(cluster: ThreeControllers) -> dict[int, Any]:
    with cluster.client(cluster.leader()) as client:
        partition = client.call(55, 2, QUORUM).topics[0].partitions[0]
    return {each.replica_id: each.replica_directory_id for each in partition.current_voters}


@pytest.mark.slow
def test_three_voters_are_named_and_then_changed(tmp_path: Path) -> None:
    with ThreeControllers(tmp_path, controller_quorum_fetch_timeout_ms=3_000) as cluster:
        with cluster.client(cluster.leader()) as client:
            assert "kraft.version" not in finalized(client)
        wait_until(lambda: upgraded(cluster), "kraft.version is 1")
        ids = {node: cluster.nodes[node].node.logs.properties.directory_id for node in (1, 2, 3)}
        assert voters(cluster) == ids
        with cluster.client(cluster.leader()) as client:
            assert finalized(client)["kraft.version"] == 1
            assert update(client, 1) == (0, None)
            code, why = update(client, 0, kind=2)
            assert code == ErrorCode.INVALID_UPDATE_VERSION
            assert "cannot be downgraded" in str(why)
        removed = next(node for node in (1, 2, 3) if node != cluster.leader())
        with cluster.client(cluster.leader()) as client:
            assert client.call(81, 0, key(cluster, removed)).error_code == 0
        assert removed not in voters(cluster)
        cluster.stop(removed)
        cluster.start(removed)  # the settings still name it, and the log does not
        assert removed not in cluster.quorum(removed).voters
        listeners = [{"name": "CONTROLLER", "host": HOST, "port": cluster.ports[removed]}]

        def added() -> bool:
            body = {**key(cluster, removed), "listeners": listeners, "timeout_ms": 10_000}
            with cluster.client(cluster.leader()) as client:
                return client.call(80, 0, body).error_code in (0, ErrorCode.DUPLICATE_VOTER)

        wait_until(added, "it is a voter again")
        assert voters(cluster) == ids
    for node in (1, 2, 3):
        named = stored_voters(Disk(), tmp_path / str(node) / "__cluster_metadata-0")
        assert named is not None
        assert named.ids == {1, 2, 3}


def test_the_upgrade_outlives_its_leader(tmp_path: Path) -> None:
    with ThreeControllers(tmp_path, controller_quorum_fetch_timeout_ms=3_000) as cluster:
        wait_until(lambda: upgraded(cluster), "kraft.version is 1")
        before = voters(cluster)
        leader = cluster.leader()
        cluster.stop(leader)
        assert voters(cluster) == before
        cluster.start(leader)
        wait_until(lambda: cluster.nodes[leader].node.voters is not None, "it has the voters of the log")


@pytest.mark.slow
def test_a_voter_that_has_not_told_its_folder_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tell = OwnReplica._report
    silent = {1, 2, 3}

    def telling(replica: OwnReplica, *args: Any) -> None:
        if replica._node.node_id not in silent:
            tell(replica, *args)

    monkeypatch.setattr(OwnReplica, "_report", telling)
    with ThreeControllers(tmp_path, controller_quorum_fetch_timeout_ms=3_000) as cluster:
        silent.intersection_update([next(node for node in (1, 2, 3) if node != cluster.leader())])
        named = f"controller {min(silent)} has not told the leader the id of its data folder"

        def refused() -> bool:
            with cluster.client(cluster.leader()) as client:
                code, why = update(client, 1)
            assert code == ErrorCode.INVALID_UPDATE_VERSION
            return named in str(why)

        wait_until(refused, "only the silent one is named")
        with cluster.client(cluster.leader()) as client:
            assert "kraft.version" not in finalized(client)
        silent.clear()
        wait_until(lambda: upgraded(cluster), "kraft.version is 1")


@pytest.mark.slow
def test_validation_alone_changes_nothing(tmp_path: Path) -> None:
    with ThreeControllers(tmp_path, controller_quorum_fetch_timeout_ms=3_000) as cluster:

        def allowed() -> bool:
            with cluster.client(cluster.leader()) as client:
                return update(client, 1, validate_only=True)[0] == 0

        wait_until(allowed, "all have told their folders")
        assert all(live.node.voters is None for live in cluster.nodes.values())


@pytest.mark.slow
def test_a_quorum_of_one_is_upgraded_and_grows_after_its_next_start(tmp_path: Path) -> None:
    ports = {node: free_port() for node in (1, 2)}
    bootstrap = f"{HOST}:{ports[1]}"

    def node(node_id: int, **more: Any) -> LiveBroker:
        listeners = f"PLAINTEXT://{HOST}:0,CONTROLLER://{HOST}:{ports[node_id]}"
        settings = {"node.id": node_id, "listeners": listeners, "controller.listener.names": "CONTROLLER"}
        return LiveBroker(tmp_path / str(node_id), {**settings, **more})

    format_folder(tmp_path / "1", 1, CLUSTER_ID)
    with node(1) as first, first.client() as client:
        assert update(client, 1) == (0, None)
        assert finalized(client)["kraft.version"] == 1
        first.create_topic("orders")
    format_folder(tmp_path / "2", 2, CLUSTER_ID)
    with node(1, **{"controller.quorum.bootstrap.servers": bootstrap}) as first:
        assert "orders" in first.node.metadata.image.topics
        with node(2, **{"controller.quorum.bootstrap.servers": bootstrap}) as second:
            body = {
                "cluster_id": CLUSTER_ID,
                "voter_id": 2,
                "voter_directory_id": second.node.logs.properties.directory_id,
                "listeners": [{"name": "CONTROLLER", "host": HOST, "port": ports[2]}],
                "timeout_ms": 10_000,
            }

            def added() -> bool:
                with first.client() as client:
                    return client.call(80, 0, body).error_code in (0, ErrorCode.DUPLICATE_VOTER)

            wait_until(added, "2 is a voter")
            wait_until(lambda: second.node.voters is not None and len(second.node.voters.addresses()) == 2)
            with first.client() as client:
                answer = client.call(
                    81, 0, {key: body[key] for key in ("cluster_id", "voter_id", "voter_directory_id")}
                )
                assert answer.error_code == 0


def test_a_node_without_a_listener_for_controllers_is_not_upgraded(tmp_path: Path) -> None:
    with LiveBroker(tmp_path) as live, live.client() as client:
        code, why = update(client, 1)
        assert code == ErrorCode.INVALID_UPDATE_VERSION
        assert "no listener with a fixed port" in str(why)


def test_a_broker_that_is_no_controller_names_the_level(tmp_path: Path) -> None:
    # It named none, whatever the log said, and clients of that broker took the cluster to be at level 0.
    port = free_port()
    controller = {
        "node.id": 1,
        "listeners": f"PLAINTEXT://{HOST}:0,CONTROLLER://{HOST}:{port}",
        "controller.listener.names": "CONTROLLER",
    }
    member = {
        "node.id": 2,
        "process.roles": "broker",
        "listeners": f"PLAINTEXT://{HOST}:0",
        "controller.quorum.bootstrap.servers": f"{HOST}:{port}",
    }
    format_folder(tmp_path / "1", 1, CLUSTER_ID)
    with LiveBroker(tmp_path / "1", controller) as first, first.client() as client:
        with LiveBroker(tmp_path / "2", member) as second:
            assert "kraft.version" not in finalized(second.client())
            assert update(client, 1) == (0, None)
            wait_until(lambda: finalized(second.client()).get("kraft.version") == 1, "the broker knows the level")
        with LiveBroker(tmp_path / "2", member) as second:
            assert finalized(second.client())["kraft.version"] == 1
