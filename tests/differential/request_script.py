"""About a hundred requests, valid, invalid and on the edge, in the order in which they are sent to one broker after the other.

A body may be a function of the answers so far, for ids that a broker has given out.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from streamactors.broker.records.builder import build_batch
from streamactors.broker.records.compression import Compression
from streamactors.broker.records.record import NewRecord

PRODUCE, FETCH, LIST_OFFSETS, METADATA = 0, 1, 2, 3
FIND_COORDINATOR, API_VERSIONS, CREATE_TOPICS, DELETE_TOPICS = 10, 18, 19, 20
DELETE_RECORDS, INIT_PRODUCER_ID, EPOCH_END = 21, 22, 23
DESCRIBE_CONFIGS, ALTER_CONFIGS, LOG_DIRS, CREATE_PARTITIONS = 32, 33, 35, 37
ELECT, INCREMENTAL, REASSIGN, LIST_REASSIGN, QUORUM = 43, 44, 45, 46, 55
CLUSTER, PRODUCERS, LIST_RESOURCES, TOPIC_PARTITIONS = 60, 61, 74, 75
TOPIC, BROKER = 2, 4

NOW_MS = 1_700_000_000_000
UNKNOWN_ID = uuid.UUID("0f9c1f3e-8f3b-4a7e-9a58-2f1d7c1b7a11")

Seen = Mapping[str, Any]
Body = Mapping[str, Any] | Callable[[Seen], Mapping[str, Any]]


class Step(NamedTuple):
    """One request. `name` is how a difference in its answer is listed."""

    name: str
    key: int
    version: int
    body: Body


def create(name: str, version: int = 7, *, validate_only: bool = True, label: str = "", **fields: Any) -> Step:
    topic = {"name": name, "num_partitions": 1, "replication_factor": 1, "assignments": (), "configs": (), **fields}
    body = {"topics": [topic], "timeout_ms": 30_000, "validate_only": validate_only}
    return Step(label or f"create v{version} {name!r} {fields}", CREATE_TOPICS, version, body)


def configured(**settings: str) -> list[dict[str, str]]:
    return [{"name": name.replace("_", "."), "value": value} for name, value in settings.items()]


def placed(*replicas: tuple[int, list[int]]) -> dict[str, Any]:
    assigned = [{"partition_index": number, "broker_ids": brokers} for number, brokers in replicas]
    return {"num_partitions": -1, "replication_factor": -1, "assignments": assigned}


def batch(*values: bytes, **fields: Any) -> bytes:
    records = [NewRecord(b"key", value, NOW_MS + number) for number, value in enumerate(values)]
    return bytes(build_batch(records, **fields))


def produce(
    label: str, topic: str, records: bytes | None, *, version: int = 9, acks: int = -1, partition: int = 0
) -> Step:
    data = [{"name": topic, "partition_data": [{"index": partition, "records": records}]}]
    body = {"transactional_id": None, "acks": acks, "timeout_ms": 5_000, "topic_data": data}
    return Step(f"produce {label}", PRODUCE, version, body)


def fetch(label: str, topic: str, offset: int, *, version: int = 12, partition: int = 0, **fields: Any) -> Step:
    asked = {
        "partition": partition,
        "current_leader_epoch": -1,
        "fetch_offset": offset,
        "last_fetched_epoch": -1,
        "log_start_offset": -1,
        "partition_max_bytes": 1 << 20,
        **{name: value for name, value in fields.items() if name in ("current_leader_epoch", "partition_max_bytes")},
    }
    body = {
        "replica_id": -1,
        "max_wait_ms": 0,
        "min_bytes": 1,
        "max_bytes": 1 << 20,
        "isolation_level": fields.get("isolation_level", 0),
        "session_id": 0,
        "session_epoch": -1,
        "topics": [{"topic": topic, "partitions": [asked]}],
        "forgotten_topics_data": (),
        "rack_id": "",
    }
    return Step(f"fetch {label}", FETCH, version, body)


def offsets(label: str, topic: str, timestamp: int, *, version: int = 7, partition: int = 0, epoch: int = -1) -> Step:
    asked = {"partition_index": partition, "current_leader_epoch": epoch, "timestamp": timestamp}
    body = {"replica_id": -1, "isolation_level": 0, "topics": [{"name": topic, "partitions": [asked]}]}
    return Step(f"offsets {label}", LIST_OFFSETS, version, body)


def metadata(label: str, *topics: tuple[str | None, uuid.UUID | None], version: int = 12, **fields: Any) -> Step:
    named = [{"name": name, "topic_id": topic_id} for name, topic_id in topics]
    body = {"topics": named, "allow_auto_topic_creation": False, **fields}
    return Step(f"metadata {label}", METADATA, version, body)


def alter(
    label: str, *changes: tuple[str, int, str | None], kind: int = TOPIC, name: str = "t", really: bool = False
) -> Step:
    configs = [{"name": n, "config_operation": operation, "value": value} for n, operation, value in changes]
    resource = {"resource_type": kind, "resource_name": name, "configs": configs}
    return Step(f"alter {label}", INCREMENTAL, 1, {"resources": [resource], "validate_only": not really})


def replace(label: str, *changes: tuple[str, str | None], name: str = "t", really: bool = False) -> Step:
    configs = [{"name": n, "value": value} for n, value in changes]
    resource = {"resource_type": TOPIC, "resource_name": name, "configs": configs}
    return Step(f"replace {label}", ALTER_CONFIGS, 2, {"resources": [resource], "validate_only": not really})


def describe(label: str, kind: int, name: str, *keys: str) -> Step:
    resource = {"resource_type": kind, "resource_name": name, "configuration_keys": keys or None}
    body = {"resources": [resource], "include_synonyms": True, "include_documentation": False}
    return Step(f"describe {label}", DESCRIBE_CONFIGS, 4, body)


def grow(label: str, name: str, count: int, assignment: list[list[int]] | None = None, *, really: bool = False) -> Step:
    assigned = None if assignment is None else [{"broker_ids": brokers} for brokers in assignment]
    body = {
        "topics": [{"name": name, "count": count, "assignments": assigned}],
        "timeout_ms": 5_000,
        "validate_only": not really,
    }
    return Step(f"grow {label}", CREATE_PARTITIONS, 3, body)


def delete(label: str, *topics: tuple[str | None, uuid.UUID | None]) -> Step:
    body = {"topics": [{"name": name, "topic_id": topic_id} for name, topic_id in topics], "timeout_ms": 5_000}
    return Step(f"delete {label}", DELETE_TOPICS, 6, body)


def trim(label: str, topic: str, offset: int, partition: int = 0) -> Step:
    asked = {"name": topic, "partitions": [{"partition_index": partition, "offset": offset}]}
    return Step(f"trim {label}", DELETE_RECORDS, 2, {"topics": [asked], "timeout_ms": 5_000})


def topic_steps() -> list[Step]:
    """Creating topics."""
    names = ("", ".", "..", "a b", "ä", "a/b", "x" * 249, "x" * 250, "null", "__cluster_metadata", "__consumer_offsets")
    counts = (0, -1, -2, 10_001)
    factors = (0, -1, -2, 2, 32_767)
    settings: list[dict[str, str]] = [
        {"retention_ms": "abc"}, {"retention_ms": "-2"}, {"retention_ms": ""}, {"retention_ms": " 5 "},
        {"segment_bytes": "1"}, {"segment_bytes": "99999999999"}, {"cleanup_policy": ""}, {"cleanup_policy": "foo"},
        {"cleanup_policy": "compact, delete"}, {"compression_type": "foo"}, {"compression_type": "gzip"},
        {"foo": "bar"}, {"preallocate": "yes"}, {"preallocate": "TRUE"}, {"min_cleanable_dirty_ratio": "1.5"},
        {"message_timestamp_type": "foo"}, {"min_insync_replicas": "0"}, {"min_insync_replicas": "5"},
        {"max_compaction_lag_ms": "0"}, {"min_compaction_lag_ms": "100", "max_compaction_lag_ms": "50"},
        {"flush_ms": "1e3"}, {"flush_messages": "+5"}, {"remote_storage_enable": "true"},
        {"compression_gzip_level": "0"}, {"leader_replication_throttled_replicas": "0:1"},
    ]  # fmt: skip
    placements = (
        placed((0, [1]), (1, [1])), placed((0, [1]), (2, [1])), placed((1, [1])), placed((0, [1]), (0, [1])),
        placed((0, [1, 1])), placed((0, [2])), placed((0, [])), placed((0, [-1])),
        {**placed((0, [1])), "num_partitions": 1}, {**placed((0, [1])), "replication_factor": 1},
    )  # fmt: skip
    return [
        create("t", validate_only=False, num_partitions=2, label="create t"),
        create("dots.and", validate_only=False, label="create dots.and"),
        create("t", label="create what is there"),
        create("dots_and", label="create what collides"),
        *(create(name) for name in names),
        *(create("n", num_partitions=count) for count in counts),
        *(create("n", replication_factor=factor) for factor in factors),
        *(create("n", **placement) for placement in placements),
        *(create("n", configs=configured(**each), label=f"create with {each}") for each in settings),
        create("n", configs=[{"name": "retention.ms", "value": None}], label="create with a null setting"),
        Step(
            "create one name twice",
            CREATE_TOPICS,
            7,
            {
                "topics": [
                    {"name": name, "num_partitions": 1, "replication_factor": 1, "assignments": (), "configs": ()}
                    for name in ("d", "d", "e")
                ],
                "timeout_ms": 5_000,
                "validate_only": True,
            },
        ),
        *(create("n", version, num_partitions=1, label=f"create v{version}") for version in range(2, 8)),
    ]


def data_steps() -> list[Step]:
    """Producing, fetching, offsets, deleting records."""
    first = batch(b"a", b"b", b"c")
    broken = bytearray(first)
    broken[-1] ^= 0xFF
    idempotent = batch(b"i", producer_id=4711, producer_epoch=0, base_sequence=0)
    return [
        produce("a batch", "t", first),
        produce("a batch v3", "t", first, version=3),
        produce("gzip", "t", batch(b"z" * 100, compression=Compression.GZIP)),
        produce("zstd in a version that has it not", "t", batch(b"z", compression=Compression.ZSTD), version=6),
        produce("a broken CRC", "t", bytes(broken)),
        produce("half a batch", "t", first[:40]),
        produce("no bytes", "t", b""),
        produce("null", "t", None),
        produce("two batches at once", "t", first + first),
        produce("to an unknown topic", "none", first),
        produce("to an unknown partition", "t", first, partition=9),
        produce("with acks=2", "t", first, acks=2),
        produce("with acks=1", "t", first, acks=1),
        produce("to a name that cannot be", "a b", first),
        produce("idempotent", "t", idempotent),
        produce("idempotent again", "t", idempotent),
        produce("idempotent with a gap", "t", batch(b"i", producer_id=4711, producer_epoch=0, base_sequence=7)),
        produce("idempotent with an older epoch", "t", batch(b"i", producer_id=4712, producer_epoch=3, base_sequence=0)),
        produce("idempotent, fenced", "t", batch(b"i", producer_id=4712, producer_epoch=2, base_sequence=0)),
        fetch("from the start", "t", 0, partition_max_bytes=1),
        fetch("v4", "t", 0, version=4, partition_max_bytes=1),
        fetch("at the end", "t", 12),
        fetch("beyond the end", "t", 99),
        fetch("before the start", "t", -5),
        fetch("an unknown topic", "none", 0),
        fetch("an unknown partition", "t", 0, partition=9),
        fetch("with an older epoch", "t", 0, current_leader_epoch=-5),
        fetch("with a newer epoch", "t", 0, current_leader_epoch=9),
        fetch("read committed", "t", 0, isolation_level=1, partition_max_bytes=1),
        *(offsets(f"at {timestamp}", "t", timestamp) for timestamp in (-1, -2, -3, -7, 0, NOW_MS + 1, NOW_MS + 10**9)),
        offsets("of an unknown topic", "none", -1),
        offsets("of an unknown partition", "t", -1, partition=9),
        offsets("with a newer epoch", "t", -1, epoch=9),
        Step("producers", PRODUCERS, 0, {"topics": [{"name": "t", "partition_indexes": [0, 1, 9]}, {"name": "none", "partition_indexes": [0]}]}),
        *(trim(f"to {offset}", "t", offset) for offset in (0, 2, 1, 99, -2)),
        trim("an unknown partition", "t", 0, 9),
        trim("an unknown topic", "none", 0),
        offsets("after trimming", "t", -2),
        fetch("what was trimmed", "t", 0),
        trim("to the end", "t", -1),
    ]  # fmt: skip


def admin_steps() -> list[Step]:
    """Settings, partitions, folders, the cluster, deleting."""
    return [
        describe("a topic's setting", TOPIC, "t", "segment.bytes", "retention.ms", "cleanup.policy", "zz"),
        describe("an unknown topic", TOPIC, "none"),
        describe("a name that cannot be", TOPIC, "a b"),
        describe("a broker's settings", BROKER, "1", "num.partitions", "log.segment.bytes", "compression.type"),
        describe("another broker", BROKER, "2"),
        describe("no broker", BROKER, "x"),
        alter("a setting", ("retention.ms", 0, "5")),
        alter("a bad value", ("retention.ms", 0, "x")),
        alter("an unknown setting", ("zz", 0, "x")),
        alter("null", ("retention.ms", 0, None)),
        alter("away", ("retention.ms", 1, None)),
        alter("an unknown one away", ("zz", 1, None)),
        alter("append", ("cleanup.policy", 2, "compact")),
        alter("append to no list", ("retention.ms", 2, "3")),
        alter("subtract", ("cleanup.policy", 3, "delete")),
        alter("an unknown operation", ("retention.ms", 9, "3")),
        alter("one setting twice", ("retention.ms", 0, "3"), ("retention.ms", 0, "4")),
        alter("nothing"),
        alter("an unknown topic", ("retention.ms", 0, "3"), name="none"),
        alter("no topic", ("retention.ms", 0, "3"), name=""),
        alter("a conflict", ("min.compaction.lag.ms", 0, "100"), ("max.compaction.lag.ms", 0, "10")),
        alter("a broker", ("log.retention.ms", 0, "5"), kind=BROKER, name="1"),
        alter("a broker's fixed setting", ("num.partitions", 0, "5"), kind=BROKER, name="1"),
        alter("all brokers", ("log.retention.ms", 0, "5"), kind=BROKER, name=""),
        alter("a broker's unknown setting", ("zz", 0, "5"), kind=BROKER, name="1"),
        alter("a broker's bad value", ("log.retention.ms", 0, "x"), kind=BROKER, name="1"),
        alter("another broker", ("log.retention.ms", 0, "5"), kind=BROKER, name="2"),
        alter("no broker", ("log.retention.ms", 0, "5"), kind=BROKER, name="x"),
        alter("an unknown type", ("a", 0, "b"), kind=3, name="x"),
        alter("really", ("retention.ms", 0, "77"), ("cleanup.policy", 2, "compact"), really=True),
        describe("what was altered", TOPIC, "t", "retention.ms", "cleanup.policy"),
        replace("with null", ("retention.ms", None)),
        replace("an unknown topic", ("retention.ms", "5"), name="none"),
        replace("really", ("segment.ms", "88"), really=True),
        describe("what was replaced", TOPIC, "t", "retention.ms", "cleanup.policy", "segment.ms"),
        *(grow(f"to {count}", "t", count) for count in (3, 2, 1, 0, -1, 20_000)),
        grow("an unknown topic", "none", 3),
        *(
            grow(f"to {count} with {assignment}", "t", count, assignment)
            for count, assignment in ((3, [[1]]), (4, [[1]]), (3, [[1], [1]]), (3, [[2]]), (3, [[1, 1]]), (3, [[]]), (3, []))
        ),
        grow("really", "t", 3, really=True),
        metadata("of a topic", ("t", None)),
        metadata("of names that are not there", ("none", None), ("a b", None)),
        metadata("of one name twice", ("t", None), ("t", None)),
        metadata("of an unknown id", (None, UNKNOWN_ID)),
        metadata("of nothing"),
        metadata("of neither name nor id", (None, None)),
        metadata("v0", ("t", None), version=0),
        metadata("v1", ("t", None), version=1),
        metadata("v13", ("t", None), version=13),
        metadata(
            "with operations",
            ("t", None),
            version=10,
            include_cluster_authorized_operations=True,
            include_topic_authorized_operations=True,
        ),
        Step("partitions, one a page", TOPIC_PARTITIONS, 0, {"topics": [{"name": n} for n in ("t", "none", "a b")], "response_partition_limit": 1, "cursor": None}),
        Step("partitions from a cursor", TOPIC_PARTITIONS, 0, {"topics": [{"name": "t"}, {"name": "zz"}], "response_partition_limit": 1, "cursor": {"topic_name": "t", "partition_index": 2}}),
        Step("partitions from a bad cursor", TOPIC_PARTITIONS, 0, {"topics": [{"name": "t"}], "response_partition_limit": 1, "cursor": {"topic_name": "t", "partition_index": -1}}),
        Step("cluster", CLUSTER, 2, {"include_cluster_authorized_operations": True, "endpoint_type": 1, "include_fenced_brokers": False}),
        Step("cluster of controllers", CLUSTER, 1, {"include_cluster_authorized_operations": True, "endpoint_type": 2}),
        Step("cluster of an unknown type", CLUSTER, 1, {"include_cluster_authorized_operations": True, "endpoint_type": 3}),
        Step("folders", LOG_DIRS, 4, {"topics": [{"topic": "t", "partitions": [0, 1, 7]}, {"topic": "none", "partitions": [0]}]}),
        Step("no folders", LOG_DIRS, 4, {"topics": []}),
        Step("election", ELECT, 2, {"election_type": 0, "topic_partitions": [{"topic": "t", "partitions": [0, 9]}, {"topic": "none", "partitions": [0]}], "timeout_ms": 5_000}),
        Step("election of an unknown type", ELECT, 2, {"election_type": 7, "topic_partitions": [{"topic": "t", "partitions": [0]}], "timeout_ms": 5_000}),
        *(
            Step(f"reassign {name} {number} {replicas}", REASSIGN, 0, {"topics": [{"name": name, "partitions": [{"partition_index": number, "replicas": replicas}]}], "timeout_ms": 5_000})
            for name, number, replicas in (("t", 0, [1]), ("t", 0, None), ("none", 0, [1]), ("t", 9, [1]), ("t", 0, [2]), ("t", 0, [1, 1]), ("t", 0, []))
        ),
        Step("reassignments", LIST_REASSIGN, 0, {"topics": None, "timeout_ms": 5_000}),
        Step("quorum", QUORUM, 1, {"topics": [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]}),
        Step("quorum of a topic", QUORUM, 2, {"topics": [{"topic_name": "t", "partitions": [{"partition_index": 0}]}]}),
        Step("resources", LIST_RESOURCES, 1, {"resource_types": [TOPIC, BROKER]}),
        Step("resources of an unknown type", LIST_RESOURCES, 1, {"resource_types": [3]}),
        Step("ACLs", 29, 3, {"resource_type_filter": 1, "resource_name_filter": None, "pattern_type_filter": 1, "principal_filter": None, "host_filter": None, "operation": 1, "permission_type": 1}),
        Step("new ACL", 30, 3, {"creations": [{"resource_type": 2, "resource_name": "t", "principal": "User:a", "host": "*", "operation": 3, "permission_type": 3}]}),
        Step("epoch", EPOCH_END, 4, {"replica_id": -1, "topics": [{"topic": "t", "partitions": [{"partition": 0, "current_leader_epoch": -1, "leader_epoch": 0}, {"partition": 0, "current_leader_epoch": 9, "leader_epoch": 0}, {"partition": 9, "current_leader_epoch": -1, "leader_epoch": 0}]}]}),
        delete("unknown", ("none", None)),
        delete("an unknown id", (None, UNKNOWN_ID)),
        delete("by both", ("t", UNKNOWN_ID)),
        delete("by neither", (None, None)),
        delete("one name twice", ("t", None), ("t", None)),
        delete("nothing"),
        Step("delete by id", DELETE_TOPICS, 6, lambda seen: {"topics": [{"name": None, "topic_id": seen["metadata of a topic"].topics[0].topic_id}], "timeout_ms": 5_000}),
        metadata("of what is gone", ("t", None)),
    ]  # fmt: skip


SCRIPT = [*topic_steps(), *data_steps(), *admin_steps()]
assert len({step.name for step in SCRIPT}) == len(SCRIPT)
