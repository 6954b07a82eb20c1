"""Three of our brokers, one of them the controller: what members ask it over loopback, and what comes of it for data."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from streamactors.broker.controller.command import Outcome
from streamactors.broker.controller.metadata_log import TOPIC_ID
from streamactors.broker.controller.rules.feature_rules import SUPPORTED
from streamactors.broker.errors import ErrorCode
from streamactors.broker.launch.storage_format import format_folder, new_cluster_id
from streamactors.broker.membership.controller_wire import ForwardAnswer, Forwarded
from streamactors.broker.network.connection import ServerConnection
from streamactors.broker.protocol.header import request_frame
from streamactors.broker.protocol.messages import encode_request
from streamactors.broker.records.builder import build_batch
from streamactors.broker.records.record import NewRecord
from streamactors.broker.requests.forwarding import Forwarding, principal_data
from tests.broker.controller_apis.three_brokers import ThreeBrokers
from tests.broker.wire import WireClient, wait_until
from tests.differential.quota_script import alter


@pytest.fixture
def three(tmp_path: Path) -> Iterator[ThreeBrokers]:
    with ThreeBrokers(tmp_path) as brokers:
        yield brokers


def create(client: WireClient, name: str, replicas: list[int], **configs: str) -> int:
    topic = {
        "name": name,
        "num_partitions": -1,
        "replication_factor": -1,
        "assignments": [{"partition_index": 0, "broker_ids": replicas}],
        "configs": [{"name": key.replace("_", "."), "value": value} for key, value in configs.items()],
    }
    answer = client.call(19, 7, {"topics": [topic], "timeout_ms": 30_000, "validate_only": False})
    code: int = answer.topics[0].error_code
    return code


def produce(client: WireClient, topic: str, value: bytes, acks: int = -1) -> int:
    batch = bytes(build_batch([NewRecord(None, value, 0)]))
    partition = {"index": 0, "records": batch}
    body = {
        "transactional_id": None,
        "acks": acks,
        "timeout_ms": 20_000,
        "topic_data": [{"name": topic, "partition_data": [partition]}],
    }
    code: int = client.call(0, 9, body).responses[0].partition_responses[0].error_code
    return code


def test_a_request_that_the_controller_answers_late_is_not_refused_when_the_heartbeats_time_out(tmp_path: Path) -> None:
    with ThreeBrokers(tmp_path, broker_session_timeout_ms=2_000) as three:
        waiting, go_on = threading.Event(), threading.Event()

        def busy() -> None:
            waiting.set()
            go_on.wait(30)

        three.brokers[1].node.controller._dispatcher.execute(busy)  # type: ignore[attr-defined]
        assert waiting.wait(30)
        client = three.brokers[2].client()
        topic = {"name": "t", "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
        client.send(19, 7, {"topics": [topic], "timeout_ms": 30_000, "validate_only": False})
        heartbeats = three.brokers[2].node.forwarding._channels._heartbeats._channel  # type: ignore[attr-defined]
        wait_until(lambda: not heartbeats._let_in, "a heartbeat of broker 2 times out")
        go_on.set()
        assert client.receive()[1].topics[0].error_code == ErrorCode.NONE


def test_a_request_is_refused_for_each_topic_while_the_controller_cannot_be_reached(three: ThreeBrokers) -> None:
    broker = three.brokers[2]

    class Unreachable:
        def submit(self, command: Forwarded, then: Callable[[ForwardAnswer], object]) -> None:
            then(command.refused(Outcome(ErrorCode.NOT_CONTROLLER, "nobody listens there")))

    broker.node.forwarding = Forwarding(broker.node, Unreachable(), 0.0)  # type: ignore[arg-type]
    assert create(broker.client(), "t", [2]) == ErrorCode.NOT_CONTROLLER
    client = broker.client()
    client.send_raw(client.frame(19, 7, {"topics": [], "timeout_ms": 1, "validate_only": False})[:-1] + b"\x80")
    assert client.closed_by_peer()


def test_members_join_are_unfenced_and_copy_what_others_lead(three: ThreeBrokers) -> None:
    assert three.image.live_brokers() == [1, 2, 3]
    assert create(three.brokers[2].client(), "t", [3, 2, 1], min_insync_replicas="3") == ErrorCode.NONE
    three.await_partition("t", lambda each: each.leader == 3, "broker 3 knows that it leads", seen_by=3)
    leader = three.brokers[3].client()
    for number in range(5):
        assert produce(leader, "t", b"%d" % number) == ErrorCode.NONE
    ends = {each: three.brokers[each].partition("t").log_end_offset for each in (1, 2, 3)}
    assert ends == {1: 5, 2: 5, 3: 5}, "acknowledged with acks=all and three in sync: every replica has it"


def test_a_member_that_stops_hands_its_leadership_over_and_catches_up_when_it_is_back(three: ThreeBrokers) -> None:
    create(three.brokers[1].client(), "t", [2, 3, 1])
    three.stop(2)
    seen = three.partition("t")
    assert (seen.leader, set(seen.isr)) == (3, {1, 3})
    assert three.image.live_brokers() == [1, 3]
    three.await_partition("t", lambda each: each.leader == 3, "broker 3 knows that it leads", seen_by=3)
    assert produce(three.brokers[3].client(), "t", b"while 2 is away") == ErrorCode.NONE
    three.join(2)
    three.await_partition("t", lambda each: set(each.isr) == {1, 2, 3}, "broker 2 is in sync again")
    assert three.brokers[2].partition("t").log_end_offset == 1


def test_the_controllers_own_broker_leads_and_follows_like_the_others(three: ThreeBrokers) -> None:
    create(three.brokers[3].client(), "led", [1, 2, 3], min_insync_replicas="3")
    assert produce(three.brokers[1].client(), "led", b"one") == ErrorCode.NONE
    assert three.brokers[2].partition("led").log_end_offset == 1
    own = three.brokers[1].node
    assert own.replication.others


def test_replicas_move_with_their_data(three: ThreeBrokers) -> None:
    create(three.brokers[1].client(), "t", [1, 2])
    assert produce(three.brokers[1].client(), "t", b"before") == ErrorCode.NONE
    partition = {"partition_index": 0, "replicas": [3, 2]}
    body = {"topics": [{"name": "t", "partitions": [partition]}], "timeout_ms": 30_000}
    answer = three.brokers[2].client().call(45, 0, body)
    assert answer.responses[0].partitions[0].error_code == ErrorCode.NONE
    three.await_partition("t", lambda each: each.replicas == (3, 2) and not each.adding, "the move is complete")
    assert three.partition("t").leader in (2, 3)
    assert three.brokers[3].partition("t").log_end_offset == 1
    assert three.brokers[1].client().call(46, 0, {"topics": None, "timeout_ms": 30_000}).topics == ()


def test_a_leader_is_elected_on_request(three: ThreeBrokers) -> None:
    create(three.brokers[1].client(), "t", [2, 3])
    three.stop(2)
    three.join(2)
    three.await_partition("t", lambda each: set(each.isr) == {2, 3}, "broker 2 is in sync again")
    assert three.partition("t").leader == 3
    body = {"election_type": 0, "topic_partitions": [{"topic": "t", "partitions": [0]}], "timeout_ms": 30_000}
    answer = three.brokers[3].client().call(43, 2, body)
    assert answer.replica_election_results[0].partition_result[0].error_code == ErrorCode.NONE
    assert three.partition("t").leader == 2


def test_a_leader_comes_back_by_itself_after_some_time(tmp_path: Path) -> None:
    with ThreeBrokers(tmp_path, leader_imbalance_check_interval_seconds=1) as three:
        create(three.brokers[1].client(), "t", [2, 3])
        three.stop(2)
        three.join(2)
        three.await_partition("t", lambda each: each.leader == 2, "broker 2 leads again")


def test_the_level_of_a_feature_changes_through_any_broker(tmp_path: Path) -> None:
    format_folder(tmp_path / "1", 1, new_cluster_id(), {"metadata.version": 19})  # of a cluster from before
    with ThreeBrokers(tmp_path) as three:

        def update(name: str, level: int) -> Any:
            features = [{"feature": name, "max_version_level": level, "upgrade_type": 1}]
            body = {"timeout_ms": 30_000, "feature_updates": features, "validate_only": False}
            return three.brokers[3].client().call(57, 1, body)

        refused = update("foo", 1)
        assert refused.error_code == refused.results[0].error_code == ErrorCode.INVALID_UPDATE_VERSION
        assert update("metadata.version", 33).error_code == ErrorCode.NONE
        wait_until(
            lambda: all(each.node.metadata.image.features["metadata.version"] == 33 for each in three.brokers.values()),
            "every broker follows the level",
        )
        assert create(three.brokers[2].client(), "t", [3, 2, 1]) == 0
        # A broker that does not have the topic yet answers so. The followers fetch in the version of the new level.
        wait_until(lambda: produce(three.brokers[3].client(), "t", b"x") == 0, "a record is on every replica")


def test_a_controller_that_is_back_leads_the_same_cluster(tmp_path: Path) -> None:
    with ThreeBrokers(tmp_path, offsets_topic_num_partitions=1) as three:
        create(three.brokers[1].client(), "t", [1, 2, 3])
        for broker in (3, 2, 1):
            three.stop(broker)
        with ThreeBrokers(tmp_path) as again:
            again.await_partition("t", lambda each: set(each.isr) == {1, 2, 3}, "all are in sync again")
            assert produce(again.brokers[again.partition("t").leader].client(), "t", b"x") == ErrorCode.NONE


# --- the listener for controllers ---


EPOCH = 1  # the first of a new log


def fetch_body(offset: int, last_epoch: int, epoch: int = EPOCH, **changes: Any) -> dict[str, Any]:
    partition = {
        "partition": 0,
        "current_leader_epoch": epoch,
        "fetch_offset": offset,
        "last_fetched_epoch": last_epoch,
        "log_start_offset": -1,
        "partition_max_bytes": 0,
    }
    return {
        "replica_state": {"replica_id": 9, "replica_epoch": -1},
        "max_wait_ms": 0,
        "min_bytes": 0,
        "max_bytes": 8 << 20,
        "session_id": 0,
        "session_epoch": -1,
        "topics": [{"topic_id": TOPIC_ID, "partitions": [partition]}],
        **changes,
    }


def test_the_metadata_log_is_served_to_observers(three: ThreeBrokers) -> None:
    with three.controller_client() as client:
        fetched = client.call(1, 17, fetch_body(0, 0)).responses[0].partitions[0]
        assert fetched.error_code == ErrorCode.NONE
        assert fetched.records
        assert fetched.high_watermark == three.image.offset + 1
        answer = client.call(1, 17, fetch_body(0, 0, epoch=0))
        wrong = answer.responses[0].partitions[0]
        assert wrong.error_code == ErrorCode.FENCED_LEADER_EPOCH
        assert (wrong.current_leader.leader_id, wrong.current_leader.leader_epoch) == (1, EPOCH)
        assert answer.node_endpoints[0].port == three.controller_port
        beyond = client.call(1, 17, fetch_body(10_000, EPOCH)).responses[0].partitions[0]
        assert beyond.diverging_epoch.end_offset == three.image.offset + 1
        stranger = client.call(1, 17, fetch_body(0, 0, cluster_id="another"))
        assert stranger.error_code == ErrorCode.INCONSISTENT_CLUSTER_ID


def test_a_forwarded_request_is_served_and_others_are_refused(three: ThreeBrokers) -> None:
    def envelope(key: int, version: int, body: dict[str, Any], principal: bytes) -> dict[str, Any]:
        return {
            "request_data": request_frame(key, version, 7, "inner", encode_request(key, version, body))[4:],
            "request_principal": principal,
            "client_host_address": bytes([127, 0, 0, 1]),
        }

    anyone = principal_data("User", "ANONYMOUS")
    topic = {"name": "made", "num_partitions": 1, "replication_factor": 1, "configs": (), "assignments": ()}
    making = {"topics": [topic], "timeout_ms": 1_000, "validate_only": False}
    with three.controller_client() as client:
        assert client.call(58, 0, envelope(19, 7, making, anyone)).error_code == ErrorCode.NONE
        assert "made" in three.image.topics
        produce_inside = envelope(3, 12, {"topics": None}, anyone)
        assert client.call(58, 0, produce_inside).error_code == ErrorCode.INVALID_REQUEST
        nobody = envelope(19, 7, making, b"")
        assert client.call(58, 0, nobody).error_code == ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE


def alter_broker(client: WireClient, broker: str) -> tuple[int, str | None]:
    config = {"name": "log.retention.ms", "config_operation": 0, "value": "99999"}
    resource = {"resource_type": 4, "resource_name": broker, "configs": [config]}
    (answer,) = client.call(44, 1, {"resources": [resource], "validate_only": False}).responses
    return answer.error_code, answer.error_message


def test_settings_of_a_broker_are_changed_through_it_and_through_the_controller(three: ThreeBrokers) -> None:
    assert alter_broker(three.brokers[2].client(), "2") == (ErrorCode.NONE, None)
    assert alter_broker(three.controller_client(), "3") == (ErrorCode.NONE, None)
    assert {name for kind, name in three.image.configs if kind == 4 and name} == {"2", "3"}
    not_its_own = "Unexpected broker id, expected 1, but received 3"
    assert alter_broker(three.brokers[1].client(), "3") == (ErrorCode.INVALID_REQUEST, not_its_own)
    not_its_own = "Unexpected broker id, expected 2, but received 3"  # a member does not forward it
    assert alter_broker(three.brokers[2].client(), "3") == (ErrorCode.INVALID_REQUEST, not_its_own)
    unknown = "No node with id 9 found."
    assert alter_broker(three.controller_client(), "9") == (ErrorCode.BROKER_ID_NOT_REGISTERED, unknown)


@pytest.mark.parametrize("incremental", [True, False])
def test_of_a_request_for_several_brokers_only_the_others_are_refused(three: ThreeBrokers, incremental: bool) -> None:
    operation = {"config_operation": 0} if incremental else {}
    resources = [
        {"resource_type": 4, "resource_name": broker, "configs": [{"name": name, "value": value, **operation}]}
        for broker, name, value in (
            ("3", "log.retention.ms", "99999"),
            ("2", "log.retention.ms", "88888"),
            ("1", "log.retention.ms", "99999"),
            ("", "log.retention.ms", "x"),
        )
    ]
    key, version = (44, 1) if incremental else (33, 2)
    answers = three.brokers[2].client().call(key, version, {"resources": resources, "validate_only": False}).responses
    assert [(each.resource_name, each.error_code) for each in answers] == [("3", 42), ("2", 0), ("1", 42), ("", 42)]
    assert answers[2].error_message == "Unexpected broker id, expected 2, but received 1"
    assert three.image.configs[4, "2"]["log.retention.ms"] == "88888"


def unregister(client: WireClient, broker: int) -> tuple[int, str | None]:
    answer = client.call(64, 0, {"broker_id": broker})
    return answer.error_code, answer.error_message


def test_a_broker_that_is_gone_is_unregistered_and_one_that_runs_registers_again(three: ThreeBrokers) -> None:
    through = three.brokers[2].client()
    unknown = "Broker ID 99 is not currently registered"
    assert unregister(through, 99) == (ErrorCode.BROKER_ID_NOT_REGISTERED, unknown)
    assert unregister(through, 1)[0] == ErrorCode.INVALID_REQUEST
    three.stop(3)
    assert unregister(through, 3) == (ErrorCode.NONE, None)
    assert sorted(three.image.brokers) == [1, 2]
    epoch = three.image.brokers[2].broker_epoch
    assert unregister(three.controller_client(), 2) == (ErrorCode.NONE, None)
    wait_until(
        lambda: 2 in three.image.live_brokers() and three.image.brokers[2].broker_epoch > epoch, "broker 2 is back"
    )


def test_the_quorum_is_described_with_the_members_that_read_its_log(three: ThreeBrokers) -> None:
    asked = {"topics": [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]}
    folders = {each: three.brokers[each].node.logs.properties.directory_id for each in (2, 3)}
    for client in (three.brokers[3].client(), three.controller_client()):

        def caught_up(client: WireClient = client) -> bool:
            answer = client.call(55, 2, asked)
            described = answer.topics[0].partitions[0]
            observers = {each.replica_id: each for each in described.observers}
            assert {each: seen.replica_directory_id for each, seen in observers.items()} == folders
            (listener,) = answer.nodes[0].listeners
            assert (listener.name, listener.port) == ("CONTROLLER", three.controller_port)
            return all(
                seen.log_end_offset == described.high_watermark and seen.last_caught_up_timestamp > 0
                for seen in observers.values()
            )

        wait_until(caught_up, "both members have read the whole log")


def test_clients_cannot_send_controller_requests_and_nodes_cannot_produce(three: ThreeBrokers) -> None:
    with three.controller_client() as client:
        served = {each.api_key for each in client.call(18, 3, _software()).api_keys}
    assert {1, 56, 58, 59, 60, 62, 63, 67, 73} <= served
    assert 0 not in served
    ordinary = {each.api_key for each in three.brokers[1].client().call(18, 3, _software()).api_keys}
    assert not {56, 58, 59, 62, 63, 67, 73} & ordinary


def test_a_second_process_with_a_live_brokers_id_is_refused(three: ThreeBrokers) -> None:
    body = {
        "broker_id": 2,
        "cluster_id": three.brokers[1].node.cluster_id,
        "incarnation_id": uuid.uuid4(),
        "listeners": [{"name": "PLAINTEXT", "host": "127.0.0.1", "port": 1, "security_protocol": 0}],
        "features": [
            {"name": name, "min_supported_version": lowest, "max_supported_version": highest}
            for name, lowest, highest in SUPPORTED
        ],
        "rack": None,
        "log_dirs": [uuid.uuid4()],
        "previous_broker_epoch": -1,
    }
    with three.controller_client() as client:
        assert client.call(62, 4, body).error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION


def _software() -> dict[str, str]:
    return {"client_software_name": "test", "client_software_version": "1"}


def test_a_client_above_its_quota_is_throttled_by_the_broker_that_forwards_its_request(
    three: ThreeBrokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The controller could not encode such an answer: the client got UNKNOWN_SERVER_ERROR."""
    throttled: list[float] = []
    throttle = ServerConnection.throttle
    monkeypatch.setattr(ServerConnection, "throttle", lambda self, ms: (throttled.append(ms), throttle(self, ms)))

    def create_as_busy(name: str, partitions: int) -> tuple[int, int]:
        topic = {
            "name": name,
            "num_partitions": partitions,
            "replication_factor": 1,
            "assignments": [],
            "configs": [],
        }
        with WireClient("127.0.0.1", three.brokers[2].port, "busy") as client:
            answer = client.call(19, 7, {"topics": [topic], "timeout_ms": 30_000, "validate_only": False})
        return answer.topics[0].error_code, answer.throttle_time_ms

    with WireClient("127.0.0.1", three.brokers[2].port) as admin:
        assert alter(admin, {"client-id": "busy"}, {"controller_mutation_rate": 1}) == [(0, None)]
    wait_until(lambda: three.brokers[1].node.charging is not None, "the controller's broker knows the quota")
    assert create_as_busy("many", 30) == (ErrorCode.NONE, 0)
    code, throttle_ms = create_as_busy("one-more", 1)
    assert code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert throttle_ms > 10_000
    assert throttled == [throttle_ms]
