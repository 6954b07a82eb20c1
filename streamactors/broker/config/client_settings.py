"""Settings for clients: connections, requests and purgatories, consumer groups and their offsets, transactions.

Owner: the network layer and the coordinators. Names and defaults: Apache Kafka's broker configs; settings that Kafka does not
have say so.
"""

from __future__ import annotations

from streamactors.broker.config.checks import HOSTS_WITH_NUMBERS, at_least, between
from streamactors.broker.config.declare import boolean, integer, long, text
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


class TransactionSettings(Settings):
    """Limits and cleanup intervals of transactions."""

    __slots__ = ()

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
