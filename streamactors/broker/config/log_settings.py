"""Logs: the defaults of topics, and the work in the background (retention, compaction, checkpoints, producers' state).

Owner: the log manager. Names and defaults: Apache Kafka's broker configs. The defaults of topics can be changed while
the broker runs; a topic's own setting always wins over them.
"""

from __future__ import annotations

from typing import TypeVar

from streamactors.broker.config.checks import at_least
from streamactors.broker.config.declare import boolean, double, integer, long, optional_integer, optional_long
from streamactors.broker.config.setting import LONG_MAX, Setting, Settings
from streamactors.broker.config.topic_settings import TopicSettings

T = TypeVar("T")


def default_of(topic: Setting[T]) -> Setting[T]:
    """Declare the broker's default of a topic setting: same type, limits and default, changed while running."""
    return Setting(
        topic.kind, topic.default, f"Default of the topic setting {topic.name}. {topic.doc}", topic.check, dynamic=True
    )


class LogSettings(Settings):
    """The settings log.* and the other defaults of topics."""

    __slots__ = ()

    compression_gzip_level = default_of(TopicSettings.compression_gzip_level)
    compression_lz4_level = default_of(TopicSettings.compression_lz4_level)
    compression_type = default_of(TopicSettings.compression_type)
    compression_zstd_level = default_of(TopicSettings.compression_zstd_level)
    log_cleaner_backoff_ms = long(
        15_000, "Pause of the cleaner when no log needs compaction.", at_least(0), dynamic=True
    )
    log_cleaner_dedupe_buffer_size = long(
        134_217_728, "Memory for the map from keys to offsets during compaction.", dynamic=True
    )
    log_cleaner_delete_retention_ms = default_of(TopicSettings.delete_retention_ms)
    log_cleaner_enable = boolean(True, "Run the cleaner. Without it, compacted topics grow without bound.")
    log_cleaner_io_buffer_load_factor = double(0.9, "How full the cleaner's map may get.", dynamic=True)
    log_cleaner_max_compaction_lag_ms = default_of(TopicSettings.max_compaction_lag_ms)
    log_cleaner_min_cleanable_ratio = default_of(TopicSettings.min_cleanable_dirty_ratio)
    log_cleaner_min_compaction_lag_ms = default_of(TopicSettings.min_compaction_lag_ms)
    log_cleanup_policy = default_of(TopicSettings.cleanup_policy)
    log_flush_interval_messages = default_of(TopicSettings.flush_messages)
    log_flush_interval_ms = optional_long(
        "Default of the topic setting flush.ms; unset: log.flush.scheduler.interval.ms.", at_least(0), dynamic=True
    )
    log_flush_offset_checkpoint_interval_ms = integer(60_000, "How often recovery points are written.", at_least(0))
    log_flush_scheduler_interval_ms = long(
        LONG_MAX,
        "Default of the topic setting flush.ms when log.flush.interval.ms is unset; a negative value means never.",
    )
    log_flush_start_offset_checkpoint_interval_ms = integer(
        60_000, "How often log start offsets are written.", at_least(0)
    )
    log_index_interval_bytes = default_of(TopicSettings.index_interval_bytes)
    log_index_size_max_bytes = default_of(TopicSettings.segment_index_bytes)
    log_local_retention_bytes = default_of(TopicSettings.local_retention_bytes)
    log_local_retention_ms = default_of(TopicSettings.local_retention_ms)
    log_message_timestamp_after_max_ms = default_of(TopicSettings.message_timestamp_after_max_ms)
    log_message_timestamp_before_max_ms = default_of(TopicSettings.message_timestamp_before_max_ms)
    log_message_timestamp_type = default_of(TopicSettings.message_timestamp_type)
    log_preallocate = default_of(TopicSettings.preallocate)
    log_remote_copy_lag_bytes = default_of(TopicSettings.remote_copy_lag_bytes)
    log_remote_copy_lag_ms = default_of(TopicSettings.remote_copy_lag_ms)
    log_retention_bytes = default_of(TopicSettings.retention_bytes)
    log_retention_check_interval_ms = long(300_000, "How often segments are checked for deletion.", at_least(1))
    log_retention_hours = integer(
        168, "Default of the topic setting retention.ms, in hours, when the finer units are unset."
    )
    log_retention_minutes = optional_integer(
        "Default of the topic setting retention.ms, in minutes, when log.retention.ms is unset."
    )
    log_retention_ms = optional_long("Default of the topic setting retention.ms; -1 means no limit.", dynamic=True)
    log_roll_hours = integer(
        168, "Default of the topic setting segment.ms, in hours, when log.roll.ms is unset.", at_least(1)
    )
    log_roll_jitter_hours = integer(0, "Default of the topic setting segment.jitter.ms, in hours.", at_least(0))
    log_roll_jitter_ms = optional_long("Default of the topic setting segment.jitter.ms.", at_least(0), dynamic=True)
    log_roll_ms = optional_long("Default of the topic setting segment.ms.", at_least(1), dynamic=True)
    log_segment_bytes = default_of(TopicSettings.segment_bytes)
    log_segment_delete_delay_ms = default_of(TopicSettings.file_delete_delay_ms)
    max_decompressed_message_bytes = default_of(TopicSettings.max_decompressed_message_bytes)
    message_max_bytes = default_of(TopicSettings.max_message_bytes)
    min_insync_replicas = default_of(TopicSettings.min_insync_replicas)
    producer_id_expiration_check_interval_ms = integer(600_000, "How often expired producers are removed.", at_least(1))
    producer_id_expiration_ms = integer(
        86_400_000,
        "Remove the state of an idempotent producer that has been silent for this time.",
        at_least(1),
        dynamic=True,
    )
    record_validation = default_of(TopicSettings.record_validation)
    replica_high_watermark_checkpoint_interval_ms = long(
        5_000, "How often high watermarks are written; a negative value means only at shutdown."
    )
    unclean_leader_election_enable = default_of(TopicSettings.unclean_leader_election_enable)
