"""Names of the API keys, and the first version of each with flexible encoding (KIP-482).

Reading a request's header requires to know whether its version is flexible. This table saves the import of the message's schema,
which a frame of random bytes could cause. A test compares the table with the schemas."""

from __future__ import annotations

from typing import Final

from streamactors.broker.protocol.errors import UnsupportedVersion

API_VERSIONS: Final = 18
NEVER: Final = 1 << 15

_APIS: Final[dict[int, tuple[str, int]]] = {
    0: ("produce", 9),
    1: ("fetch", 12),
    2: ("list_offsets", 6),
    3: ("metadata", 9),
    8: ("offset_commit", 8),
    9: ("offset_fetch", 6),
    10: ("find_coordinator", 3),
    11: ("join_group", 6),
    12: ("heartbeat", 4),
    13: ("leave_group", 4),
    14: ("sync_group", 4),
    15: ("describe_groups", 5),
    16: ("list_groups", 3),
    17: ("sasl_handshake", NEVER),
    18: ("api_versions", 3),
    19: ("create_topics", 5),
    20: ("delete_topics", 4),
    21: ("delete_records", 2),
    22: ("init_producer_id", 2),
    23: ("offset_for_leader_epoch", 4),
    24: ("add_partitions_to_txn", 3),
    25: ("add_offsets_to_txn", 3),
    26: ("end_txn", 3),
    27: ("write_txn_markers", 1),
    28: ("txn_offset_commit", 3),
    29: ("describe_acls", 2),
    30: ("create_acls", 2),
    31: ("delete_acls", 2),
    32: ("describe_configs", 4),
    33: ("alter_configs", 2),
    34: ("alter_replica_log_dirs", 2),
    35: ("describe_log_dirs", 2),
    36: ("sasl_authenticate", 2),
    37: ("create_partitions", 2),
    38: ("create_delegation_token", 2),
    39: ("renew_delegation_token", 2),
    40: ("expire_delegation_token", 2),
    41: ("describe_delegation_token", 2),
    42: ("delete_groups", 2),
    43: ("elect_leaders", 2),
    44: ("incremental_alter_configs", 1),
    45: ("alter_partition_reassignments", 0),
    46: ("list_partition_reassignments", 0),
    47: ("offset_delete", NEVER),
    48: ("describe_client_quotas", 1),
    49: ("alter_client_quotas", 1),
    50: ("describe_user_scram_credentials", 0),
    51: ("alter_user_scram_credentials", 0),
    52: ("vote", 0),
    53: ("begin_quorum_epoch", 1),
    54: ("end_quorum_epoch", 1),
    55: ("describe_quorum", 0),
    56: ("alter_partition", 0),
    57: ("update_features", 0),
    58: ("envelope", 0),
    59: ("fetch_snapshot", 0),
    60: ("describe_cluster", 0),
    61: ("describe_producers", 0),
    62: ("broker_registration", 0),
    63: ("broker_heartbeat", 0),
    64: ("unregister_broker", 0),
    65: ("describe_transactions", 0),
    66: ("list_transactions", 0),
    67: ("allocate_producer_ids", 0),
    68: ("consumer_group_heartbeat", 0),
    69: ("consumer_group_describe", 0),
    70: ("controller_registration", 0),
    71: ("get_telemetry_subscriptions", 0),
    72: ("push_telemetry", 0),
    73: ("assign_replicas_to_dirs", 0),
    74: ("list_config_resources", 0),
    75: ("describe_topic_partitions", 0),
    76: ("share_group_heartbeat", 0),
    77: ("share_group_describe", 0),
    78: ("share_fetch", 0),
    79: ("share_acknowledge", 0),
    80: ("add_raft_voter", 0),
    81: ("remove_raft_voter", 0),
    82: ("update_raft_voter", 0),
    83: ("initialize_share_group_state", 0),
    84: ("read_share_group_state", 0),
    85: ("write_share_group_state", 0),
    86: ("delete_share_group_state", 0),
    87: ("read_share_group_state_summary", 0),
    88: ("streams_group_heartbeat", 0),
    89: ("streams_group_describe", 0),
    90: ("describe_share_group_offsets", 0),
    91: ("alter_share_group_offsets", 0),
    92: ("delete_share_group_offsets", 0),
    93: ("streams_group_topology_description_update", 0),
    94: ("unregister_controller", 0),
}

NAMES: Final = {key: name for key, (name, _) in _APIS.items()}
FIRST_FLEXIBLE: Final = {key: first for key, (_, first) in _APIS.items()}


def api_name(key: int) -> str:
    """Return the API's name in snake case. Raises UnsupportedVersion for a key Kafka does not define."""
    try:
        return NAMES[key]
    except KeyError:
        raise UnsupportedVersion(f"API key {key}: no such API; keys 0-3 and 8-94 are defined") from None


def is_flexible(key: int, version: int) -> bool:
    """Whether this version of a request has compact types and tagged fields; False for unknown keys."""
    return version >= FIRST_FLEXIBLE.get(key, NEVER)
