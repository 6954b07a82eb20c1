"""What a partition needs of its topic's settings.

Owner: `Topics`, which makes them again when the settings change."""

from __future__ import annotations

from typing import NamedTuple

from streamactors.broker.config.topic_settings import TopicSettings


class PartitionRules(NamedTuple):
    """The settings of a topic that decide what its partitions do."""

    max_message_bytes: int
    min_insync_replicas: int
    log_append_time: bool
    compacted: bool
    deleted: bool
    retention_ms: int
    retention_bytes: int
    delete_retention_ms: int
    min_compaction_lag_ms: int

    @classmethod
    def of(cls, settings: TopicSettings) -> PartitionRules:
        """Return the rules for the resolved settings of a topic."""
        return cls(
            settings.max_message_bytes,
            settings.min_insync_replicas,
            settings.message_timestamp_type == "LogAppendTime",
            "compact" in settings.cleanup_policy,
            "delete" in settings.cleanup_policy,
            settings.retention_ms,
            settings.retention_bytes,
            settings.delete_retention_ms,
            settings.min_compaction_lag_ms,
        )
