"""One request of each API that needs a right, and the users that send it: each has one right alone, or all but one.

The names of topics, groups and transactional ids begin with the letter of their kind, so that an entry for the prefix covers those that
one user's request consumes (the topic that it deletes, for example). The file is long because it has a request of every API."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from streamactors.broker.records.builder import build_batch
from streamactors.broker.records.record import NewRecord
from streamactors.broker.security.rights import ANY_PATTERN, LITERAL, PREFIXED, Operation, ResourceType

NOW_MS: Final = 1_700_000_000_000
ALLOW: Final = 3
DENY: Final = 2
ANY: Final = 1
OTHER: Final = "User:other"
NAMES: Final = {
    ResourceType.TOPIC: "t",
    ResourceType.GROUP: "g",
    ResourceType.CLUSTER: "kafka-cluster",
    ResourceType.TRANSACTIONAL_ID: "x",
    ResourceType.DELEGATION_TOKEN: "*",  # ids of tokens are random
    ResourceType.USER: OTHER,
}
BY_PREFIX: Final = (ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID)
_O = Operation
OPERATIONS: Final = {
    ResourceType.TOPIC: (
        *(_O.READ, _O.WRITE, _O.CREATE, _O.DELETE, _O.ALTER, _O.DESCRIBE, _O.DESCRIBE_CONFIGS, _O.ALTER_CONFIGS),
    ),
    ResourceType.GROUP: (_O.READ, _O.DELETE, _O.DESCRIBE, _O.DESCRIBE_CONFIGS, _O.ALTER_CONFIGS),
    ResourceType.CLUSTER: (
        *(_O.CREATE, _O.CLUSTER_ACTION, _O.DESCRIBE_CONFIGS, _O.ALTER_CONFIGS, _O.IDEMPOTENT_WRITE, _O.ALTER),
        _O.DESCRIBE,
    ),
    ResourceType.TRANSACTIONAL_ID: (_O.DESCRIBE, _O.WRITE),
    ResourceType.DELEGATION_TOKEN: (_O.DESCRIBE,),
    ResourceType.USER: (_O.CREATE_TOKENS, _O.DESCRIBE_TOKENS),
}
"""The operations that Kafka knows for each kind."""


class User(NamedTuple):
    """Who sends the requests, and the entries of this user: (kind, operation, ALLOW or DENY)."""

    name: str
    entries: tuple[tuple[ResourceType, Operation, int], ...]


EVERYTHING: Final = tuple((kind, Operation.ALL, ALLOW) for kind in NAMES)
_PAIRS: Final = [(kind, operation) for kind, found in OPERATIONS.items() for operation in found]


def _named(word: str, kind: ResourceType, operation: Operation) -> str:
    return f"{word}-{operation.name.lower()}-{kind.name.lower()}"


USERS: Final = [
    User("nobody", ()),
    User("all", EVERYTHING),
    *(User(_named("only", *pair), ((*pair, ALLOW),)) for pair in _PAIRS),
    *(User(_named("but", *pair), (*EVERYTHING, (*pair, DENY))) for pair in _PAIRS),
    *(
        User(_named("all-but", kind, Operation.ALL), tuple(each for each in EVERYTHING if each[0] != kind))
        for kind in NAMES
    ),
]


def creations(user: User) -> list[dict[str, Any]]:
    """Return the entries of a user as CreateAcls takes them."""
    return [
        {
            "resource_type": kind,
            "resource_name": NAMES[kind],
            "resource_pattern_type": PREFIXED if kind in BY_PREFIX else LITERAL,
            "principal": f"User:{user.name}",
            "host": "*",
            "operation": operation,
            "permission_type": permission,
        }
        for kind, operation, permission in user.entries
    ]


class Ask(NamedTuple):
    """A request. `body` takes the user's name and the id of topic t."""

    name: str
    key: int
    version: int
    body: Callable[[str, uuid.UUID], Mapping[str, Any]]


