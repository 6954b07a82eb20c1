"""Every version of the APIs that concern topics and records, and values on the edge of what a field may hold.

Played after `request_script`, to the same brokers. Topics: `v`, and what its steps make."""

from __future__ import annotations

import struct
import time
from typing import Any

from crc32c import crc32c

from streamactors.broker.records.builder import build_batch
from streamactors.broker.records.compression import Compression
from streamactors.broker.records.record import NewRecord
from tests.differential.request_script import (
    ALTER_CONFIGS,
    BROKER,
    CLUSTER,
    CREATE_PARTITIONS,
    CREATE_TOPICS,
    DELETE_RECORDS,
    DELETE_TOPICS,
    DESCRIBE_CONFIGS,
    ELECT,
    EPOCH_END,
    FETCH,
    INCREMENTAL,
    INIT_PRODUCER_ID,
    LIST_OFFSETS,
    LIST_RESOURCES,
    LOG_DIRS,
    METADATA,
    PRODUCE,
    PRODUCERS,
    QUORUM,
    TOPIC,
    TOPIC_PARTITIONS,
    UNKNOWN_ID,
    Seen,
    Step,
    batch,
    create,
    metadata,
)

V = "v"
HOUR_MS = 3_600_000
TWICE = [{"name": V, "partition_data": [{"index": 0, "records": batch(value)} for value in (b"x", b"y")]}]


def id_of_v(seen: Seen) -> Any:
    return seen["metadata of v"].topics[0].topic_id


def produce(
    label: str, records: bytes | None, version: int = 9, *, topic: Any = V, index: int = 0, **fields: Any
) -> Step:
    def body(seen: Seen) -> dict[str, Any]:
        named = {"name": topic} if version < 13 else {"topic_id": id_of_v(seen) if topic == V else topic}
        data = [{**named, "partition_data": [{"index": index, "records": records}]}]
        return {"transactional_id": None, "acks": -1, "timeout_ms": 5_000, "topic_data": data, **fields}

    return Step(f"produce {label}", PRODUCE, version, body)


def fetch(label: str, version: int = 12, *, topic: Any = V, partition: Any = None, **fields: Any) -> Step:
    def body(seen: Seen) -> dict[str, Any]:
        named = {"topic": topic} if version < 13 else {"topic_id": id_of_v(seen) if topic == V else topic}
        asked = {
            "partition": 0,
            "current_leader_epoch": -1,
            "fetch_offset": 0,
            "last_fetched_epoch": -1,
            "log_start_offset": -1,
            "partition_max_bytes": 1,
            **(partition or {}),
        }
        whole = {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 1 << 20, "session_id": 0, "session_epoch": -1}
        return {**whole, "replica_id": -1, "topics": [{**named, "partitions": [asked]}], "rack_id": "", **fields}

    return Step(f"fetch {label}", FETCH, version, body)


def offsets(label: str, version: int, timestamp: int, **fields: Any) -> Step:
    asked = {"partition_index": 0, "current_leader_epoch": -1, "timestamp": timestamp}
    body = {"replica_id": -1, "isolation_level": 0, "topics": [{"name": V, "partitions": [asked]}], **fields}
    return Step(f"offsets {label}", LIST_OFFSETS, version, body)


def new_producer(label: str, version: int, transactional_id: str | None = None) -> Step:
    body = {"transactional_id": transactional_id, "transaction_timeout_ms": 1_000}
    return Step(f"new producer {label}", INIT_PRODUCER_ID, version, body)


def changed(position: int, value: bytes, records: bytes | None = None) -> bytes:
    """A batch with one field changed, and a CRC that is right again."""
    whole = records or batch(b"a", b"b")
    lying = whole[:position] + value + whole[position + len(value) :]
    return lying[:17] + struct.pack(">I", crc32c(lying[21:])) + lying[21:]


def attributes(value: int) -> bytes:
    return changed(21, struct.pack(">h", value))


def at_time(timestamp: int) -> bytes:
    return bytes(build_batch([NewRecord(b"key", b"late", timestamp)]))


