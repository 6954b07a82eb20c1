"""Topics, settings, records and folders administered over a real socket, in every version served.

The rules have tests of their own (controller/); here it is shown that requests reach them and answers come back whole.
"""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from streamactors.broker import Cluster
from streamactors.broker.errors import ErrorCode
from streamactors.broker.records.builder import build_batch
from streamactors.broker.records.record import NewRecord
from tests.broker.wire import WireClient

TOPIC, BROKER = 2, 4


def create(client: WireClient, version: int, name: str, *, validate_only: bool = False, **fields: Any) -> Any:
    topic = {"name": name, "num_partitions": 1, "replication_factor": 1, "assignments": (), "configs": (), **fields}
    answer = client.call(19, version, {"topics": [topic], "timeout_ms": 30_000, "validate_only": validate_only})
    return answer.topics[0]


def partitions_of(client: WireClient, name: str) -> int:
    body = {"topics": [{"name": name, "topic_id": None}], "allow_auto_topic_creation": False}
    return len(client.call(3, 12, body).topics[0].partitions)


def produce(client: WireClient, topic: str, count: int) -> None:
    batch = build_batch([NewRecord(None, str(n).encode(), 1_000 + n) for n in range(count)])
    body = {
        "acks": -1,
        "timeout_ms": 5_000,
        "topic_data": [{"name": topic, "partition_data": [{"index": 0, "records": bytes(batch)}]}],
    }
    assert client.call(0, 9, body).responses[0].partition_responses[0].error_code == 0


# --- CreateTopics, DeleteTopics, CreatePartitions ---


@pytest.mark.parametrize("version", range(2, 8))
def test_a_created_topic_can_be_written_to_when_the_answer_is_there(client: WireClient, version: int) -> None:
    name = f"created-v{version}"
    result = create(client, version, name, num_partitions=3, configs=[{"name": "retention.ms", "value": "5"}])
    assert result.error_code == 0
    assert partitions_of(client, name) == 3
    produce(client, name, 1)
    if version >= 5:
        assert (result.num_partitions, result.replication_factor) == (3, 1)
        told = {config.name: config for config in result.configs}
        assert (told["retention.ms"].value, told["retention.ms"].config_source) == ("5", 1)
        assert (told["segment.bytes"].value, told["segment.bytes"].config_source) == ("1073741824", 5)


def test_a_refused_topic_says_why(client: WireClient) -> None:
    result = create(client, 7, "bad", num_partitions=0)
    assert (result.error_code, result.error_message) == (
        ErrorCode.INVALID_PARTITIONS,
        "Number of partitions was set to an invalid non-positive value.",
    )


def test_validate_only_creates_nothing(client: WireClient) -> None:
    assert create(client, 7, "only-valid", validate_only=True).error_code == 0
    assert partitions_of(client, "only-valid") == 0