def _same(name: str, key: int, version: int, **body: Any) -> Ask:
    return Ask(name, key, version, lambda user, topic_id: body)


def _batch(**fields: Any) -> bytes:
    return bytes(build_batch([NewRecord(b"key", b"value", NOW_MS)], **fields))


def _produce(name: str, records: bytes, transactional_id: str | None = None) -> Ask:
    data = [{"name": topic, "partition_data": [{"index": 0, "records": records}]} for topic in ("t", "none")]
    return _same(
        *(name, 0, 9),
        transactional_id=transactional_id,
        acks=-1,
        timeout_ms=5_000,
        topic_data=data if not transactional_id else data[:1],
    )


def _fetch(name: str, replica: int) -> Ask:
    asked = {
        "partition": 0,
        "current_leader_epoch": -1,
        "fetch_offset": 0,
        "last_fetched_epoch": -1,
        "log_start_offset": -1,
        "partition_max_bytes": 1,
    }
    return _same(
        *(name, 1, 12),
        replica_id=replica,
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=1,
        isolation_level=0,
        session_id=0,
        session_epoch=-1,
        topics=[{"topic": "t", "partitions": [asked]}, {"topic": "none", "partitions": [asked]}],
        forgotten_topics_data=(),
        rack_id="",
    )


def _topics(*, key: str = "name", **partition: Any) -> list[dict[str, Any]]:
    """Return a partition of a topic that exists and one of a topic that is covered by no entry."""
    return [{key: name, "partitions": [partition]} for name in ("t", "none")]


_COMMITTED: Final = _topics(partition_index=0, committed_offset=1, committed_leader_epoch=-1, committed_metadata="")
_NUMBERED: Final = [{"name": name, "partition_indexes": (0,)} for name in ("t", "none")]
_ENDS: Final = _topics(key="topic", partition=0, current_leader_epoch=-1, leader_epoch=0)
_T_0: Final = [{"topic": "t", "partitions": (0,)}]
_NO_FILTER: Final = {
    "resource_type_filter": ANY,
    "resource_name_filter": "of nobody",
    "pattern_type_filter": ANY_PATTERN,
    "principal_filter": None,
    "host_filter": None,
    "operation": ANY,
    "permission_type": ANY,
}
_ENTRY: Final = {
    "resource_type": ResourceType.TOPIC,
    "resource_name": "of nobody",
    "resource_pattern_type": LITERAL,
    "principal": "User:nobody-at-all",
    "host": "*",
    "operation": Operation.READ,
    "permission_type": ALLOW,
}
_TOPIC, _BROKER, _METRICS, _GROUP = 2, 4, 16, 32


def _described(kind: int, name: str) -> dict[str, Any]:
    return {"resource_type": kind, "resource_name": name, "configuration_keys": ("retention.ms", "message.max.bytes")}


def _changes(**config: Any) -> list[dict[str, Any]]:
    wanted = ((_TOPIC, "t", "retention.ms"), (_TOPIC, "none", "retention.ms"), (_BROKER, "1", "log.cleaner.threads"))
    return [
        {"resource_type": kind, "resource_name": name, "configs": [{"name": setting, "value": "1", **config}]}
        for kind, name, setting in wanted
    ]


def _changed(kind: int, name: str, setting: str, value: str) -> dict[str, Any]:
    config = {"name": setting, "value": value, "config_operation": 0}
    return {"resource_type": kind, "resource_name": name, "configs": [config]}


_NO_MORE: Final = {"include_synonyms": False, "include_documentation": False}
_DESCRIBED: Final = {"include_authorized_operations": True, "include_topology_description": False}


def _new(name: str) -> dict[str, Any]:
    return {"name": name, "num_partitions": 1, "replication_factor": 1, "assignments": (), "configs": ()}


