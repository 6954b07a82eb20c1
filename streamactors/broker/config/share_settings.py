"""Settings of share groups and of the share coordinator (KIP-932).

Owner: the share coordinator. Names and defaults: Apache Kafka's broker configs."""

from __future__ import annotations

from streamactors.broker.config.checks import at_least, between
from streamactors.broker.config.declare import boolean, integer, short, text
from streamactors.broker.config.setting import Settings


class ShareSettings(Settings):
    """Defaults and limits of share groups; the topic of the share coordinator, and when its records go."""

    __slots__ = ()

    errors_deadletterqueue_auto_create_topics_enable = boolean(
        False, "Whether the topic of a share group's dead letter queue is created when it is missing."
    )
    errors_deadletterqueue_topic_name_prefix = text(
        "dlq.",
        "What the names of topics of dead letter queues begin with. Empty: any name but one that begins with __.",
    )
    group_share_assignment_interval_ms = integer(
        1_000, "Least time between two assignments of a share group.", at_least(0)
    )
    group_share_delivery_count_limit = integer(
        5, "How often a record is delivered at most; then it is archived.", between(2, 10)
    )
    group_share_heartbeat_interval_ms = integer(5_000, "Interval of the heartbeats of members.", at_least(1))
    group_share_initialize_retry_interval_ms = integer(
        30_000, "When an initialisation of a share partition without an answer is tried again.", at_least(1)
    )
    group_share_max_assignment_interval_ms = integer(
        15_000, "Upper limit of share.assignment.interval.ms.", at_least(0)
    )
    group_share_max_delivery_count_limit = integer(10, "Upper limit of share.delivery.count.limit.", between(5, 25))
    group_share_max_heartbeat_interval_ms = integer(15_000, "Upper limit of share.heartbeat.interval.ms.", at_least(1))
    group_share_max_partition_max_record_locks = integer(
        4_000, "Upper limit of share.partition.max.record.locks.", between(2_000, 10_000)
    )
    group_share_max_record_lock_duration_ms = integer(
        60_000, "Upper limit of share.record.lock.duration.ms.", between(30_000, 3_600_000)
    )
    group_share_max_session_timeout_ms = integer(60_000, "Upper limit of share.session.timeout.ms.", at_least(1))
    group_share_max_share_sessions = integer(2_000, "Most share sessions on this broker.", at_least(1))
    group_share_max_size = integer(200, "Most members of one share group.", between(1, 1_000))
    group_share_min_assignment_interval_ms = integer(0, "Lower limit of share.assignment.interval.ms.", at_least(0))
    group_share_min_delivery_count_limit = integer(2, "Lower limit of share.delivery.count.limit.", between(2, 5))
    group_share_min_heartbeat_interval_ms = integer(5_000, "Lower limit of share.heartbeat.interval.ms.", at_least(1))
    group_share_min_partition_max_record_locks = integer(
        100, "Lower limit of share.partition.max.record.locks.", between(100, 2_000)
    )
    group_share_min_record_lock_duration_ms = integer(
        15_000, "Lower limit of share.record.lock.duration.ms.", between(1_000, 30_000)
    )
    group_share_min_session_timeout_ms = integer(45_000, "Lower limit of share.session.timeout.ms.", at_least(1))
    group_share_partition_max_record_locks = integer(
        2_000, "Most records of a share partition that are in flight.", between(100, 10_000)
    )
    group_share_record_lock_duration_ms = integer(
        30_000, "How long a member may work on a record before it is delivered again.", between(1_000, 3_600_000)
    )
    group_share_session_timeout_ms = integer(
        45_000, "A member without a heartbeat for this time is removed.", at_least(1)
    )

    share_coordinator_cold_partition_snapshot_interval_ms = integer(
        300_000,
        "A share partition whose last snapshot is older than this gets a new one, so that the log before it can be deleted.",
        at_least(1),
    )
    share_coordinator_snapshot_update_records_per_snapshot = integer(
        500, "Updates of a share partition after which its whole state is written.", between(0, 500)
    )
    share_coordinator_state_topic_min_isr = short(
        2, "min.insync.replicas of __share_group_state; never more than its replicas.", at_least(1)
    )
    share_coordinator_state_topic_num_partitions = integer(50, "Partitions of __share_group_state.", at_least(1))
    share_coordinator_state_topic_prune_interval_ms = integer(
        300_000, "How often records of __share_group_state that are not needed any more are deleted.", at_least(1)
    )
    share_coordinator_state_topic_replication_factor = short(
        3, "Replicas of __share_group_state; fewer while fewer brokers are alive.", at_least(1)
    )
    share_coordinator_state_topic_segment_bytes = integer(
        104_857_600, "Segment size of __share_group_state.", at_least(1)
    )
    share_coordinator_write_timeout_ms = integer(
        5_000, "How long a write of the share coordinator waits for its replicas.", at_least(1)
    )
