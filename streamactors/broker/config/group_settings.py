"""Consumer groups, their offsets, and transactions.

Owner: the group and the transaction coordinator. Names and defaults: Apache Kafka's broker configs.
"""

from __future__ import annotations

from streamactors.broker.config.checks import at_least
from streamactors.broker.config.declare import boolean, integer, long
from streamactors.broker.config.setting import INT_MAX, Settings


class GroupSettings(Settings):
    """Limits of consumer groups and how long their offsets are kept."""

    __slots__ = ()

    group_initial_rebalance_delay_ms = integer(
        3000, "How long the first rebalance of an empty group waits for more members."
    )
    group_max_session_timeout_ms = integer(1_800_000, "Longest session timeout a member may ask for.")
    group_max_size = integer(INT_MAX, "Most members of one group.", at_least(1))
    group_min_session_timeout_ms = integer(6000, "Shortest session timeout a member may ask for.")
    offset_metadata_max_bytes = integer(4096, "Longest metadata that may be committed with an offset.")
    offsets_commit_timeout_ms = integer(5000, "How long an offset commit waits for its replicas.", at_least(1))
    offsets_retention_check_interval_ms = long(600_000, "How often expired offsets are looked for.", at_least(1))
    offsets_retention_minutes = integer(10_080, "How long the offsets of an empty group are kept.", at_least(1))


class TransactionSettings(Settings):
    """Limits of transactions and how often the coordinator looks for stale ones."""

    __slots__ = ()

    transaction_abort_timed_out_transaction_cleanup_interval_ms = integer(
        10_000, "How often transactions that ran over their timeout are looked for and aborted.", at_least(1)
    )
    transaction_max_timeout_ms = integer(900_000, "Longest transaction timeout a producer may ask for.", at_least(1))
    transaction_partition_verification_enable = boolean(
        True,
        "Check with the coordinator that a partition is part of the transaction before its first record is appended.",
        dynamic=True,
    )
    transaction_remove_expired_transaction_cleanup_interval_ms = integer(
        3_600_000, "How often forgotten transactional ids are looked for.", at_least(1)
    )
    transactional_id_expiration_ms = integer(
        604_800_000, "Forget a transactional id that was not used for so long.", at_least(1)
    )