_MEMBER: Final = {"group_id": "g", "member_id": "nobody", "group_instance_id": None, "generation_id": 1}
_CONSUMER: Final = {
    "group_id": "g",
    "member_id": "nobody",
    "member_epoch": 5,
    "instance_id": None,
    "rack_id": None,
    "rebalance_timeout_ms": -1,
    "subscribed_topic_regex": None,
    "server_assignor": None,
    "topic_partitions": None,
}
_TRANSACTION: Final = {"transactional_id": "x", "producer_id": 4_000_000, "producer_epoch": 0}

_SHARING: Final = {"group_id": "g-sharing", "member_id": "nobody"}

_STREAMING: Final = {
    "endpoint_information_epoch": 0,
    "instance_id": None,
    "rack_id": None,
    "rebalance_timeout_ms": 60_000,
    "process_id": "p",
    "user_endpoint": None,
    "client_tags": [],
    "task_offsets": None,
    "task_end_offsets": None,
    "shutdown_application": False,
}


def joining_streams(member: str, group: str, *sources: str, changelog: str | None = None) -> dict[str, Any]:
    """Return the first heartbeat of a member of a streams group."""
    topic = {"name": changelog, "partitions": 0, "replication_factor": 1, "topic_configs": []}
    part = {
        "subtopology_id": "0",
        "source_topics": sources,
        "source_topic_regex": [],
        "state_changelog_topics": [topic] if changelog else [],
        "repartition_sink_topics": [],
        "repartition_source_topics": [],
        "copartition_groups": [],
    }
    tasks: dict[str, Any] = dict.fromkeys(("active_tasks", "standby_tasks", "warmup_tasks"), ())
    topology = {"epoch": 1, "subtopologies": [part]}
    return {
        **_STREAMING,
        **tasks,
        "group_id": group,
        "member_id": member,
        "member_epoch": 0,
        "topology": topology,
    }


def _of_states(name: str, key: int, version: int, **partition: Any) -> Ask:
    """Return a request about the stored state of a share partition whose topic does not exist."""
    topics = [{"topic_id": uuid.UUID(int=9), "partitions": [{"partition": 0, **partition}]}]
    return _same(name, key, version, group_id="g-shared", topics=topics)


