"""Settings of every kind of resource, and topics whose own settings bind what may be written to them.

Played after `borderline_script`, to the same brokers. Topics: `edges`, and one for each setting that binds."""

from __future__ import annotations

import time
from typing import Any

from streamactors.broker.records.builder import build_batch
from streamactors.broker.records.record import NewRecord
from tests.differential.borderline_script import HOUR_MS, V, at_time, changed, produce
from tests.differential.request_script import (
    ALTER_CONFIGS,
    BROKER,
    DELETE_RECORDS,
    DELETE_TOPICS,
    DESCRIBE_CONFIGS,
    INCREMENTAL,
    LIST_OFFSETS,
    LOG_DIRS,
    METADATA,
    NOW_MS,
    PRODUCERS,
    TOPIC,
    UNKNOWN_ID,
    Step,
    batch,
    configured,
    create,
)

EDGES = "edges"
LOGGER, CLIENT_METRICS, GROUP = 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)
REPLICA_DIRS = 34
TRIMMED = (
    *(("compacted", offset) for offset in (1, -1)),
    *(("empty", offset) for offset in (-1, 0, 1)),
    *((name, 0) for name in ("__consumer_offsets", "__cluster_metadata", "", "a b")),
)
ONE_WITHOUT_A_KEY = bytes(build_batch([NewRecord(b"k", b"v", NOW_MS), NewRecord(None, b"v", NOW_MS)]))


def alter(
    label: str, *changes: tuple[str, int, str | None], kind: int = TOPIC, name: str = EDGES, really: bool = True
) -> Step:
    configs = [{"name": n, "config_operation": operation, "value": value} for n, operation, value in changes]
    resource = {"resource_type": kind, "resource_name": name, "configs": configs}
    return Step(f"edges: alter {label}", INCREMENTAL, 1, {"resources": [resource], "validate_only": not really})


def replace(label: str, *changes: tuple[str, str | None], kind: int = TOPIC, name: str = EDGES) -> Step:
    configs = [{"name": n, "value": value} for n, value in changes]
    resource = {"resource_type": kind, "resource_name": name, "configs": configs}
    return Step(f"edges: replace {label}", ALTER_CONFIGS, 2, {"resources": [resource], "validate_only": kind != TOPIC})


def describe(label: str, kind: int, name: str, *keys: str, **fields: Any) -> Step:
    resource = {"resource_type": kind, "resource_name": name, "configuration_keys": keys or None}
    body = {"resources": [resource], "include_synonyms": True, **fields}
    return Step(f"edges: describe {label}", DESCRIBE_CONFIGS, 4, body)


def offsets(label: str, topic: str, *timestamps: int, version: int = 8, replica: int = -1) -> Step:
    asked = [{"partition_index": 0, "timestamp": at} for at in timestamps]
    body = {"replica_id": replica, "topics": [{"name": topic, "partitions": asked}]}
    return Step(f"edges: offsets {label}", LIST_OFFSETS, version, body)


def trim(label: str, topic: str, *wanted: int, timeout_ms: int = 5_000) -> Step:
    asked = [{"partition_index": 0, "offset": offset} for offset in wanted]
    body = {"topics": [{"name": topic, "partitions": asked}], "timeout_ms": timeout_ms}
    return Step(f"edges: trim {label}", DELETE_RECORDS, 2, body)


def metadata(label: str, *topics: dict[str, Any], version: int = 12, create_it: bool = False) -> Step:
    return Step(
        f"edges: metadata {label}",
        METADATA,
        version,
        {"topics": list(topics), "allow_auto_topic_creation": create_it},
    )