@pytest.mark.parametrize("version", range(1, 7))
def test_topics_are_deleted_with_everything_in_them(client: WireClient, topic: str, version: int) -> None:
    produce(client, topic, 3)
    if version < 6:
        body: dict[str, Any] = {"topic_names": [topic, "none"]}
    else:
        body = {"topics": [{"name": topic, "topic_id": None}, {"name": "none", "topic_id": None}]}
    answer = client.call(20, version, {**body, "timeout_ms": 1_000})
    assert [(r.name, r.error_code) for r in answer.responses] == [
        (topic, 0),
        ("none", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    assert partitions_of(client, topic) == 0
    assert create(client, 7, topic).error_code == 0
    produce(client, topic, 1)


def test_a_topic_is_deleted_by_id(client: WireClient, topic: str) -> None:
    topic_id = client.call(3, 12, {"topics": [{"name": topic, "topic_id": None}]}).topics[0].topic_id
    asked = [
        {"name": None, "topic_id": topic_id},
        {"name": None, "topic_id": uuid.uuid4()},
        {"name": "x", "topic_id": topic_id},
        {"name": None, "topic_id": None},
    ]
    responses = client.call(20, 6, {"topics": asked, "timeout_ms": 1_000}).responses
    assert [r.error_code for r in responses] == [0, ErrorCode.UNKNOWN_TOPIC_ID, 42, 42]
    assert responses[0].name == topic
    assert responses[2].error_message == "You may not specify both topic name and topic id."
    assert responses[3].error_message == "Neither topic name nor id were specified."


@pytest.mark.parametrize("version", range(4))
def test_a_topic_grows(client: WireClient, topic: str, version: int) -> None:
    grown = {"name": topic, "count": 4, "assignments": None}
    missing = {"name": "none", "count": 4, "assignments": None}
    answer = client.call(37, version, {"topics": [grown, missing], "timeout_ms": 1_000, "validate_only": False})
    assert [(r.name, r.error_code) for r in answer.results] == [(topic, 0), ("none", 3)]
    assert partitions_of(client, topic) == 4


# --- settings ---


def describe(client: WireClient, version: int, kind: int, name: str, keys: list[str] | None = None) -> Any:
    resource = {"resource_type": kind, "resource_name": name, "configuration_keys": keys}
    body = {"resources": [resource], "include_synonyms": True, "include_documentation": True}
    return client.call(32, version, body).results[0]


@pytest.mark.parametrize("version", range(1, 5))
def test_settings_are_described_with_synonyms_and_sources(client: WireClient, topic: str, version: int) -> None:
    result = describe(client, version, TOPIC, topic, ["segment.bytes", "no.such"])
    (config,) = result.configs
    assert (result.error_code, config.name, config.value, config.config_source) == (0, "segment.bytes", "1073741824", 5)
    assert [(s.name, s.value, s.source) for s in config.synonyms] == [("log.segment.bytes", "1073741824", 5)]
    if version >= 3:
        assert config.config_type == 3
        assert "segment" in config.documentation


def test_a_broker_and_a_topic_describe_all_their_settings(client: WireClient, topic: str) -> None:
    assert len(describe(client, 4, TOPIC, topic).configs) > 30
    broker = {config.name: config for config in describe(client, 4, BROKER, "1").configs}
    assert broker["auto.create.topics.enable"].read_only
    assert not broker["log.retention.ms"].read_only
    assert broker["group.initial.rebalance.delay.ms"].config_source == 4


@pytest.mark.parametrize(
    ("kind", "name", "code"),
    [(TOPIC, "none", 3), (TOPIC, "a b", 17), (BROKER, "2", 42), (BROKER, "x", 42), (BROKER, "", 0), (3, "x", 42)],
)
def test_a_resource_that_cannot_be_described_has_an_error_message(
    client: WireClient, kind: int, name: str, code: int
) -> None:
    assert describe(client, 4, kind, name).error_code == code


@pytest.mark.parametrize("version", range(2))
def test_single_settings_are_changed(client: WireClient, topic: str, version: int) -> None:
    changes = [
        {"name": "retention.ms", "config_operation": 0, "value": "77"},
        {"name": "cleanup.policy", "config_operation": 2, "value": "compact"},
    ]
    resource = {"resource_type": TOPIC, "resource_name": topic, "configs": changes}
    answer = client.call(44, version, {"resources": [resource], "validate_only": False})
    assert answer.responses[0].error_code == 0
    values = {c.name: c.value for c in describe(client, 4, TOPIC, topic).configs}
    assert (values["retention.ms"], values["cleanup.policy"]) == ("77", "delete,compact")


@pytest.mark.parametrize("version", range(3))
def test_all_settings_are_replaced(client: WireClient, topic: str, version: int) -> None:
    for name, value in (("retention.ms", "77"), ("segment.ms", "88")):
        resource = {"resource_type": TOPIC, "resource_name": topic, "configs": [{"name": name, "value": value}]}
        answer = client.call(33, version, {"resources": [resource], "validate_only": False})
        assert answer.responses[0].error_code == 0
    own = {c.name: c.value for c in describe(client, 4, TOPIC, topic).configs if c.config_source == 1}
    assert own == {"segment.ms": "88"}


def test_a_changed_setting_holds_for_the_next_record(client: WireClient, topic: str) -> None:
    changes = [{"name": "max.message.bytes", "config_operation": 0, "value": "10"}]
    resource = {"resource_type": TOPIC, "resource_name": topic, "configs": changes}
    client.call(44, 1, {"resources": [resource], "validate_only": False})
    body = {
        "acks": -1,
        "timeout_ms": 5_000,
        "topic_data": [
            {"name": topic, "partition_data": [{"index": 0, "records": bytes(build_batch([NewRecord(None, b"x")]))}]}
        ],
    }
    answer = client.call(0, 9, body).responses[0].partition_responses[0]
    assert answer.error_code == ErrorCode.MESSAGE_TOO_LARGE


def test_a_default_of_the_broker_changes_while_it_runs(client: WireClient, topic: str) -> None:
    def change(operation: int, value: str | None) -> None:
        changes = [{"name": "log.retention.ms", "config_operation": operation, "value": value}]
        resource = {"resource_type": BROKER, "resource_name": "", "configs": changes}
        assert client.call(44, 1, {"resources": [resource], "validate_only": False}).responses[0].error_code == 0

    change(0, "4711")
    (config,) = describe(client, 4, TOPIC, topic, ["retention.ms"]).configs
    assert (config.value, config.config_source) == ("4711", 3)
    # The other one is that of the cluster with eligible leader replicas, which every broker needs to be the same.
    assert {c.name for c in describe(client, 4, BROKER, "").configs} == {"log.retention.ms", "min.insync.replicas"}
    change(1, None)
    assert describe(client, 4, TOPIC, topic, ["retention.ms"]).configs[0].value == "604800000"


# --- records, folders, producers, ACLs ---


@pytest.mark.parametrize("version", range(3))
def test_records_before_an_offset_are_deleted(client: WireClient, topic: str, version: int) -> None:
    produce(client, topic, 10)

    def delete(name: str, partition: int, offset: int) -> tuple[int, int]:
        asked = {"name": name, "partitions": [{"partition_index": partition, "offset": offset}]}
        answer = client.call(21, version, {"topics": [asked], "timeout_ms": 1_000}).topics[0].partitions[0]
        return answer.error_code, answer.low_watermark

    assert delete(topic, 0, 4) == (0, 4)
    assert delete(topic, 0, 2) == (0, 4)
    assert delete(topic, 0, 11) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
    assert delete(topic, 0, -2) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
    assert delete(topic, 0, -1) == (0, 10)
    assert delete(topic, 9, 0) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)
    assert delete("none", 0, 0) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)
    earliest = {"topics": [{"name": topic, "partitions": [{"partition_index": 0, "timestamp": -2}]}], "replica_id": -1}
    assert client.call(2, 4, earliest).topics[0].partitions[0].offset == 10


