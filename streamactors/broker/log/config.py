"""The settings of one log and of all logs of a broker, as plain values.

Owner: the creator of the log. They are immutable and replaced as a whole. Names and defaults are Kafka's, with `_` for `.`.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Final

from streamactors.broker.records.compression import MAX_BATCH_BYTES
from streamactors.broker.records.recompression import Recompression

LONG_MAX: Final = 2**63 - 1
DAY_MS: Final = 86_400_000
DECOMPRESSED_MAX: Final = 2**31 - 9


@dataclass(frozen=True, slots=True)
class LogConfig:
    """The settings of a topic that concern its logs. Sizes are bytes, times are milliseconds."""

    cleanup_policy: tuple[str, ...] = ("delete",)
    compression_gzip_level: int = -1
    compression_type: str = "producer"
    compression_zstd_level: int = 3
    delete_retention_ms: int = DAY_MS
    file_delete_delay_ms: int = 60_000
    flush_messages: int = LONG_MAX
    flush_ms: int = LONG_MAX
    index_interval_bytes: int = 4096
    max_compaction_lag_ms: int = LONG_MAX
    max_decompressed_message_bytes: int = DECOMPRESSED_MAX
    max_message_bytes: int = 1_048_588
    message_timestamp_after_max_ms: int = 3_600_000
    message_timestamp_before_max_ms: int = LONG_MAX
    message_timestamp_type: str = "CreateTime"
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    record_validation: str = "header"
    retention_bytes: int = -1
    retention_ms: int = 7 * DAY_MS
    segment_bytes: int = 1 << 30
    segment_index_bytes: int = 10 << 20
    segment_jitter_ms: int = 0
    segment_ms: int = 7 * DAY_MS

    roll_ms: int = dataclasses.field(init=False)
    """Age at which a segment is closed. In a compacted topic it is at most max.compaction.lag.ms."""

    recompression: Recompression | None = dataclasses.field(init=False)
    """The codec for stored batches. None keeps the producer's codec."""

    stamps: bool = dataclasses.field(init=False)
    """Records get the broker's time (LogAppendTime)."""

    walks: bool = dataclasses.field(init=False)
    """An append checks every record of a batch."""

    limits_decompressed: bool = dataclasses.field(init=False)
    """An append decompresses a batch to know its size."""

    looks_closer: bool = dataclasses.field(init=False)
    """An append needs more than the batch's header."""

    def __post_init__(self) -> None:
        roll_ms = min(self.segment_ms, self.max_compaction_lag_ms) if self.compacts else self.segment_ms
        object.__setattr__(self, "roll_ms", roll_ms)  # Computed once, because every append reads these.
        recompression = Recompression.of(
            self.compression_type, gzip_level=self.compression_gzip_level, zstd_level=self.compression_zstd_level
        )
        object.__setattr__(self, "recompression", recompression)
        walks = self.compacts or self.record_validation == "full"
        object.__setattr__(self, "stamps", self.message_timestamp_type == "LogAppendTime")
        object.__setattr__(self, "walks", walks)
        limits = self.max_decompressed_message_bytes < MAX_BATCH_BYTES
        object.__setattr__(self, "limits_decompressed", limits)
        object.__setattr__(self, "looks_closer", walks or limits or recompression is not None)

    @classmethod
    def of(cls, settings: object) -> LogConfig:
        """Return the settings from an object with the same attribute names, such as TopicSettings."""
        return cls(**{field.name: getattr(settings, field.name) for field in dataclasses.fields(cls) if field.init})

    @property
    def compacts(self) -> bool:
        return "compact" in self.cleanup_policy

    @property
    def deletes(self) -> bool:
        return "delete" in self.cleanup_policy


@dataclass(frozen=True, slots=True)
class ManagerConfig:
    """Settings of the background work. Names and defaults are Kafka's, with `_` for `.`."""

    log_cleaner_dedupe_buffer_size: int = 128 << 20
    log_cleaner_io_buffer_load_factor: float = 0.9
    log_flush_offset_checkpoint_interval_ms: int = 60_000
    log_flush_start_offset_checkpoint_interval_ms: int = 60_000
    log_retention_check_interval_ms: int = 300_000
    producer_id_expiration_check_interval_ms: int = 600_000
    producer_id_expiration_ms: int = 86_400_000
    replica_high_watermark_checkpoint_interval_ms: int = 5_000

    @property
    def dedupe_bytes(self) -> int:
        """Usable memory of the cleaner's map."""
        return int(self.log_cleaner_dedupe_buffer_size * self.log_cleaner_io_buffer_load_factor)

    @classmethod
    def of(cls, settings: object) -> ManagerConfig:
        """Return the settings from an object with the same attribute names, such as BrokerConfig."""
        return cls(**{field.name: getattr(settings, field.name) for field in dataclasses.fields(cls)})