def versions() -> list[Step]:
    """The plainest request of every API in every version that both brokers serve."""
    topic_v = [{"name": V, "topic_id": None}]
    one = {"name": V, "partitions": [{"partition_index": 0, "offset": 0}]}
    configs = [{"name": "retention.ms", "value": "5"}]
    return [
        metadata("of v", (V, None)),
        *(produce(f"v v{n}", batch(b"version"), n) for n in range(3, 14)),
        *(fetch(f"v v{n}", n) for n in range(4, 18)),
        *(offsets(f"v v{n} at {at}", n, at) for n in range(1, 11) for at in (-1, -2)),
        *(offsets(f"v v{n} at -3", n, -3) for n in (6, 7, 10)),
        *(offsets(f"v v{n} at -4", n, -4) for n in (7, 8, 10)),
        *(offsets(f"v v{n} at -5", n, -5) for n in (8, 9, 10)),
        *(Step(f"metadata v v{n}", METADATA, n, {"topics": topic_v}) for n in range(2, 13)),
        *(Step(f"delete v{n}", DELETE_TOPICS, n, {"topic_names": ["none"], "timeout_ms": 5_000}) for n in range(1, 6)),
        *(Step(f"trim v{n}", DELETE_RECORDS, n, {"topics": [one], "timeout_ms": 5_000}) for n in range(3)),
        *(new_producer(f"v{n}", n) for n in range(6)),
        *(
            Step(f"epoch v{n}", EPOCH_END, n, {"replica_id": -1, "topics": [{"topic": V, "partitions": [{"partition": 0, "current_leader_epoch": -1, "leader_epoch": 0}]}]})
            for n in range(2, 5)
        ),
        *(
            Step(f"describe v{n}", DESCRIBE_CONFIGS, n, {"resources": [{"resource_type": TOPIC, "resource_name": V, "configuration_keys": ["retention.ms"]}], "include_synonyms": True})
            for n in range(1, 5)
        ),
        *(
            Step(f"replace v{n}", ALTER_CONFIGS, n, {"resources": [{"resource_type": TOPIC, "resource_name": V, "configs": configs}], "validate_only": True})
            for n in range(3)
        ),
        *(
            Step(f"alter v{n}", INCREMENTAL, n, {"resources": [{"resource_type": TOPIC, "resource_name": V, "configs": [{**configs[0], "config_operation": 0}]}], "validate_only": True})
            for n in range(2)
        ),
        *(
            Step(f"grow v{n}", CREATE_PARTITIONS, n, {"topics": [{"name": V, "count": 2, "assignments": None}], "timeout_ms": 5_000, "validate_only": True})
            for n in range(4)
        ),
        *(Step(f"folders v{n}", LOG_DIRS, n, {"topics": [{"topic": V, "partitions": [0]}]}) for n in range(1, 5)),
        *(
            Step(f"election v{n}", ELECT, n, {"election_type": 0, "topic_partitions": [{"topic": V, "partitions": [0]}], "timeout_ms": 5_000})
            for n in range(3)
        ),
        *(
            Step(f"cluster v{n}", CLUSTER, n, {"include_cluster_authorized_operations": False, "endpoint_type": 1})
            for n in range(3)
        ),
        *(
            Step(f"ACLs v{n}", 29, n, {"resource_type_filter": 2, "resource_name_filter": "x", "pattern_type_filter": 3, "operation": 1, "permission_type": 1})
            for n in range(1, 4)
        ),
        *(Step(f"no ACL less v{n}", 31, n, {"filters": []}) for n in range(1, 4)),
        Step("quorum v0", QUORUM, 0, {"topics": [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]}),
        Step("resources v0", LIST_RESOURCES, 0, {}),
    ]  # fmt: skip


def record_steps() -> list[Step]:
    """Batches that are not what their headers say, and limits of produce and fetch requests."""
    return [
        *(produce(f"with acks {acks}", batch(b"x"), acks=acks) for acks in (-2, 2, 32_767, -32_768)),
        *(produce(f"within {ms} ms", batch(b"x"), timeout_ms=ms) for ms in (0, -1, 2**31 - 1)),
        produce("to partition -1", batch(b"x"), index=-1),
        produce("to no topic", b"", topic_data=[]),
        produce("to a topic without partitions", b"", topic_data=[{"name": V, "partition_data": []}]),
        produce("to an empty name", batch(b"x"), topic=""),
        produce("to an unknown id", batch(b"x"), 13, topic=UNKNOWN_ID),
        produce("of format 1", changed(16, b"\x01")),
        produce("of format 3", changed(16, b"\x03")),
        produce("with a base offset", changed(0, struct.pack(">q", 77))),
        produce("with a leader epoch", changed(12, struct.pack(">i", 77))),
        *(produce(f"with attributes {bits}", attributes(bits)) for bits in (0x10, 0x20, 0x30, 0x40, 0x80, 5, 7)),
        *(produce(f"of length {size}", changed(8, struct.pack(">i", size))) for size in (0, -1, 48, 49, 2**31 - 1)),
        *(produce(f"with last delta {delta}", changed(23, struct.pack(">i", delta))) for delta in (0, 2, -1, 2**31 - 1)),
        *(produce(f"of {count} records", changed(57, struct.pack(">i", count))) for count in (0, 1, 3, -1, 2**31 - 1)),
        *(
            produce(f"of producer {producer} epoch {epoch} from {sequence}", changed(43, struct.pack(">qhi", producer, epoch, sequence)))
            for producer, epoch, sequence in ((5, -1, 0), (5, 0, -1), (-2, 0, 0), (-1, 3, 4), (6, 32_767, 2**31 - 1))
        ),
        produce("a batch of nothing", changed(57, struct.pack(">i", 0), changed(8, struct.pack(">i", 49), batch(b"a")[:61]))),
        produce("from the far future", at_time(int(time.time() * 1000) + 2 * HOUR_MS)),
        produce("from the beginning of time", at_time(0)),
        produce("without a time", at_time(-1)),
        produce("more than a message may be", batch(b"x" * 1_100_000)),
        *(fetch(f"waiting {ms} ms", max_wait_ms=ms) for ms in (-1, -(2**31))),
        *(fetch(f"at least {size}", min_bytes=size) for size in (0, -1)),
        *(fetch(f"at most {size}", max_bytes=size) for size in (0, -1, 1)),
        *(fetch(f"at most {size} of a partition", partition={"partition_max_bytes": size}) for size in (0, -1, 2**31 - 1)),
        *(fetch(f"at isolation {level}", isolation_level=level) for level in (1, 2, -1)),
        *(fetch(f"from {at}", partition={"fetch_offset": at}) for at in (-1, -(2**63), 2**63 - 1)),
        fetch("partition -1", partition={"partition": -1}),
        fetch("nothing", topics=[]),
        fetch("an unknown id", 13, topic=UNKNOWN_ID),
        fetch("with an epoch of the past", partition={"last_fetched_epoch": 0}),
        fetch("with an epoch of the future", partition={"last_fetched_epoch": 9}),
        *(
            fetch(f"in session {number} epoch {epoch}", session_id=number, session_epoch=epoch)
            for number, epoch in ((-1, -1), (77, -1), (77, 3), (0, 1))
        ),
        *(offsets(f"at isolation {level}", 7, -1, isolation_level=level) for level in (1, 2)),
        *(offsets(f"at {at} on the edge", 7, at) for at in (-6, -8, -(2**63), 2**63 - 1)),
        offsets("of nothing", 7, -1, topics=[]),
        Step("producers of v", PRODUCERS, 0, {"topics": [{"name": V, "partition_indexes": [-1]}]}),
    ]  # fmt: skip