def test_records_of_a_topic_that_is_only_compacted_are_not_deleted(client: WireClient) -> None:
    create(client, 7, "compacted", configs=[{"name": "cleanup.policy", "value": "compact"}])
    asked = {"name": "compacted", "partitions": [{"partition_index": 0, "offset": 0}]}
    answer = client.call(21, 2, {"topics": [asked], "timeout_ms": 1_000})
    assert answer.topics[0].partitions[0].error_code == ErrorCode.POLICY_VIOLATION


@pytest.mark.parametrize("version", range(1, 5))
def test_the_data_folder_is_described(cluster: Cluster, client: WireClient, topic: str, version: int) -> None:
    produce(client, topic, 10)
    body = {"topics": [{"topic": topic, "partitions": [0, 1, 7]}, {"topic": "none", "partitions": [0]}]}
    (folder,) = client.call(35, version, body).results
    assert (folder.error_code, folder.log_dir) == (0, str(cluster.data_folder))
    ((name, sizes),) = [(t.name, {p.partition_index: p.partition_size for p in t.partitions}) for t in folder.topics]
    assert name == topic
    assert sizes.keys() == {0, 1}
    assert sizes[0] > sizes[1] == 0
    if version >= 4:
        assert folder.total_bytes >= folder.usable_bytes > 0
    assert client.call(35, version, {"topics": []}).results[0].topics == ()
    everything = client.call(35, version, {"topics": None}).results[0].topics
    assert topic in {t.name for t in everything}


def test_producers_of_a_partition_are_described(client: WireClient, topic: str) -> None:
    batch = build_batch([NewRecord(None, b"x", 5)], producer_id=4711, producer_epoch=3, base_sequence=0)
    data = [{"name": topic, "partition_data": [{"index": 0, "records": bytes(batch)}]}]
    client.call(0, 9, {"acks": -1, "timeout_ms": 5_000, "topic_data": data})
    asked = [{"name": topic, "partition_indexes": [0, 1, 9]}, {"name": "none", "partition_indexes": [0]}]
    answer = client.call(61, 0, {"topics": asked})
    first, second, ninth = answer.topics[0].partitions
    assert [(p.producer_id, p.producer_epoch, p.last_sequence) for p in first.active_producers] == [(4711, 3, 0)]
    assert second.active_producers == ()
    assert ninth.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert answer.topics[1].partitions[0].error_message == "This server does not host this topic-partition."


@pytest.mark.parametrize("version", range(1, 4))
def test_acls_are_answered_as_without_an_authoriser(client: WireClient, version: int) -> None:
    acl = {
        "resource_type": 2,
        "resource_name": "t",
        "principal": "User:a",
        "host": "*",
        "operation": 3,
        "permission_type": 3,
    }
    pattern = {"resource_type_filter": 2, "operation": 1, "permission_type": 1}
    nulls = {"resource_name_filter": None, "principal_filter": None, "host_filter": None}
    assert client.call(29, version, {**pattern, **nulls}).error_code == ErrorCode.SECURITY_DISABLED
    created = client.call(30, version, {"creations": [acl, acl]}).results
    assert [r.error_code for r in created] == [ErrorCode.SECURITY_DISABLED] * 2
    deleted = client.call(31, version, {"filters": [{**pattern, **nulls}]}).filter_results
    assert [r.error_code for r in deleted] == [ErrorCode.SECURITY_DISABLED]


