"""Three nodes elect a controller, copy its metadata, and go on when it is gone."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from streamactors.broker.errors import BrokerStartError, ErrorCode, StorageError
from streamactors.broker.launch.storage_format import format_folder
from streamactors.broker.metadata.delta import ImageDelta
from streamactors.broker.quorum.quorum import Quorum
from streamactors.broker.quorum.raft.raft_messages import EndEpoch
from streamactors.broker.server.metadata_publisher import MetadataPublisher
from tests.broker.live_broker import LiveBroker
from tests.broker.server.three_controllers import CLUSTER_ID, ThreeControllers
from tests.broker.wire import WireClient, wait_until

QUORUM = {"topics": [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]}


def create(client: WireClient, name: str, replicas: int = 3) -> Any:
    topic = {
        "name": name,
        "num_partitions": 1,
        "replication_factor": replicas,
        "assignments": (),
        "configs": (),
    }
    return client.call(19, 7, {"topics": [topic], "timeout_ms": 30_000}).topics[0]


def test_every_node_takes_requests_and_follows_the_metadata_of_the_one_that_leads(tmp_path: Path) -> None:
    with ThreeControllers(tmp_path) as cluster:
        leader = cluster.leader()
        for node in cluster.nodes:
            assert create(cluster.nodes[node].client(), f"of-{node}").error_code == 0
        for node in cluster.nodes:
            cluster.await_topic(f"of-{node}")
        assert {each: cluster.image(each).live_brokers() for each in cluster.nodes} == dict.fromkeys(
            cluster.nodes, cluster.image(leader).live_brokers()
        )
        assert set(cluster.image(leader).live_brokers()) == {1, 2, 3}


def test_a_node_that_stops_hands_the_leadership_over_and_nothing_is_lost(tmp_path: Path) -> None:
    with ThreeControllers(tmp_path) as cluster:
        first = cluster.leader()
        assert create(cluster.nodes[first].client(), "before").error_code == 0
        cluster.stop(first)
        second = cluster.leader()
        assert second != first
        other = next(node for node in cluster.nodes if node != second)
        assert create(cluster.nodes[other].client(), "after", 2).error_code == 0
        cluster.start(first)
        cluster.await_topic("before")
        cluster.await_topic("after")
        assert cluster.quorum(first).leader == cluster.leader()


def test_a_leader_that_stops_says_so_to_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[EndEpoch] = []
    asked = Quorum.asked

    def listening(quorum: Quorum, request: Any, reply: Any) -> None:
        if isinstance(request, EndEpoch):
            heard.append(request)
        asked(quorum, request, reply)

    monkeypatch.setattr(Quorum, "asked", listening)
    with ThreeControllers(tmp_path) as cluster:
        first = cluster.leader()
        cluster.stop(first)
        wait_until(lambda: any(each.leader == first for each in heard), "another node hears of it")
        assert set(heard[-1].successors) == set(cluster.nodes)


def test_the_quorum_is_described_with_its_voters_and_their_offsets(tmp_path: Path) -> None:
    with ThreeControllers(tmp_path, broker_session_timeout_ms=2_000) as cluster:
        leader = cluster.leader()
        follower = next(node for node in cluster.nodes if node != leader)
        assert create(cluster.nodes[follower].client(), "t").error_code == 0

        def described() -> Any:
            return cluster.nodes[follower].client().call(55, 2, QUORUM)

        def all_are_at_the_end() -> bool:
            seen = described().topics[0].partitions[0]
            return {each.log_end_offset for each in seen.current_voters} == {seen.high_watermark}

        wait_until(all_are_at_the_end, "every voter has the whole log")
        seen = described()
        partition = seen.topics[0].partitions[0]
        assert partition.leader_id == leader
        assert [each.replica_id for each in partition.current_voters] == [1, 2, 3]
        assert all(each.replica_directory_id is not None for each in partition.current_voters)
        assert partition.observers == ()
        assert {(e.node_id, e.listeners[0].port) for e in seen.nodes} == set(cluster.ports.items())
        cluster_of = cluster.client(follower).call(60, 1, {"endpoint_type": 2})
        assert cluster_of.controller_id == leader
        assert {each.broker_id: each.port for each in cluster_of.brokers} == cluster.ports
        refused = cluster.client(follower).call(55, 2, QUORUM).topics[0].partitions[0]
        assert (refused.error_code, refused.leader_id) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, leader)


def test_controllers_without_a_broker_serve_a_broker_of_their_own(tmp_path: Path) -> None:
    with ThreeControllers(tmp_path, roles="controller") as cluster:
        cluster.leader()
        settings = {
            "node.id": 9,
            "process.roles": "broker",
            "controller.quorum.bootstrap.servers": ",".join(f"127.0.0.1:{port}" for port in cluster.ports.values()),
        }
        with LiveBroker(tmp_path / "9", settings) as broker:
            first = cluster.leader()
            broker.create_topic("one")
            cluster.stop(first)
            broker.create_topic("two")  # the broker finds the next controller
            cluster.await_topic("two")
            assert set(cluster.image(cluster.leader()).topics) == {"one", "two"}
            assert broker.node.cluster_id == cluster.nodes[cluster.leader()].node.cluster_id


def test_a_node_that_was_away_for_long_begins_with_the_snapshot_of_the_leader(tmp_path: Path) -> None:
    often = {"metadata.log.max.record.bytes.between.snapshots": 2_000}
    with ThreeControllers(tmp_path, **often) as cluster:
        away = next(node for node in cluster.nodes if node != cluster.leader())
        end = cluster.on_controller(away, lambda: cluster.quorum(away)._log.end_offset)
        cluster.stop(away)
        leader = cluster.leader()
        client = cluster.nodes[leader].client()
        for number in range(12):
            assert create(client, f"t{number}", 2).error_code == 0
        assert cluster.on_controller(leader, lambda: cluster.quorum(leader)._log.start_offset) > end
        cluster.start(away)
        cluster.await_topic("t11")
        assert set(cluster.image(away).topics) == {f"t{number}" for number in range(12)}
        assert cluster.on_controller(away, lambda: cluster.quorum(away)._log.start_offset) > end


def test_a_folder_without_the_id_of_its_cluster_is_refused(tmp_path: Path) -> None:
    cluster = ThreeControllers(tmp_path)
    with pytest.raises(BrokerStartError, match="storage format --cluster-id"):
        cluster.start(1)


def test_a_controller_that_others_cannot_reach_is_refused(tmp_path: Path) -> None:
    cluster = ThreeControllers(tmp_path)
    format_folder(tmp_path / "1", 1, CLUSTER_ID)
    settings = {**cluster.settings, "node.id": 1, "listeners": "PLAINTEXT://127.0.0.1:0"}
    with pytest.raises(BrokerStartError, match="needs a listener for the others"):
        LiveBroker(tmp_path / "1", settings).__enter__()


def test_every_start_of_a_controller_is_registered(tmp_path: Path) -> None:
    with ThreeControllers(tmp_path) as cluster:
        for node in cluster.nodes:
            wait_until(
                lambda node=node: cluster.image(node).controllers.keys() == {1, 2, 3},  # type: ignore[misc]
                f"node {node} knows three controllers",
            )
        other = next(node for node in (1, 2, 3) if node != cluster.leader())
        before = cluster.image(other).controllers[other]
        assert [(each.name, each.port) for each in before.endpoints] == [("CONTROLLER", cluster.ports[other])]
        cluster.stop(other)
        cluster.start(other)
        wait_until(
            lambda: cluster.image(other).controllers[other].incarnation_id != before.incarnation_id,
            "the new start is registered",
        )


def test_a_log_that_nobody_writes_gets_a_no_op_record_that_every_node_reads(tmp_path: Path) -> None:
    with ThreeControllers(tmp_path, metadata_max_idle_interval_ms=50) as cluster:
        leader = cluster.leader()
        end = cluster.quorum(leader).high_watermark
        wait_until(lambda: all(cluster.quorum(each).high_watermark >= end + 3 for each in cluster.nodes))
        assert cluster.image(leader).topics == {}


def test_without_an_interval_there_are_no_no_op_records(tmp_path: Path) -> None:
    with ThreeControllers(tmp_path, metadata_max_idle_interval_ms=0) as cluster:
        leader = cluster.leader()
        assert create(cluster.nodes[leader].client(), "first").error_code == 0
        cluster.await_topic("first")
        end = cluster.quorum(leader).high_watermark
        assert create(cluster.nodes[leader].client(), "second").error_code == 0
        cluster.await_topic("second")
        assert cluster.quorum(leader).high_watermark == end + 2  # a topic and its partition


@pytest.mark.slow
@pytest.mark.expects_log(
    "cannot follow the metadata log",
    "no longer takes part in the quorum of the metadata log",
    "the metadata log cannot be written",
)
def test_a_leader_whose_disk_fails_gives_way_to_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # It went on to lead, and refused every change until it was restarted, although the other two could have served. Later it gave way,
    # but hoped for a minute that the controller that it had been would grant its departure.
    with ThreeControllers(tmp_path, broker_session_timeout_ms=2_000) as cluster:
        first = cluster.leader()

        def full(*_: object) -> None:
            raise StorageError("no space left on the device")

        monkeypatch.setattr(cluster.quorum(first)._log, "append", full)
        others = [each for each in cluster.nodes if each != first]
        wait_until(lambda: any(cluster.quorum(each).leads for each in others))
        client = cluster.nodes[others[0]].client()
        taken = (0, ErrorCode.TOPIC_ALREADY_EXISTS)  # the request is sent again when another node is elected meanwhile
        wait_until(lambda: create(client, "after", 2).error_code in taken, "the others take changes")
        assert all(cluster.quorum(each).leader != first for each in others)
        wait_until(lambda: cluster.nodes[first].node.leader_id == -1, "the node knows that it leads no longer")


@pytest.mark.slow
def test_a_follower_that_cannot_read_the_metadata_log_any_more_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    # The error came out of the answer to its fetch: "could not be used; this is a bug", and the node served metadata that got older and older.
    def damaged(*_: object) -> None:
        raise BrokerStartError("the metadata log is damaged at record 9")

    with ThreeControllers(tmp_path, broker_session_timeout_ms=2_000) as cluster:
        leader = cluster.leader()
        follower = next(each for each in cluster.nodes if each != leader)
        controller: Any = cluster.quorum(follower)._owner
        monkeypatch.setattr(controller.metadata, "load", damaged)
        client = cluster.nodes[leader].client()
        create(client, "t", 2)
        wait_until(lambda: controller.broken, "the follower ends")
    assert "ends, because it cannot follow the metadata log: the metadata log is damaged at record 9" in caplog.text
    assert "this is a bug" not in caplog.text


def test_the_quorum_goes_on_while_a_node_makes_the_folders_of_many_partitions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # 1,000 partitions take longer than the fetch timeout: the others elected another leader, and the topic was created twice.
    held, holding = threading.Event(), list[MetadataPublisher]()
    genuine = MetadataPublisher.prepare

    def prepare(publisher: MetadataPublisher, delta: ImageDelta) -> Any:
        if sum(len(topic.partitions) for topic in delta.created) > 50:
            holding.append(publisher)
            assert held.wait(30)
        return genuine(publisher, delta)

    monkeypatch.setattr(MetadataPublisher, "prepare", prepare)
    with ThreeControllers(tmp_path) as cluster:
        leader = cluster.leader()
        client = cluster.nodes[leader].client()
        topic = {"name": "many", "num_partitions": 60, "replication_factor": 3, "assignments": (), "configs": ()}
        client.send(19, 7, {"topics": [topic], "timeout_ms": 30_000})
        wait_until(lambda: len(holding) > 0, "the leader makes the folders")
        assert [cluster.on_controller(node, lambda: "serves") for node in cluster.nodes] == ["serves"] * 3
        held.set()
        # beside load another node may be elected for another reason; the request is sent again
        assert client.receive()[1].topics[0].error_code in (0, ErrorCode.TOPIC_ALREADY_EXISTS)
        cluster.await_topic("many")
        assert create(client, "after").error_code == 0


def test_folders_that_cannot_be_made_refuse_the_topic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    genuine = MetadataPublisher.prepare

    def prepare(publisher: MetadataPublisher, delta: ImageDelta) -> Any:
        if any(topic.name == "many" for topic in delta.created):
            raise StorageError("no space left on the device")
        return genuine(publisher, delta)

    monkeypatch.setattr(MetadataPublisher, "prepare", prepare)
    with ThreeControllers(tmp_path) as cluster:
        client = cluster.nodes[cluster.leader()].client()
        topic = {"name": "many", "num_partitions": 60, "replication_factor": 3, "assignments": (), "configs": ()}
        answer = client.call(19, 7, {"topics": [topic], "timeout_ms": 30_000})
        assert answer.topics[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert create(client, "after").error_code == 0
