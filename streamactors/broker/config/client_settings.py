"""Settings for clients: connections, requests and purgatories, consumer groups and their offsets, transactions.

Owner: the network layer and the coordinators. Names and defaults: Apache Kafka's broker configs; settings that Kafka does not
have say so.
"""

from __future__ import annotations

from streamactors.broker.config.checks import HOSTS_WITH_NUMBERS, at_least, between, each_of, one_of
from streamactors.broker.config.declare import boolean, integer, long, text, words
from streamactors.broker.config.setting import INT_MAX, Settings


class NetworkSettings(Settings):
    """Limits of connections and requests."""

    __slots__ = ()

    connections_max_idle_ms = long(
        600_000, "Close a connection that has been silent for this time; a negative value means never."
    )
    fetch_max_bytes = integer(57_671_680, "Most bytes of records in one fetch response.", at_least(1024))
    fetch_purgatory_purge_interval_requests = integer(
        1000, "Completed fetch requests that trigger a purge of the purgatory."
    )
    max_connections = integer(INT_MAX, "Most connections at one time.", at_least(0), dynamic=True)
    max_connection_creation_rate = integer(
        INT_MAX, "Most new connections in a second; accepting pauses above it.", at_least(1), dynamic=True
    )
    max_connections_per_ip = integer(INT_MAX, "Most connections from one address.", at_least(0), dynamic=True)
    max_connections_per_ip_overrides = text(
        "", "Most connections from single addresses, as host:number, separated by commas.", HOSTS_WITH_NUMBERS
    )
    max_incremental_fetch_session_cache_slots = integer(
        1000, "Most fetch sessions; clients beyond it name all their partitions in each request.", at_least(0)
    )
    max_in_flight_requests = integer(
        64,
        "Requests of one connection that are served at the same time before its socket is left unread. "
        "Apache Kafka has no such setting and serves one.",
        between(1, 4096),
    )
    pipelining = boolean(
        True,
        "Serve several requests of a connection at the same time, answering in their order; false serves them one by "
        "one as Apache Kafka does, which has no such setting.",
    )
    producer_purgatory_purge_interval_requests = integer(
        1000, "Completed produce requests that trigger a purge of the purgatory."
    )
    queued_max_request_bytes = long(
        -1,
        "Most bytes of clients' requests in service, over all connections; above it no further one is read. -1 means 512 MiB.",
    )
    controller_quota_window_num = integer(
        11, "Windows whose quota of controller_mutation_rate a client may use in one burst.", at_least(1)
    )
    controller_quota_window_size_seconds = integer(1, "Length of one such window.", at_least(1))
    telemetry_max_bytes = integer(
        1_048_576, "Most bytes of metrics that a client may push at once, compressed or not.", at_least(1)
    )
    quota_window_num = integer(11, "Windows over which the rates of client quotas are measured.", at_least(1))
    quota_window_size_seconds = integer(1, "Length of one such window.", at_least(1))
    socket_listen_backlog_size = integer(50, "Connections that may wait to be accepted.", at_least(1))
    socket_receive_buffer_bytes = integer(102_400, "SO_RCVBUF of a connection; -1 leaves it to the operating system.")
    socket_request_max_bytes = integer(104_857_600, "Largest request; a larger one closes the connection.", at_least(1))
    socket_send_buffer_bytes = integer(102_400, "SO_SNDBUF of a connection; -1 leaves it to the operating system.")


class GroupSettings(Settings):
    """Limits of consumer groups and retention of their offsets."""

    __slots__ = ()

    group_initial_rebalance_delay_ms = integer(
        3000, "How long the first rebalance of an empty group waits for more members."
    )
    group_max_session_timeout_ms = integer(1_800_000, "Longest session timeout a member may ask for.")
    group_max_size = integer(INT_MAX, "Most members of one group.", at_least(1))
    group_min_session_timeout_ms = integer(6000, "Shortest session timeout a member may ask for.")
    offset_metadata_max_bytes = integer(4096, "Longest metadata that may be committed with an offset.")
    offsets_commit_timeout_ms = integer(5000, "How long an offset commit waits for its replicas.", at_least(1))
    offsets_retention_check_interval_ms = long(600_000, "How often expired offsets are removed.", at_least(1))
    offsets_retention_minutes = integer(10_080, "How long the offsets of an empty group are kept.", at_least(1))