# --- what one broker can truthfully say about replicas, folders and voters ---


@pytest.mark.parametrize("version", range(3))
def test_no_election_is_needed_where_there_is_one_replica(client: WireClient, topic: str, version: int) -> None:
    asked = [{"topic": topic, "partitions": [0, 9]}, {"topic": "none", "partitions": [0]}]
    body: dict[str, Any] = {"topic_partitions": asked, "timeout_ms": 1_000}
    if version >= 1:
        body["election_type"] = 0
    here, missing = client.call(43, version, body).replica_election_results
    assert [(r.partition_id, r.error_code) for r in here.partition_result] == [(0, 84), (9, 3)]
    assert missing.partition_result[0].error_message == "No such topic as none"


def test_an_unknown_kind_of_election_is_refused(client: WireClient, topic: str) -> None:
    asked = [{"topic": topic, "partitions": [0]}]
    answer = client.call(43, 2, {"election_type": 7, "topic_partitions": asked, "timeout_ms": 1_000})
    assert answer.error_code == ErrorCode.INVALID_REQUEST
    assert answer.replica_election_results[0].partition_result[0].error_message == "Unknown election type 7"


@pytest.mark.parametrize("version", range(2))
@pytest.mark.parametrize(
    ("name", "number", "replicas", "code", "message"),
    [
        (None, 0, [1], 0, None),
        (None, 0, None, 85, None),
        ("none", 0, [1], 3, "Unable to find a topic named none."),
        (None, 9, [1], 3, "Unable to find partition TOPIC:9."),
        (None, 0, [2], 39, "The manual partition assignment includes broker 2, but no such broker is registered."),
        (None, 0, [], 39, "The manual partition assignment includes an empty replica list."),
    ],
)
def test_a_replica_can_only_stay_where_it_is(
    client: WireClient, topic: str, version: int, name: str | None, number: int, replicas: list[int] | None, code: int, message: str | None
) -> None:  # fmt: skip
    asked = [{"name": name or topic, "partitions": [{"partition_index": number, "replicas": replicas}]}]
    (answer,) = client.call(45, version, {"topics": asked, "timeout_ms": 1_000}).responses
    told = answer.partitions[0].error_message
    assert (answer.partitions[0].error_code, told) == (code, message and message.replace("TOPIC", topic))
    assert client.call(46, 0, {"topics": None, "timeout_ms": 1_000}).topics == ()


@pytest.mark.parametrize("version", [1, 2])
def test_a_replica_lies_in_the_one_folder(cluster: Cluster, client: WireClient, topic: str, version: int) -> None:
    here = {"path": str(cluster.data_folder), "topics": [{"name": topic, "partitions": [0, 9]}]}
    elsewhere = {"path": "/elsewhere", "topics": [{"name": topic, "partitions": [1]}]}
    (result,) = client.call(34, version, {"dirs": [here, elsewhere]}).results
    assert [(p.partition_index, p.error_code) for p in result.partitions] == [(0, 0), (9, 3), (1, 57)]


@pytest.mark.parametrize("version", range(3))
def test_this_node_is_the_only_voter(client: WireClient, topic: str, version: int) -> None:
    asked = [
        {"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]},
        {"topic_name": topic, "partitions": [{"partition_index": 0}]},
    ]
    metadata, other = client.call(55, version, {"topics": asked}).topics
    (partition,) = metadata.partitions
    (voter,) = partition.current_voters
    assert (partition.leader_id, voter.replica_id) == (1, 1)
    assert partition.high_watermark == voter.log_end_offset > 0
    assert other.partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_config_resources_are_listed(client: WireClient, topic: str) -> None:
    everything = client.call(74, 1, {"resource_types": ()}).config_resources
    assert {(4, "1"), (2, topic)} <= {(r.resource_type, r.resource_name) for r in everything}
    assert [r.resource_name for r in client.call(74, 1, {"resource_types": [4]}).config_resources] == ["1"]
    assert client.call(74, 0, {}).config_resources == ()
    for kind in (8, 16, 32):  # loggers, client metrics and groups: Kafka has them, and there are none here
        assert client.call(74, 1, {"resource_types": [kind]}).config_resources == ()
        assert client.call(74, 1, {"resource_types": [kind]}).error_code == 0
    for kind in (3, 7, 9, 15, 17, 31, 33):
        assert client.call(74, 1, {"resource_types": [kind]}).error_code == ErrorCode.UNSUPPORTED_VERSION