def admin_steps() -> list[Step]:
    """Empty lists, empty names, unknown kinds."""

    def described(label: str, kind: int, name: str) -> Step:
        resource = {"resource_type": kind, "resource_name": name, "configuration_keys": ["retention.ms"]}
        return Step(f"describe {label}", DESCRIBE_CONFIGS, 4, {"resources": [resource], "include_synonyms": True})

    return [
        Step("create nothing", CREATE_TOPICS, 7, {"topics": [], "timeout_ms": 5_000, "validate_only": False}),
        create("deadline", label="create in no time", validate_only=True, num_partitions=1),
        create("n", configs=[{"name": "", "value": "x"}], label="create with a nameless setting"),
        create("n", configs=[{"name": "retention.ms", "value": "1"}] * 2, label="create with one setting twice"),
        create("n", num_partitions=-(2**31), label="create with the least partitions"),
        create("\u00e9" * 10, label="create with a name beyond ASCII"),
        create("a\tb", label="create with a tab"),
        described("no topic", TOPIC, ""),
        described("no kind", 0, V),
        described("an unknown kind", 99, V),
        described("all brokers", BROKER, ""),
        Step("describe nothing", DESCRIBE_CONFIGS, 4, {"resources": []}),
        Step("alter nothing at all", INCREMENTAL, 1, {"resources": [], "validate_only": False}),
        Step("replace nothing at all", ALTER_CONFIGS, 2, {"resources": [], "validate_only": False}),
        Step("grow nothing", CREATE_PARTITIONS, 3, {"topics": [], "timeout_ms": 5_000, "validate_only": False}),
        Step("grow one name twice", CREATE_PARTITIONS, 3, {"topics": [{"name": V, "count": n, "assignments": None} for n in (2, 3)], "timeout_ms": 5_000, "validate_only": True}),
        Step("trim nothing", DELETE_RECORDS, 2, {"topics": [], "timeout_ms": 5_000}),
        Step("elect nothing", ELECT, 2, {"election_type": 0, "topic_partitions": [], "timeout_ms": 5_000}),
        Step("elect everywhere, unclean", ELECT, 2, {"election_type": 1, "topic_partitions": [{"topic": V, "partitions": [0]}], "timeout_ms": 5_000}),
        Step("partitions of nothing, none a page", TOPIC_PARTITIONS, 0, {"topics": [], "response_partition_limit": 0, "cursor": None}),
        Step("epoch of nothing", EPOCH_END, 4, {"replica_id": -1, "topics": []}),
        new_producer("with an empty id", 4, ""),
        Step("delete nothing by name", DELETE_TOPICS, 5, {"topic_names": [], "timeout_ms": 5_000}),
        Step("delete names that cannot be", DELETE_TOPICS, 5, {"topic_names": ["", "a b", "x" * 300], "timeout_ms": 5_000}),
        Step("metadata of everything v12", METADATA, 12, {"topics": None, "allow_auto_topic_creation": False}),
        Step("metadata of everything v0", METADATA, 0, {"topics": []}),
    ]  # fmt: skip


# Apache Kafka answers before a topic can be written to, and asks to try again while it gets its first producer ids.
FIRST = [create(V, validate_only=False, label="create v"), new_producer("the first", 4)]
# what leaves more behind in one of the logs than in the other
LAST = [
    produce("to one partition twice", b"", topic_data=TWICE),
    produce(
        "gzip with a wrong codec", changed(21, struct.pack(">h", 3), batch(b"z" * 100, compression=Compression.GZIP))
    ),
    produce("with attributes 8", attributes(0x08)),
]
SCRIPT = [*versions(), *record_steps(), *admin_steps(), *LAST]
