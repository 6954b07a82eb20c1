"""The numbers of Kafka's formats: keys of records, positions in a batch, flags, offsets with a meaning. They are Apache Kafka's, and
clients, other brokers and stored logs have them; a change would be read by nobody else."""

from __future__ import annotations

import inspect
import uuid
from typing import Any

import pytest

from streamactors.broker.apis import api02_list_offsets
from streamactors.broker.config.describe import ConfigSource
from streamactors.broker.config.setting import SettingType
from streamactors.broker.controller import command, metadata_log
from streamactors.broker.controller.command import ConfigOperation
from streamactors.broker.group import group_record, offset_record
from streamactors.broker.log.folders import folder_ids
from streamactors.broker.log.partition import log_read
from streamactors.broker.metadata import image, metadata_record, security_record, transaction_record
from streamactors.broker.metadata.metadata_record import MetadataRecord
from streamactors.broker.protocol import encoding, fetch, metadata, primitives, produce, record_schema
from streamactors.broker.quorum import observer_state, voters_history
from streamactors.broker.quorum.raft import raft_wire
from streamactors.broker.records import compression, control, control_batch, header, varint
from streamactors.broker.replication import follower_request, replica_fetcher
from streamactors.broker.replication.sessions import fetch_session, session_cache
from streamactors.broker.security.first_users import _Pattern, _Permission
from streamactors.broker.security.protection import SecurityProtocol
from streamactors.broker.security.rights import Operation, ResourceType
from streamactors.broker.security.sasl import mechanism, scram
from streamactors.broker.transaction import transaction_record as transactional_id

RECORDS = {
    # name: (key, the version that is written, the newest version that can be read)
    "BrokerRegistration": (0, 3, 4),
    "UnregisterBroker": (1, 0, 0),
    "TopicRecord": (2, 0, 0),
    "PartitionRecord": (3, 1, 2),
    "ConfigRecord": (4, 0, 0),
    "PartitionChange": (5, 0, 2),
    "FenceBroker": (7, 0, 0),
    "UnfenceBroker": (8, 0, 0),
    "RemoveTopic": (9, 0, 0),
    "DelegationToken": (10, 0, 0),
    "UserScramCredential": (11, 0, 0),
    "FeatureLevel": (12, 0, 0),
    "ClientQuota": (14, 0, 0),
    "ProducerIdsRecord": (15, 0, 0),
    "BrokerRegistrationChange": (17, 0, 3),
    "AccessControlEntry": (18, 0, 0),
    "RemoveAccessControlEntry": (19, 0, 0),
    "NoOp": (20, 0, 0),
    "ZkMigrationState": (21, 0, 0),
    "RemoveUserScramCredential": (22, 0, 0),
    "BeginTransaction": (23, 0, 0),
    "EndTransaction": (24, 0, 0),
    "AbortTransaction": (25, 0, 0),
    "RemoveDelegationToken": (26, 0, 0),
    "ControllerRegistration": (27, 0, 0),
    "ClearElr": (28, 0, 0),
    "UnregisterController": (29, 0, 0),
}


def test_metadata_records_have_the_keys_and_versions_of_apache_kafka() -> None:
    found = {
        name: (kind.KEY, kind.VERSION, kind.NEWEST)
        for module in (metadata_record, security_record, transaction_record)
        for name, kind in inspect.getmembers(module, inspect.isclass)
        if issubclass(kind, MetadataRecord) and kind is not MetadataRecord
    }
    assert found == RECORDS
    assert (MetadataRecord.VERSION, MetadataRecord.NEWEST) == (0, 0)


DEFAULTS: dict[Any, dict[str, Any]] = {
    metadata_record.Endpoint: {"protocol": 0},
    metadata_record.BrokerRegistration: {
        "endpoints": (),
        "features": (),
        "rack": None,
        "fenced": False,
        "in_controlled_shutdown": False,
        "log_dirs": (),
        "migrating": False,
        "cordoned": None,
    },
    metadata_record.BrokerRegistrationChange: {
        "fenced": None,
        "in_controlled_shutdown": None,
        "log_dirs": None,
        "cordoned": None,
    },
    metadata_record.ControllerRegistration: {"zk_migration_ready": False, "endpoints": (), "features": ()},
    metadata_record.PartitionRecord: {
        "leader_epoch": 0,
        "partition_epoch": 0,
        "directories": (),
        "elr": (),
        "last_known_elr": (),
        "removing": (),
        "adding": (),
        "recovering": 0,
    },
    metadata_record.PartitionChange: dict.fromkeys(
        ["isr", "leader", "replicas", "removing", "adding", "recovering", "elr", "last_known_elr", "directories"]
    ),
    security_record.ClientQuota: {"remove": False},
    offset_record.CommittedOffset: {
        "leader_epoch": -1,
        "metadata": "",
        "committed_at_ms": -1,
        "expires_at_ms": -1,
        "record_offset": -1,
    },
    group_record._Value: {"state_since_ms": -1, "members": ()},
    group_record._Member: {"instance_id": None, "rebalance_timeout_ms": -1},
    transactional_id._Value: {
        "previous_producer_id": -1,
        "next_producer_id": -1,
        "client_version": 0,
        "next_producer_epoch": -1,
    },
}