ASKED: Final = [
    _produce("produce", _batch()),
    _produce(
        "produce in a transaction",
        _batch(producer_id=4_000_000, producer_epoch=0, base_sequence=0, transactional=True),
        "x",
    ),
    _fetch("fetch", -1),
    _fetch("fetch as a replica", 7),
    _same(
        "offsets",
        2,
        7,
        replica_id=-1,
        isolation_level=0,
        topics=_topics(partition_index=0, current_leader_epoch=-1, timestamp=-1),
    ),
    Ask(
        *("metadata", 3, 12),
        lambda user, topic_id: {
            "topics": [{"name": name, "topic_id": None} for name in ("t", "tmissing", "none")],
            "allow_auto_topic_creation": False,
            "include_topic_authorized_operations": True,
        },
    ),
    Ask(
        *("metadata by id", 3, 12),
        lambda user, topic_id: {
            "topics": [{"name": None, "topic_id": topic_id}],
            "allow_auto_topic_creation": False,
            "include_topic_authorized_operations": True,
        },
    ),
    _same(
        *("metadata of the cluster", 3, 9),
        topics=(),
        allow_auto_topic_creation=False,
        include_cluster_authorized_operations=True,
    ),
    Ask(
        *("commit", 8, 8),
        lambda user, topic_id: {
            "group_id": f"g-{user}",
            "generation_id_or_member_epoch": -1,
            "member_id": "",
            "topics": _COMMITTED,
        },
    ),
    _same("committed", 9, 8, groups=[{"group_id": name, "topics": _NUMBERED} for name in ("g", "none")]),
    _same("all committed", 9, 8, groups=[{"group_id": "g", "topics": None}]),
    _same("coordinators of groups", 10, 4, key_type=0, coordinator_keys=("g", "none")),
    _same("coordinators of transactions", 10, 4, key_type=1, coordinator_keys=("x", "none")),
    _same(
        *("join", 11, 9),
        group_id="g-joined",
        session_timeout_ms=30_000,
        rebalance_timeout_ms=30_000,
        member_id="nobody",
        protocol_type="consumer",
        protocols=[{"name": "range", "metadata": b""}],
    ),
    _same("heartbeat", 12, 4, **_MEMBER),
    _same("leave", 13, 5, group_id="g", members=[{"member_id": "nobody", "group_instance_id": None}]),
    _same("sync", 14, 5, **_MEMBER, protocol_type="consumer", protocol_name="range", assignments=()),
    _same("describe groups", 15, 5, groups=("g", "none"), include_authorized_operations=True),
    _same("list groups", 16, 5),
    _same("consumer heartbeat", 68, 1, **_CONSUMER, subscribed_topic_names=None),
    _same("consumer heartbeat with topics", 68, 1, **_CONSUMER, subscribed_topic_names=("t", "t2")),
    _same("describe consumer groups", 69, 1, group_ids=("g", "none"), include_authorized_operations=True),
    Ask(
        *("create topics", 19, 7),
        lambda user, topic_id: {
            "topics": [_new("t-new"), _new("none"), _new("t")],
            "timeout_ms": 5_000,
            "validate_only": True,
        },
    ),
    Ask(
        *("delete topics", 20, 6),
        lambda user, topic_id: {
            "topics": [{"name": name, "topic_id": None} for name in (f"t-gone-{user}", "tmissing", f"gone-{user}")],
            "timeout_ms": 5_000,
        },
    ),
    _same("delete records", 21, 2, topics=_topics(partition_index=0, offset=0), timeout_ms=5_000),
    _same("an id for a producer", 22, 4, transactional_id=None, transaction_timeout_ms=60_000),
    Ask(
        *("an id for a transaction", 22, 4),
        lambda user, topic_id: {"transactional_id": f"x-{user}", "transaction_timeout_ms": 60_000},
    ),
    _same("ends of epochs", 23, 4, replica_id=-2, topics=_ENDS),
    _same("ends of epochs for a replica", 23, 4, replica_id=7, topics=_ENDS),
    _same(
        *("partitions to a transaction", 24, 3),
        v3_and_below_transactional_id="x",
        v3_and_below_producer_id=4_000_000,
        v3_and_below_producer_epoch=0,
        v3_and_below_topics=[{"name": name, "partitions": (0,)} for name in ("t", "tmissing")],
    ),
    _same(
        *("partitions to transactions of brokers", 24, 5),
        transactions=[{**_TRANSACTION, "verify_only": True, "topics": [{"name": "t", "partitions": (0,)}]}],
    ),
    _same("offsets to a transaction", 25, 3, **_TRANSACTION, group_id="g"),
    _same("end a transaction", 26, 3, **_TRANSACTION, committed=True),
    _same(
        *("markers", 27, 1),
        markers=[
            {
                "producer_id": 4_000_000,
                "producer_epoch": 0,
                "transaction_result": True,
                "coordinator_epoch": 0,
                "topics": [{"name": "t", "partition_indexes": (7,)}],
            }
        ],
    ),
    _same("commit in a transaction", 28, 3, **_TRANSACTION, group_id="g", topics=_COMMITTED),
    _same("describe entries", 29, 3, **_NO_FILTER),
    _same("create entries", 30, 3, creations=[_ENTRY]),
    _same("delete entries", 31, 3, filters=[{**_NO_FILTER, "resource_name_filter": "of nobody else"}]),
    _same(
        *("describe settings", 32, 4),
        resources=[
            _described(_TOPIC, "t"),
            _described(_TOPIC, "none"),
            _described(_BROKER, "1"),
            _described(_TOPIC, "tmissing"),
        ],
        include_synonyms=False,
        include_documentation=False,
    ),
    _same("replace settings", 33, 2, resources=_changes(), validate_only=True),
    _same("move between folders", 34, 2, dirs=[{"path": "/none", "topics": [{"name": "t", "partitions": (0,)}]}]),
    _same("folders", 35, 4, topics=_T_0),
    _same(
        *("add partitions", 37, 3),
        topics=[{"name": name, "count": 5, "assignments": None} for name in ("t", "tmissing", "none")],
        timeout_ms=5_000,
        validate_only=True,
    ),
    _same("a token", 38, 3, owner_principal_type="", owner_principal_name="", renewers=(), max_lifetime_ms=-1),
    _same(
        "a token for another",
        38,
        3,
        owner_principal_type="User",
        owner_principal_name="other",
        renewers=(),
        max_lifetime_ms=-1,
    ),
    _same("renew a token", 39, 2, hmac=b"none", renew_period_ms=-1),
    _same("end a token", 40, 2, hmac=b"none", expiry_time_period_ms=-1),
    _same("tokens", 41, 3, owners=None),
    _same("delete groups", 42, 2, groups_names=("g-missing", "none")),
    _same("elect", 43, 2, election_type=0, topic_partitions=_T_0, timeout_ms=5_000),
    _same("change settings", 44, 1, resources=_changes(config_operation=0), validate_only=True),
    _same(
        *("reassign", 45, 1),
        timeout_ms=5_000,
        topics=[{"name": "t", "partitions": [{"partition_index": 0, "replicas": None}]}],
    ),
    _same("reassignments", 46, 0, timeout_ms=5_000, topics=None),
    _same("delete offsets", 47, 0, group_id="g", topics=_topics(partition_index=0)),
    _same("quotas", 48, 1, components=(), strict=False),
    _same(
        *("change quotas", 49, 1),
        entries=[
            {
                "entity": [{"entity_type": "user", "entity_name": "other"}],
                "ops": [{"key": "producer_byte_rate", "value": 1e9, "remove": False}],
            }
        ],
        validate_only=True,
    ),
    _same("users", 50, 0, users=[{"name": "other"}]),
    _same("change users", 51, 0, deletions=[{"name": "other", "mechanism": 1}], upsertions=()),
    _same("the quorum", 55, 2, topics=[{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]),
    _same(
        *("change features", 57, 2),
        timeout_ms=5_000,
        feature_updates=[{"feature": "none", "max_version_level": 1, "upgrade_type": 1}],
        validate_only=True,
    ),
    _same(
        "the cluster", 60, 2, include_cluster_authorized_operations=True, endpoint_type=1, include_fenced_brokers=False
    ),
    _same("producers", 61, 0, topics=[{"name": name, "partition_indexes": (0,)} for name in ("t", "tmissing", "none")]),
    _same("unregister", 64, 0, broker_id=99),
    _same("describe transactions", 65, 0, transactional_ids=("x", "x-all", "none")),
    _same("list transactions", 66, 1),
    _same("resources with settings", 74, 0),
    _same(
        *("partitions of topics", 75, 0),
        topics=[{"name": name} for name in ("none", "t", "tmissing")],
        response_partition_limit=100,
        cursor=None,
    ),
    _same(
        *("add a voter", 80, 0),
        cluster_id="another",
        timeout_ms=5_000,
        voter_id=9,
        voter_directory_id=uuid.UUID(int=9),
        listeners=[{"name": "CONTROLLER", "host": "localhost", "port": 9}],
    ),
    _same("remove a voter", 81, 0, cluster_id="another", voter_id=9, voter_directory_id=uuid.UUID(int=9)),
    _same("coordinators of share partitions", 10, 6, key_type=2, coordinator_keys=("g:none", "none")),
    _same("beat in a share group", 76, 1, **_SHARING, member_epoch=4, rack_id=None, subscribed_topic_names=("t",)),
    _same("beat for a topic", 76, 1, **_SHARING, member_epoch=4, rack_id=None, subscribed_topic_names=("none",)),
    _same("describe share groups", 77, 1, group_ids=("g-missing", "none"), include_authorized_operations=True),
    _same(
        *("share fetch", 78, 2),
        **_SHARING,
        share_session_epoch=4,
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=1,
        max_records=1,
        batch_size=1,
        share_acquire_mode=0,
        is_renew_ack=False,
        topics=(),
        forgotten_topics_data=(),
    ),
    _same("share acknowledge", 79, 2, **_SHARING, share_session_epoch=4, is_renew_ack=False, topics=()),
    _of_states("begin a share partition", 83, 0, state_epoch=0, start_offset=0),
    _of_states("take a share partition over", 84, 0, leader_epoch=0),
    _of_states("write a share partition", 85, 1, state_epoch=0, leader_epoch=0, start_offset=0, state_batches=()),
    _of_states("forget a share partition", 86, 0),
    _of_states("look at a share partition", 87, 1, leader_epoch=0),
    _same(
        *("offsets of share groups", 90, 1),
        groups=[
            {"group_id": name, "topics": [{"topic_name": topic, "partitions": (0,)} for topic in ("tmissing", "none")]}
            for name in ("g", "none")
        ],
    ),
    _same(
        *("set offsets of a share group", 91, 0),
        group_id="g-empty",
        topics=[
            {"topic_name": topic, "partitions": [{"partition_index": 0, "start_offset": 0}]}
            for topic in ("tmissing", "none")
        ],
    ),
    _same("delete offsets of a share group", 92, 0, group_id="g-missing", topics=[{"topic_name": "t"}]),
    # both create the changelog if they may: in a group and a topic of the user's own
    Ask(
        *("join a streams group", 88, 1),
        lambda user, topic_id: joining_streams("m", f"g-streams-{user}", "t", changelog=f"t-log-{user}"),
    ),
    Ask(
        *("join a streams group with another topic", 88, 1),
        lambda user, topic_id: joining_streams("m", f"g-other-{user}", "t", "none"),
    ),
    Ask(
        *("join a streams group with a changelog of another's", 88, 1),
        lambda user, topic_id: joining_streams("m", f"g-log-{user}", "t", changelog=f"none-log-{user}"),
    ),
    _same("describe streams groups", 89, 1, **_DESCRIBED, group_ids=("g-streams", "g-both", "g-missing", "none")),
    _same(
        *("describe a topology", 93, 0),
        group_id="g",
        member_id="nobody",
        topology_epoch=1,
        topology_description={"subtopologies": (), "global_stores": ()},
    ),
    _same("unregister a controller", 94, 0, controller_id=99),
    _same("what to push", 71, 0, client_instance_id=uuid.UUID(int=0)),
    Ask(
        *("push what nobody asked for", 72, 0),
        lambda user, topic_id: {
            "client_instance_id": uuid.uuid5(topic_id, user),
            "subscription_id": 1,
            "terminating": False,
            "compression_type": 0,
            "metrics": b"",
        },
    ),
    _same("resources with settings of some kinds", 74, 1, resource_types=(_BROKER, _METRICS, _GROUP)),
    _same(
        "settings of groups and metrics",
        32,
        4,
        **_NO_MORE,
        resources=[
            _described(_GROUP, "g"),
            _described(_GROUP, "none"),
            _described(_METRICS, "m"),
        ],
    ),
    _same(
        "change settings of groups and metrics",
        44,
        1,
        resources=[
            _changed(_GROUP, "g", "consumer.session.timeout.ms", "50000"),
            _changed(_GROUP, "none", "consumer.session.timeout.ms", "50000"),
            _changed(_METRICS, "m", "interval.ms", "1000"),
        ],
        validate_only=True,
    ),
]