def settings() -> list[Step]:
    """Lists that grow and shrink, kinds that are none, names that are none."""
    return [
        create(EDGES, validate_only=False, label="edges: create", num_partitions=2),
        describe("everything of a topic", TOPIC, EDGES),
        describe("everything of a topic, no synonyms", TOPIC, EDGES, include_synonyms=False),
        describe("one setting twice", TOPIC, EDGES, "retention.ms", "retention.ms"),
        describe("a logger", LOGGER, "1", "root"),
        describe("client metrics", CLIENT_METRICS, "none"),
        describe("a group", GROUP, "none"),
        describe("a broker of a number that is none", BROKER, "-1"),
        alter("append what is there", ("cleanup.policy", APPEND, "delete")),
        alter("append two", ("cleanup.policy", APPEND, "compact,delete")),
        describe("after appending", TOPIC, EDGES, "cleanup.policy"),
        alter("subtract what is not there", ("cleanup.policy", SUBTRACT, "foo")),
        alter("subtract all", ("cleanup.policy", SUBTRACT, "compact,delete")),
        describe("after subtracting", TOPIC, EDGES, "cleanup.policy"),
        alter("set to nothing", ("cleanup.policy", SET, "")),
        alter("set twice the same", ("cleanup.policy", SET, "compact,compact")),
        describe("after setting", TOPIC, EDGES, "cleanup.policy"),
        alter("append nothing", ("cleanup.policy", APPEND, "")),
        alter("append null", ("cleanup.policy", APPEND, None)),
        alter("delete with a value", ("cleanup.policy", DELETE, "x")),
        alter("set and delete", ("retention.ms", SET, "7"), ("retention.ms", DELETE, None)),
        alter("with spaces", ("retention.ms", SET, " 7 ")),
        describe("with spaces", TOPIC, EDGES, "retention.ms"),
        alter("a nameless setting", ("", SET, "7")),
        alter("a logger", ("root", SET, "INFO"), kind=LOGGER, name="1", really=False),
        alter("client metrics", ("interval.ms", SET, "5000"), kind=CLIENT_METRICS, name="m", really=False),
        alter("a group", ("consumer.session.timeout.ms", SET, "50000"), kind=GROUP, name="g", really=False),
        alter("of no kind", ("a", SET, "b"), kind=0, name="x", really=False),
        alter("the metadata", ("retention.ms", SET, "7"), name="__cluster_metadata", really=False),
        alter("a broker's list", ("log.cleanup.policy", APPEND, "compact"), kind=BROKER, name="1", really=False),
        alter("a broker's id", ("node.id", SET, "3"), kind=BROKER, name="1", really=False),
        replace("a bad value", ("retention.ms", "x")),
        replace("an unknown name", ("zz", "x")),
        replace("one twice", ("retention.ms", "5"), ("retention.ms", "6")),
        replace("a broker", ("log.retention.ms", "5"), kind=BROKER, name="1"),
        replace("a group", ("consumer.session.timeout.ms", "50000"), kind=GROUP, name="g"),
        replace("everything away"),
        describe("after replacing", TOPIC, EDGES, "cleanup.policy", "retention.ms", "segment.ms"),
    ]


