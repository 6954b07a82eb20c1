"""ListOffsets, OffsetForLeaderEpoch, InitProducerId, ApiVersions and SaslHandshake over a socket."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from streamactors.broker import apis
from streamactors.broker.errors import ErrorCode
from streamactors.broker.metadata.delta import apply_records
from streamactors.broker.metadata.metadata_record import FeatureLevel
from streamactors.broker.requests.api import Api, DuplicateApi, Routes
from streamactors.broker.security.rights import anyone
from tests.broker.live_broker import LiveBroker, batch, produce_body
from tests.broker.wire import WireClient

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, PENDING_UPLOAD = -1, -2, -3, -4, -5, -6


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveBroker]:
    with LiveBroker(tmp_path_factory.mktemp("offsets")) as live:
        live.create_topic("orders", 2)
        with live.client() as client:
            for timestamp in (1_000, 3_000, 2_000, 4_000):
                body = produce_body(batch(b"a", b"b", timestamp=timestamp))
                assert client.call(0, 9, body).responses[0].partition_responses[0].error_code == 0
        yield live


@pytest.fixture
def client(broker: LiveBroker) -> Iterator[WireClient]:
    with broker.client() as made:
        yield made


def listed(client: WireClient, timestamp: int, version: int = 7, partition: int = 0, **more: Any) -> Any:
    topic = more.pop("topic", "orders")
    asked = {"partition_index": partition, "timestamp": timestamp, "current_leader_epoch": -1, **more}
    body = {"replica_id": -1, "isolation_level": 0, "topics": [{"name": topic, "partitions": [asked]}]}
    return client.call(2, version, body).topics[0].partitions[0]


@pytest.mark.parametrize("version", range(1, 12))
def test_every_version_lists_the_ends(client: WireClient, version: int) -> None:
    assert (listed(client, LATEST, version).offset, listed(client, EARLIEST, version).offset) == (8, 0)
    assert listed(client, LATEST, version, partition=1).offset == 0


@pytest.mark.parametrize(
    ("timestamp", "offset", "found"),
    [(0, 0, 1_000), (1_000, 0, 1_000), (1_001, 2, 3_000), (3_001, 6, 4_000), (4_001, -1, -1)],
)
def test_a_time_gives_the_first_record_not_before_it(
    client: WireClient, timestamp: int, offset: int, found: int
) -> None:
    answer = listed(client, timestamp)
    assert (answer.offset, answer.timestamp, answer.error_code) == (offset, found, 0)


def test_the_largest_timestamp(client: WireClient) -> None:
    answer = listed(client, MAX_TIMESTAMP)
    assert (answer.offset, answer.timestamp) == (6, 4_000)


def test_special_timestamps_of_tiers(client: WireClient) -> None:
    assert listed(client, EARLIEST_LOCAL, 8).offset == 0
    assert (listed(client, LATEST_TIERED, 9).offset, listed(client, LATEST_TIERED, 9).error_code) == (-1, 0)
    assert listed(client, PENDING_UPLOAD, 11).offset == -1


@pytest.mark.parametrize(
    ("timestamp", "version"),
    [(MAX_TIMESTAMP, 6), (EARLIEST_LOCAL, 7), (LATEST_TIERED, 8), (PENDING_UPLOAD, 10), (-7, 11)],
)
def test_special_timestamps_that_a_version_does_not_have(client: WireClient, timestamp: int, version: int) -> None:
    assert listed(client, timestamp, version).error_code == ErrorCode.UNSUPPORTED_VERSION


def test_partitions_that_cannot_be_listed(client: WireClient) -> None:
    assert listed(client, LATEST, partition=9).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert listed(client, LATEST, topic="none").error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert listed(client, LATEST, current_leader_epoch=5).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert listed(client, 0, current_leader_epoch=5).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert listed(client, LATEST, current_leader_epoch=0).error_code == 0


def test_a_partition_asked_twice_is_refused(client: WireClient) -> None:
    asked = {"partition_index": 0, "timestamp": LATEST}
    other = {"partition_index": 1, "timestamp": LATEST}
    body = {"replica_id": -1, "topics": [{"name": "orders", "partitions": [asked, asked, other]}]}
    codes = [partition.error_code for partition in client.call(2, 5, body).topics[0].partitions]
    assert codes == [ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_REQUEST, 0]


# ---- epochs ----


@pytest.mark.parametrize("version", [2, 3, 4])
def test_an_epoch_ends_where_the_next_begins(broker: LiveBroker, client: WireClient, version: int) -> None:
    def end_of(epoch: int, topic: str = "orders", partition: int = 0, current: int = -1) -> Any:
        asked = {"partition": partition, "current_leader_epoch": current, "leader_epoch": epoch}
        body = {"replica_id": -1, "topics": [{"topic": topic, "partitions": [asked]}]}
        return client.call(23, version, body).topics[0].partitions[0]

    assert (end_of(0).leader_epoch, end_of(0).end_offset) == (0, 8)
    assert (end_of(3).leader_epoch, end_of(3).end_offset) == (-1, -1)
    assert end_of(0, current=4).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert end_of(0, partition=7).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


# ---- producer ids ----


@pytest.mark.parametrize("version", range(7))
def test_producer_ids_are_never_given_twice(client: WireClient, version: int) -> None:
    body = {"transactional_id": None, "transaction_timeout_ms": 60_000}
    answers = [client.call(22, version, body) for _ in range(3)]
    assert [answer.error_code for answer in answers] == [0, 0, 0]
    assert len({answer.producer_id for answer in answers}) == 3
    assert {answer.producer_epoch for answer in answers} == {0}


def test_producer_ids_go_on_over_blocks_and_restarts(tmp_path: Path) -> None:
    given = []
    body = {"transactional_id": None, "transaction_timeout_ms": 60_000}
    for _ in range(2):
        with LiveBroker(tmp_path) as live, live.client() as client:
            client.send_raw(b"".join(client.frame(22, 1, body) for _ in range(1_500)))
            given += [client.receive()[1].producer_id for _ in range(1_500)]
    assert len(set(given)) == len(given)
    assert given == sorted(given)


@pytest.mark.parametrize(
    "body",
    [
        {"transactional_id": "", "transaction_timeout_ms": 1},
        {"transactional_id": None, "transaction_timeout_ms": 1, "producer_id": 5, "producer_epoch": -1},
        {"transactional_id": None, "transaction_timeout_ms": 1, "producer_id": -1, "producer_epoch": 5},
    ],
)
def test_half_an_identity_is_refused(client: WireClient, body: dict[str, Any]) -> None:
    answer = client.call(22, 4, body)
    assert (answer.error_code, answer.producer_id) == (ErrorCode.INVALID_REQUEST, -1)


# ---- what is served ----


SOFTWARE = {"client_software_name": "test-client", "client_software_version": "1.0"}


@pytest.mark.parametrize("version", range(6))
def test_api_versions_are_those_of_the_routes_and_nothing_else(
    broker: LiveBroker, client: WireClient, version: int
) -> None:
    answer = client.call(18, version, SOFTWARE)
    said = [(each.api_key, each.min_version, each.max_version) for each in answer.api_keys]
    telemetry = {(71, 0, 0), (72, 0, 0)}  # listed only where somebody receives the metrics of clients
    assert said == [each for each in broker.broker.routes.ranges if each not in telemetry]
    assert {0: (0, 13), 1: (4, 18), 18: (0, 5)}.items() <= {key: (low, high) for key, low, high in said}.items()


@pytest.mark.parametrize("version", [3, 4])
def test_api_versions_offer_the_features_that_exist(broker: LiveBroker, client: WireClient, version: int) -> None:
    answer = client.call(18, version, SOFTWARE)
    found = {each.name: (each.min_version, each.max_version) for each in answer.supported_features}
    levels = {
        "transaction.version": (0, 2),
        "group.version": (0, 1),
        "share.version": (0, 2),
        "streams.version": (0, 1),
        "eligible.leader.replicas.version": (0, 1),
        "kraft.version": (0, 1),
    }
    from_level_0 = levels if version == 4 else {}
    assert found == {"metadata.version": (7, 33), **from_level_0}
    image = broker.node.metadata.image
    assert answer.finalized_features_epoch == image.offset
    delta = apply_records(image, [FeatureLevel("metadata.version", 15)], image.offset + 1)
    broker.on_data_plane(lambda: broker.node.metadata.publish(delta))
    answer = client.call(18, version, SOFTWARE)
    levels = [(each.name, each.min_version_level, each.max_version_level) for each in answer.finalized_features]
    new = {
        "eligible.leader.replicas.version": 1,
        "group.version": 1,
        "metadata.version": 15,
        "share.version": 2,
        "streams.version": 1,
        "transaction.version": 2,
    }
    assert sorted(levels) == [(name, level, level) for name, level in new.items()]
    assert answer.finalized_features_epoch == image.offset + 1


def test_every_served_version_can_be_decoded(broker: LiveBroker) -> None:
    from streamactors.broker.protocol.schema import known_versions

    for key, low, high in broker.broker.routes.ranges:
        known_low, known_high = known_versions(key)
        assert high <= known_high
        assert low >= (0 if key == 0 else known_low)


def test_an_unknown_version_of_api_versions_is_answered_in_version_0(broker: LiveBroker, client: WireClient) -> None:
    frame = bytearray(client.frame(18, 4, SOFTWARE))
    frame[6:8] = (99).to_bytes(2, "big")
    client.send_raw(bytes(frame))
    answer = client.read_frame()
    assert answer[4:] == (
        b"\x00\x23"  # UNSUPPORTED_VERSION
        b"\x00\x00\x00\x01\x00\x12\x00\x00\x00\x05"  # ApiVersions itself: 0 to 5
    )
    assert client.call(18, 0, {}).error_code == 0


def test_a_client_that_means_another_node_is_sent_to_its_bootstrap_servers(
    broker: LiveBroker, client: WireClient
) -> None:
    here = {**SOFTWARE, "cluster_id": broker.node.cluster_id, "node_id": broker.node.node_id}
    assert client.call(18, 5, here).error_code == 0
    assert client.call(18, 5, SOFTWARE).error_code == 0
    for other in ({"cluster_id": "another"}, {"node_id": 77}):
        answer = client.call(18, 5, {**here, **other})
        assert (answer.error_code, answer.api_keys) == (ErrorCode.REBOOTSTRAP_REQUIRED, ())
    for half in ({"cluster_id": None}, {"node_id": -1}):
        assert client.call(18, 5, {**here, **half}).error_code == ErrorCode.INVALID_REQUEST
    assert client.call(18, 5, here).error_code == 0


@pytest.mark.parametrize("name", ["", "-x", "a b", "x-", "ü"])
def test_an_illegal_client_software_name_is_an_invalid_request(client: WireClient, name: str) -> None:
    assert client.call(18, 3, {**SOFTWARE, "client_software_name": name}).error_code == ErrorCode.INVALID_REQUEST


def test_a_sasl_handshake_is_refused_on_a_plain_listener(client: WireClient, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(20):  # it tries again, many times a second
        assert client.call(17, 1, {"mechanism": "PLAIN"}).error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert caplog.text.count("log in by SASL PLAIN, but PLAINTEXT is a plain listener") == 1


def test_two_owners_of_a_key_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("api50_one.py", "api50_other.py"):
        (tmp_path / name).write_text("")
    monkeypatch.setattr(apis, "__path__", [*apis.__path__, str(tmp_path)])
    with pytest.raises(DuplicateApi, match=r"API key 50: .*api50_o.* both serve it"):
        Routes.of_package(apis)


def test_a_file_must_serve_the_key_in_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "api99_liar.py").write_text("from streamactors.broker.apis.api18_api_versions import API")
    monkeypatch.setattr(apis, "__path__", [*apis.__path__, str(tmp_path)])
    with pytest.raises(DuplicateApi, match="its name says 99"):
        Routes.of_package(apis).get(99)


def test_handlers_are_loaded_when_they_are_asked_for() -> None:
    routes = Routes({18: "no.such.module"}, [Api(3, (0, 1), anyone, lambda request: {})])
    assert routes.get(3) is not None
    assert routes.get(4) is None
    with pytest.raises(ModuleNotFoundError):
        routes.get(18)
