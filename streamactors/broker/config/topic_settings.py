"""The settings of a topic, and the broker settings that are their defaults.

Owner: the controller, which checks and stores overrides. Names, types, defaults and limits: Apache Kafka's topic configs.
The setting of a missing feature accepts only the value that does not use the feature.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from streamactors.broker.config.checks import Check, at_least, between, each_of, one_of, only
from streamactors.broker.config.declare import boolean, double, integer, long, text, words
from streamactors.broker.config.setting import INT_MAX, LONG_MAX, Settings

HOUR_MS: Final = 3_600_000
DAY_MS: Final = 24 * HOUR_MS
WEEK_MS: Final = 7 * DAY_MS
DECOMPRESSED_MAX: Final = INT_MAX - 8
"""The largest array of a Java machine: the default of max.decompressed.message.bytes."""

NO_TIERED_STORAGE: Final = "there is no tiered storage"
_REPLICA: Final = re.compile(r"\*|\d+:\d+")
THROTTLED_REPLICAS: Final = Check(
    "list of partition:broker, or *",
    lambda value: (
        None
        if all(_REPLICA.fullmatch(each) for each in value)
        else f"{','.join(value)} must be the literal '*' or a list of replicas in the following format: [partitionId]:[brokerId],"
        "[partitionId]:[brokerId],..."
    ),
)
NO_PREALLOCATION: Final = "segments grow as they are written"
GZIP_LEVELS: Final = Check(
    "1 to 9, or -1",
    lambda level: None if level == -1 or 1 <= level <= 9 else "Value must be between 1 and 9 or equal to -1",
)
CODECS: Final = one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")


class TopicSettings(Settings):
    """The settings of one topic, resolved: its own overrides over the broker's settings over Kafka's defaults."""

    __slots__ = ()

    cleanup_policy = words(
        ("delete",),
        "What happens to old segments: `delete` drops them by age and size, `compact` keeps the latest record of each "
        "key, both together do both. Empty keeps everything.",
        each_of("compact", "delete"),
    )
    compression_gzip_level = integer(-1, "Level for gzip, where compression.type is `gzip`.", GZIP_LEVELS)
    compression_lz4_level = integer(
        9, "Level for lz4; without effect: lz4 compresses at its fastest here.", between(1, 17)
    )
    compression_type = text(
        "producer",
        "Compression of stored batches. `producer` keeps what the producer chose; with another codec, the broker recompresses "
        "each batch that has a different codec.",
        CODECS,
    )
    compression_zstd_level = integer(3, "Level for zstd, where compression.type is `zstd`.", between(-131072, 22))
    delete_retention_ms = long(
        DAY_MS, "How long a compacted topic keeps a tombstone after the pass that first saw it.", at_least(0)
    )
    errors_deadletterqueue_group_enable = boolean(
        False, "Whether share groups may write records that they give up to this topic."
    )
    file_delete_delay_ms = long(
        60_000, "How long a deleted segment's files stay on disk under another name.", at_least(0)
    )
    flush_messages = long(LONG_MAX, "Flush after this number of records; 1 means before every answer.", at_least(1))
    flush_ms = long(LONG_MAX, "Flush when the oldest unflushed record has this age.", at_least(0))
    follower_replication_throttled_replicas = words(
        (), "Replicas that are throttled when they fetch, as partition:broker or *.", THROTTLED_REPLICAS
    )
    index_interval_bytes = integer(4096, "Bytes of log per index entry.", at_least(0))
    leader_replication_throttled_replicas = words(
        (), "Replicas that are throttled when their leader sends to them, as partition:broker or *.", THROTTLED_REPLICAS
    )
    local_retention_bytes = long(
        -2,
        "Bytes to keep locally under tiered storage; -2 means retention.bytes.",
        only(-2, NO_TIERED_STORAGE, at_least(-2)),
    )
    local_retention_ms = long(
        -2,
        "Time to keep locally under tiered storage; -2 means retention.ms.",
        only(-2, NO_TIERED_STORAGE, at_least(-2)),
    )
    max_compaction_lag_ms = long(
        LONG_MAX, "The longest a record may wait to become eligible for compaction.", at_least(1)
    )
    max_decompressed_message_bytes = integer(
        DECOMPRESSED_MAX,
        "Largest record batch accepted, decompressed. With a limit below the default, every compressed batch is decompressed when it "
        "arrives. Without one a batch may have 128 MiB where the broker decompresses it: compacted topics, record.validation=full, "
        "and topics that store another codec.",
        between(1, DECOMPRESSED_MAX),
    )
    max_message_bytes = integer(
        1_048_588, "Largest record batch accepted, as it arrives (after compression).", at_least(0)
    )
    message_timestamp_after_max_ms = long(
        HOUR_MS, "How far a record's timestamp may be ahead of the broker's clock.", at_least(0)
    )
    message_timestamp_before_max_ms = long(
        LONG_MAX, "How much older than the broker's clock a record's timestamp may be.", at_least(0)
    )
    message_timestamp_type = text(
        "CreateTime",
        "Whose clock a record's timestamp shows: the producer's (CreateTime) or the broker's (LogAppendTime).",
        one_of("CreateTime", "LogAppendTime"),
    )
    min_cleanable_dirty_ratio = double(
        0.5, "Compact a log when this share of its bytes has not been compacted yet.", between(0, 1)
    )
    min_compaction_lag_ms = long(0, "The time a record stays out of compaction.", at_least(0))
    min_insync_replicas = integer(1, "Replicas that must have a record before acks=all is answered.", at_least(1))
    preallocate = boolean(False, "Reserve a segment's space on disk when it is created.", only(False, NO_PREALLOCATION))
    record_validation = text(
        "header",
        "How far produced batches are checked: `header` (batch header, CRC, counts, producer sequence) or `full` "
        "(every record too). "
        "Compacted topics are always checked in full. Apache Kafka has no such setting and always checks in full.",
        one_of("header", "full"),
    )
    remote_copy_lag_bytes = long(
        -1, "How many bytes may wait for tiered storage; -1 means no limit.", only(-1, NO_TIERED_STORAGE, at_least(-1))
    )
    remote_copy_lag_ms = long(
        0, "How long records may wait for tiered storage; -1 means no limit.", only(0, NO_TIERED_STORAGE, at_least(-1))
    )
    remote_log_copy_disable = boolean(False, "Stop copying to tiered storage.", only(False, NO_TIERED_STORAGE))
    remote_log_delete_on_disable = boolean(
        False, "Delete tiered data when tiered storage is disabled.", only(False, NO_TIERED_STORAGE)
    )
    remote_storage_enable = boolean(False, "Use tiered storage.", only(False, NO_TIERED_STORAGE))
    retention_bytes = long(-1, "Delete the oldest segments while a partition is larger than this; -1 means no limit.")
    retention_ms = long(
        WEEK_MS, "Delete segments whose newest record is older than this; -1 means never.", at_least(-1)
    )
    segment_bytes = integer(1_073_741_824, "Size at which a segment is closed and the next begun.", at_least(1_048_576))
    segment_index_bytes = integer(
        10_485_760, "Largest size of a segment's index; a full one closes the segment.", at_least(4)
    )
    segment_jitter_ms = long(
        0, "Largest random reduction of segment.ms, so that logs do not all roll at the same time.", at_least(0)
    )
    segment_ms = long(WEEK_MS, "Age at which a segment is closed even if it is not full.", at_least(1))
    unclean_leader_election_enable = boolean(
        False, "Whether a replica that is not in sync may lead when no other is left, which loses records."
    )


class Synonym(NamedTuple):
    """A broker setting that a topic setting falls back to, and the factor from its unit to the topic's."""

    name: str
    factor: int = 1