class ConsumerGroupSettings(Settings):
    """Limits of consumer groups (KIP-848), and the defaults of their own settings."""

    __slots__ = ()

    group_consumer_assignment_interval_ms = integer(
        1000, "Least time between two target assignments of a consumer group.", at_least(0)
    )
    group_consumer_assignors = words(
        ("uniform", "range"),
        "Assignors of consumer groups: uniform, range. The first is the default.",
        each_of("uniform", "range"),
    )
    group_consumer_heartbeat_interval_ms = integer(
        5000, "Time between two heartbeats of a member of a consumer group.", at_least(1)
    )
    group_consumer_max_assignment_interval_ms = integer(
        15_000, "Longest assignment interval that a consumer group may have.", at_least(0)
    )
    group_consumer_max_heartbeat_interval_ms = integer(
        15_000, "Longest heartbeat interval that a consumer group may have.", at_least(1)
    )
    group_consumer_max_session_timeout_ms = integer(
        60_000, "Longest session timeout that a consumer group may have.", at_least(1)
    )
    group_consumer_max_size = integer(INT_MAX, "Most members of one consumer group.", at_least(1))
    group_consumer_migration_policy = text(
        "bidirectional",
        "Whether a group with members may change its protocol: bidirectional, upgrade, downgrade, disabled.",
        one_of("bidirectional", "upgrade", "downgrade", "disabled"),
    )
    group_consumer_min_assignment_interval_ms = integer(
        0, "Shortest assignment interval that a consumer group may have.", at_least(0)
    )
    group_consumer_min_heartbeat_interval_ms = integer(
        5000, "Shortest heartbeat interval that a consumer group may have.", at_least(1)
    )
    group_consumer_min_session_timeout_ms = integer(
        45_000, "Shortest session timeout that a consumer group may have.", at_least(1)
    )
    group_consumer_regex_refresh_interval_ms = integer(
        600_000, "How often the regular expressions of a consumer group are resolved again.", at_least(10_000)
    )
    group_consumer_session_timeout_ms = integer(
        45_000, "How long a member of a consumer group may be silent.", at_least(1)
    )


class StreamsGroupSettings(Settings):
    """Limits of streams groups (KIP-1071), and the defaults of their own settings."""

    __slots__ = ()

    group_streams_assignment_interval_ms = integer(
        1000, "Least time between two target assignments of a streams group.", at_least(0)
    )
    group_streams_heartbeat_interval_ms = integer(
        5000, "Time between two heartbeats of a member of a streams group.", at_least(1)
    )
    group_streams_initial_rebalance_delay_ms = integer(
        3000, "How long a new streams group waits for more members before its first assignment.", at_least(0)
    )
    group_streams_max_assignment_interval_ms = integer(
        15_000, "Longest assignment interval that a streams group may have.", at_least(0)
    )
    group_streams_max_heartbeat_interval_ms = integer(
        15_000, "Longest heartbeat interval that a streams group may have.", at_least(1)
    )
    group_streams_max_session_timeout_ms = integer(
        60_000, "Longest session timeout that a streams group may have.", at_least(1)
    )
    group_streams_max_size = integer(INT_MAX, "Most members of one streams group.", at_least(1))
    group_streams_max_standby_replicas = integer(2, "Most standby replicas that a streams group may have.", at_least(0))
    group_streams_min_assignment_interval_ms = integer(
        0, "Shortest assignment interval that a streams group may have.", at_least(0)
    )
    group_streams_min_heartbeat_interval_ms = integer(
        5000, "Shortest heartbeat interval that a streams group may have.", at_least(1)
    )
    group_streams_min_session_timeout_ms = integer(
        45_000, "Shortest session timeout that a streams group may have.", at_least(1)
    )
    group_streams_num_standby_replicas = integer(0, "Standby replicas of each task of a streams group.", at_least(0))
    group_streams_session_timeout_ms = integer(
        45_000, "How long a member of a streams group may be silent.", at_least(1)
    )


class TransactionSettings(Settings):
    """Limits and cleanup intervals of transactions."""

    __slots__ = ()

    add_partitions_to_txn_retry_backoff_max_ms = integer(
        100,
        "How long a batch of a producer of transaction.version 2 waits for the end of the transaction before, and is added to the next one.",
        at_least(0),
    )
    add_partitions_to_txn_retry_backoff_ms = integer(
        20, "How long the broker waits before it tries again to add a partition to a transaction.", at_least(1)
    )
    transaction_abort_timed_out_transaction_cleanup_interval_ms = integer(
        10_000, "How often transactions beyond their timeout are aborted.", at_least(1)
    )
    transaction_max_timeout_ms = integer(900_000, "Longest transaction timeout a producer may ask for.", at_least(1))
    transaction_partition_verification_enable = boolean(
        True,
        "Check with the coordinator that a partition is part of the transaction before its first record is appended.",
        dynamic=True,
    )
    transaction_remove_expired_transaction_cleanup_interval_ms = integer(
        3_600_000, "How often expired transactional ids are removed.", at_least(1)
    )
    transactional_id_expiration_ms = integer(
        604_800_000, "Remove a transactional id that was not used for this time.", at_least(1)
    )