def bound_topics() -> list[Step]:
    """Produce against a topic's cleanup.policy, max.message.bytes, message.timestamp.* and min.insync.replicas."""
    now_ms = int(time.time() * 1000)
    topics: dict[str, dict[str, str]] = {
        "compacted": {"cleanup_policy": "compact"},
        "small": {"max_message_bytes": "100"},
        "stamped": {"message_timestamp_type": "LogAppendTime"},
        "young": {"message_timestamp_before_max_ms": "60000", "message_timestamp_after_max_ms": "60000"},
        "strict": {"min_insync_replicas": "2"},
        "empty": {},
    }
    return [
        *(
            create(name, validate_only=False, label=f"edges: create {name}", configs=configured(**own))
            for name, own in topics.items()
        ),
        *(
            produce(f"one without a key to a compacted topic v{version}", ONE_WITHOUT_A_KEY, version, topic="compacted")
            for version in (5, 7, 9)
        ),
        produce("keys to a compacted topic", batch(b"a", b"b"), topic="compacted"),
        produce("nothing to a compacted topic", changed(57, bytes(4)), topic="compacted"),
        produce("too much for a small topic", batch(b"x" * 100), topic="small"),
        produce("little to a small topic", batch(b"x" * 10), topic="small"),
        produce("what will be stamped", batch(b"x"), topic="stamped"),
        offsets("of the stamped one that is newest", "stamped", -3),
        produce("what will be stamped, from the end of time", at_time(2**62), topic="stamped"),
        produce("what is too old", at_time(now_ms - HOUR_MS), topic="young"),
        produce("what is too old v7", at_time(now_ms - HOUR_MS), 7, topic="young"),
        produce("what is too young", at_time(now_ms + HOUR_MS), topic="young"),
        produce("what has no time to a young topic", at_time(-1), topic="young"),
        produce("where two replicas are asked for and one is there", batch(b"x"), topic="strict"),
        *(produce(f"to {name}", batch(b"x"), topic=name) for name in ("__consumer_offsets", "__cluster_metadata")),
        produce("with an id and no transaction", batch(b"x"), topic=EDGES, transactional_id="nobody"),
        produce(
            "to partitions that are and are not",
            b"",
            topic_data=[{"name": EDGES, "partition_data": [{"index": n, "records": batch(b"x")} for n in (0, 7, 1)]}],
        ),
        *(offsets(f"of the empty at {at}", "empty", at) for at in (-1, -2, -3, -4, 0, 5)),
        offsets("of one twice", EDGES, -1, -2),
        offsets("of no name", "", -1),
        offsets("for a replica", EDGES, -1, replica=5),
        offsets("for a debugger", EDGES, -1, replica=-2),
        *(trim(f"{topic!r} to {offset}", topic, offset) for topic, offset in TRIMMED),
        trim("one twice", EDGES, 1, 0),
        trim("in no time", "empty", 0, timeout_ms=0),
        trim("in less", "empty", 0, timeout_ms=-1),
    ]


def questions() -> list[Step]:
    """Empty lists, and topics by name and by id."""

    def by_id(name: str | None) -> Any:
        def body(seen: Any) -> dict[str, Any]:
            known = seen["edges: create"].topics[0].topic_id
            return {"topics": [{"name": name, "topic_id": known}], "allow_auto_topic_creation": False}

        return body

    return [
        Step("edges: folders of no partitions", LOG_DIRS, 4, {"topics": [{"topic": EDGES, "partitions": []}]}),
        Step("edges: producers of no partitions", PRODUCERS, 0, {"topics": [{"name": EDGES, "partition_indexes": []}]}),
        Step("edges: producers of nothing", PRODUCERS, 0, {"topics": []}),
        Step(
            "edges: producers of names that cannot be",
            PRODUCERS,
            0,
            {"topics": [{"name": name, "partition_indexes": [0]} for name in ("", "a b")]},
        ),
        metadata("of what may not be made", {"name": "unmade", "topic_id": None}),
        metadata(
            "of names that cannot be made",
            *({"name": name, "topic_id": None} for name in ("a b", ".", "", "x" * 250)),
            create_it=True,
        ),
        metadata("of an unknown id that may be made", {"name": None, "topic_id": UNKNOWN_ID}, create_it=True),
        *(Step(f"edges: metadata by id and {name}", METADATA, 12, by_id(name)) for name in (None, EDGES, V)),
        *(
            Step(f"edges: delete {name}", DELETE_TOPICS, 5, {"topic_names": [name], "timeout_ms": 5_000})
            for name in ("__consumer_offsets", "__cluster_metadata")
        ),
        Step("edges: delete two and none", DELETE_TOPICS, 5, {"topic_names": ["small", "none", "small"], "timeout_ms": 5_000}),
        Step(
            "edges: move to a folder that is none",
            REPLICA_DIRS,
            2,
            {"dirs": [{"path": "/none", "topics": [{"name": EDGES, "partitions": [0, 9]}, {"name": "none", "partitions": [0]}]}]},
        ),
    ]  # fmt: skip


SCRIPT = [*settings(), *bound_topics(), *questions()]
