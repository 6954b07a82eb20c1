"""The defaults of the logs' settings are those of the broker's configuration, which are Apache Kafka's."""

from __future__ import annotations

from streamactors.broker.config.broker_config import BrokerConfig
from streamactors.broker.config.topic_settings import TopicSettings
from streamactors.broker.log.config import LogConfig, ManagerConfig


def test_a_log_without_settings_has_those_of_a_topic_without_settings() -> None:
    assert LogConfig() == LogConfig.of(TopicSettings({}))


def test_the_background_work_without_settings_has_those_of_a_broker_without_settings() -> None:
    assert ManagerConfig() == ManagerConfig.of(BrokerConfig.of({}))


def test_what_an_append_reads_is_worked_out_once_and_cannot_be_given() -> None:
    config = LogConfig(cleanup_policy=("compact",), segment_ms=70, max_compaction_lag_ms=60, compression_type="lz4")
    assert (config.roll_ms, config.walks, config.looks_closer, config.stamps) == (60, True, True, False)
    assert config.recompression is not None
    assert LogConfig(segment_ms=70, max_compaction_lag_ms=60).roll_ms == 70
    assert LogConfig(message_timestamp_type="LogAppendTime").stamps
    assert not LogConfig().looks_closer