# in Kafka's order: the finer unit wins
BROKER_SYNONYMS: Final[dict[str, tuple[Synonym, ...]]] = {
    "cleanup.policy": (Synonym("log.cleanup.policy"),),
    "compression.gzip.level": (Synonym("compression.gzip.level"),),
    "compression.lz4.level": (Synonym("compression.lz4.level"),),
    "compression.type": (Synonym("compression.type"),),
    "compression.zstd.level": (Synonym("compression.zstd.level"),),
    "delete.retention.ms": (Synonym("log.cleaner.delete.retention.ms"),),
    "file.delete.delay.ms": (Synonym("log.segment.delete.delay.ms"),),
    "flush.messages": (Synonym("log.flush.interval.messages"),),
    "flush.ms": (Synonym("log.flush.interval.ms"), Synonym("log.flush.scheduler.interval.ms")),
    "index.interval.bytes": (Synonym("log.index.interval.bytes"),),
    "local.retention.bytes": (Synonym("log.local.retention.bytes"),),
    "local.retention.ms": (Synonym("log.local.retention.ms"),),
    "max.compaction.lag.ms": (Synonym("log.cleaner.max.compaction.lag.ms"),),
    "max.decompressed.message.bytes": (Synonym("max.decompressed.message.bytes"),),
    "max.message.bytes": (Synonym("message.max.bytes"),),
    "message.timestamp.after.max.ms": (Synonym("log.message.timestamp.after.max.ms"),),
    "message.timestamp.before.max.ms": (Synonym("log.message.timestamp.before.max.ms"),),
    "message.timestamp.type": (Synonym("log.message.timestamp.type"),),
    "min.cleanable.dirty.ratio": (Synonym("log.cleaner.min.cleanable.ratio"),),
    "min.compaction.lag.ms": (Synonym("log.cleaner.min.compaction.lag.ms"),),
    "min.insync.replicas": (Synonym("min.insync.replicas"),),
    "preallocate": (Synonym("log.preallocate"),),
    "record.validation": (Synonym("record.validation"),),
    "remote.copy.lag.bytes": (Synonym("log.remote.copy.lag.bytes"),),
    "remote.copy.lag.ms": (Synonym("log.remote.copy.lag.ms"),),
    "retention.bytes": (Synonym("log.retention.bytes"),),
    "retention.ms": (
        Synonym("log.retention.ms"),
        Synonym("log.retention.minutes", 60_000),
        Synonym("log.retention.hours", HOUR_MS),
    ),
    "segment.bytes": (Synonym("log.segment.bytes"),),
    "segment.index.bytes": (Synonym("log.index.size.max.bytes"),),
    "segment.jitter.ms": (Synonym("log.roll.jitter.ms"), Synonym("log.roll.jitter.hours", HOUR_MS)),
    "segment.ms": (Synonym("log.roll.ms"), Synonym("log.roll.hours", HOUR_MS)),
    "unclean.leader.election.enable": (Synonym("unclean.leader.election.enable"),),
}