@pytest.mark.parametrize("kind", DEFAULTS, ids=lambda kind: kind.__qualname__)
def test_a_field_that_an_old_version_lacks_has_the_default_of_the_format(kind: Any) -> None:
    parameters = inspect.signature(kind).parameters.values()
    assert {each.name: each.default for each in parameters if each.default is not each.empty} == DEFAULTS[kind]


def numbers(module: Any) -> dict[str, Any]:
    """Return the constants of a module that are numbers or identifiers, without those that it imports."""
    text = inspect.getsource(module)
    return {
        name: value
        for name, value in vars(module).items()
        if type(value) in (int, uuid.UUID) and f"\n{name}" in text and not name.startswith("__")
    }


NUMBERS: dict[Any, dict[str, Any]] = {
    header: {
        "HEADER_SIZE": 61,
        "LOG_OVERHEAD": 12,
        "MIN_LENGTH": 49,
        "MAGIC": 2,
        "MAGIC_AT": 16,
        "CRC_AT": 17,
        "ATTRIBUTES_AT": 21,
        "CODEC_MASK": 7,
        "LOG_APPEND_TIME": 8,
        "TRANSACTIONAL": 16,
        "CONTROL": 32,
        "DELETE_HORIZON": 64,
        "NO_TIMESTAMP": -1,
        "NO_PRODUCER_ID": -1,
        "NO_PRODUCER_EPOCH": -1,
        "NO_SEQUENCE": -1,
        "NO_LEADER_EPOCH": -1,
        "MAX_SEQUENCE": 2_147_483_647,
    },
    control: {"ABORT": 0, "COMMIT": 1},
    control_batch: {
        "LEADER_CHANGE": 2,
        "SNAPSHOT_HEADER": 3,
        "SNAPSHOT_FOOTER": 4,
        "KRAFT_VERSION": 5,
        "KRAFT_VOTERS": 6,
    },
    varint: {"MAX_VARINT_BYTES": 10},
    log_read: {
        "LATEST": -1,
        "EARLIEST": -2,
        "MAX_TIMESTAMP": -3,
        "EARLIEST_LOCAL": -4,
        "LATEST_TIERED": -5,
    },
    api02_list_offsets: {"_LATEST": -1, "_EARLIEST": -2, "_EARLIEST_PENDING_UPLOAD": -6},
    command: {"MAX_PARTITIONS_PER_REQUEST": 10_000, "PRODUCER_IDS_PER_BLOCK": 1_000},
    metadata_log: {"TOPIC_ID": uuid.UUID(int=1)},
    raft_wire: {"TOPIC_ID": uuid.UUID(int=1), "_NO_ID": uuid.UUID(int=0), "_NOBODY": -1},
    folder_ids: {"UNKNOWN_FOLDER": uuid.UUID(int=0), "UNASSIGNED_FOLDER": uuid.UUID(int=1)},
    group_record: {"KEY_VERSION": 2, "VALUE_VERSION": 3},
    offset_record: {"NO_EPOCH": -1, "NO_EXPIRY": -1},
    transactional_id: {"KEY_VERSION": 0, "VALUE_VERSION": 1},
    image: {"NO_LEADER": -1},
    metadata_record: {"TOPIC_RESOURCE": 2, "BROKER_RESOURCE": 4},
    primitives: {"MAX_ELEMENTS": 250_000, "MAX_STRING_BYTES": 65_535, "MAX_TAGGED_FIELDS": 127},
    record_schema: {"MAX_STRING_BYTES": 32_767},
    encoding: {"_LONGEST_ERROR_BYTES": 2_000},
    produce: {"FIRST_TRANSACTIONAL": 3, "FIRST_FLEXIBLE": 9, "FIRST_TOPIC_ID": 13},
    fetch: {
        "FIRST_FLEXIBLE": 12,
        "FIRST_TOPIC_ID": 13,
        "READ_COMMITTED": 1,
        "CONSUMER": -1,
        "NO_EPOCH": -1,
        "_REPLICA_STATE_TAG": 1,
    },
    metadata: {"METADATA": 3, "FIRST_FLEXIBLE": 9, "NOT_ASKED": -(2**31)},
    voters_history: {"BEFORE_THE_LOG": -1},
    follower_request: {
        "FETCH_KEY": 1,
        "SINCE_REPLICA_STATE": 15,
        "SINCE_HIGH_WATERMARK": 18,
        "NO_HIGH_WATERMARK": 2**63 - 1,
    },
    replica_fetcher: {"LATEST": -1, "EARLIEST": -2},
    fetch_session: {"FIRST_EPOCH": 1, "LAST_EPOCH": 2_147_483_647, "UNKNOWN": -1},
    session_cache: {"NO_SESSION": 0, "OPENS": 0, "ENDS": -1, "_LARGEST_ID": 2_147_483_647},
    mechanism: {"MIN_ITERATIONS": 4_096, "MAX_ITERATIONS": 16_384},
    compression: {"MAX_BATCH_BYTES": 134_217_728, "_LZ4_STORED": 1 << 31},
}


