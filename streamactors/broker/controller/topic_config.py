"""Checks a topic's own settings, and resolves them to what its logs are given.

Owner: the controller. Wording of the complaints: Apache Kafka's.
"""

from __future__ import annotations

from collections.abc import Mapping

from streamactors.broker.config.broker_config import BrokerConfig
from streamactors.broker.config.describe import resolve_topic_setting
from streamactors.broker.config.setting import InvalidSetting
from streamactors.broker.config.topic_settings import TopicSettings
from streamactors.broker.controller.command import Refusal
from streamactors.broker.errors import ErrorCode


def check_topic_settings(config: BrokerConfig, overrides: Mapping[str, str]) -> None:
    """Raise Refusal INVALID_CONFIG unless a topic can have these settings, alone and together."""
    declared = TopicSettings.declared()
    for name, text in overrides.items():
        setting = declared.get(name)
        if setting is None:
            raise Refusal(ErrorCode.INVALID_CONFIG, f"Unknown topic config name: {name}")
        try:
            setting.parse(text)
        except InvalidSetting as error:
            raise Refusal(ErrorCode.INVALID_CONFIG, str(error)) from None
    least = resolve_topic_setting(config, overrides, TopicSettings.min_compaction_lag_ms)
    most = resolve_topic_setting(config, overrides, TopicSettings.max_compaction_lag_ms)
    if least > most:
        raise Refusal(
            ErrorCode.INVALID_CONFIG,
            f"conflict topic config setting min.compaction.lag.ms ({least}) > max.compaction.lag.ms ({most})",
        )