@pytest.mark.parametrize("module", NUMBERS, ids=lambda module: module.__name__.removeprefix("streamactors.broker."))
def test_a_constant_has_the_number_of_the_format(module: Any) -> None:
    found = numbers(module)
    assert {name: found[name] for name in NUMBERS[module]} == NUMBERS[module]


CODES: dict[Any, list[tuple[str, int]]] = {
    SettingType: [
        ("BOOLEAN", 1),
        ("STRING", 2),
        ("INT", 3),
        ("SHORT", 4),
        ("LONG", 5),
        ("DOUBLE", 6),
        ("LIST", 7),
        ("PASSWORD", 9),
    ],
    ConfigSource: [
        ("DYNAMIC_TOPIC", 1),
        ("DYNAMIC_BROKER", 2),
        ("DYNAMIC_DEFAULT_BROKER", 3),
        ("STATIC_BROKER", 4),
        ("DEFAULT", 5),
        ("CLIENT_METRICS", 7),
        ("GROUP", 8),
    ],
    ConfigOperation: [("SET", 0), ("DELETE", 1), ("APPEND", 2), ("SUBTRACT", 3)],
    SecurityProtocol: [("PLAINTEXT", 0), ("SSL", 1), ("SASL_PLAINTEXT", 2), ("SASL_SSL", 3)],
    compression.Compression: [("NONE", 0), ("GZIP", 1), ("SNAPPY", 2), ("LZ4", 3), ("ZSTD", 4)],
    _Pattern: [("LITERAL", 3), ("PREFIXED", 4)],
    _Permission: [("DENY", 2), ("ALLOW", 3)],
    ResourceType: [
        ("UNKNOWN", 0),
        ("ANY", 1),
        ("TOPIC", 2),
        ("GROUP", 3),
        ("CLUSTER", 4),
        ("TRANSACTIONAL_ID", 5),
        ("DELEGATION_TOKEN", 6),
        ("USER", 7),
    ],
    Operation: list(
        zip(
            [
                "UNKNOWN",
                "ANY",
                "ALL",
                "READ",
                "WRITE",
                "CREATE",
                "DELETE",
                "ALTER",
                "DESCRIBE",
                "CLUSTER_ACTION",
                "DESCRIBE_CONFIGS",
                "ALTER_CONFIGS",
                "IDEMPOTENT_WRITE",
                "CREATE_TOKENS",
                "DESCRIBE_TOKENS",
                "TWO_PHASE_COMMIT",
            ],
            range(16),
            strict=True,
        )
    ),
}


@pytest.mark.parametrize("kind", CODES, ids=lambda kind: kind.__name__)
def test_a_code_has_the_number_of_the_protocol(kind: Any) -> None:
    assert [(each.name, each.value) for each in kind] == CODES[kind]


def test_the_other_numbers_of_the_protocol() -> None:
    assert offset_record.KEY_VERSIONS == (0, 1)
    assert api02_list_offsets._FIRST_VERSION == {-3: 7, -4: 8, -5: 9, -6: 11}
    assert tuple(api02_list_offsets._NOTHING) == tuple(log_read.NOTHING_LISTED) == (-1, -1, -1)
    assert (observer_state.FIRST_BACKOFF_MS, observer_state.LAST_BACKOFF_MS) == (20.0, 1_000.0)
    assert [(each.name, each.code) for each in (scram.SHA_256, scram.SHA_512)] == [
        ("SCRAM-SHA-256", 1),
        ("SCRAM-SHA-512", 2),
    ]
