"""Settings of a client-metrics resource: which clients send which of their metrics, and how often (KIP-714).

Owner: AlterConfigs, DescribeConfigs and the telemetry of a broker. Names, defaults, limits and error texts: Apache Kafka's ClientMetricsConfigs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from streamactors.broker.config.declare import integer, words
from streamactors.broker.config.setting import InvalidSetting, Setting, Settings
from streamactors.broker.errors import ErrorCode, Refusal
from streamactors.broker.re2_patterns import whole_match

DEFAULT_INTERVAL_MS: Final = 300_000
_LOWEST_INTERVAL_MS: Final = 100
_HIGHEST_INTERVAL_MS: Final = 3_600_000
MATCHED: Final = (
    "client_instance_id",
    "client_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
)
"""What a `match` can look at."""


class ClientMetricsSettings(Settings):
    """The settings of one resource."""

    __slots__ = ()

    interval_ms = integer(DEFAULT_INTERVAL_MS, "Time between two pushes of a client, in ms: 100 to 3600000 (1 hour).")
    match = words(
        (),
        f"Clients that are asked: NAME=PATTERN by comma, all of which must match. A name is one of {', '.join(MATCHED)}; a pattern is a regular "
        "expression for the whole value. Empty: all clients.",
    )
    metrics = words((), "Prefixes of the names of the metrics, by comma; * for all. Empty: none.")


def client_metrics_of(overrides: Mapping[str, str]) -> ClientMetricsSettings:
    """Return the settings of a resource from the values that were set. Raises InvalidSetting."""
    declared = ClientMetricsSettings.declared()
    return ClientMetricsSettings({name: declared[name].parse(text) for name, text in overrides.items()})


def check_client_metrics(name: str, overrides: Mapping[str, str]) -> None:
    """Raise Refusal unless a resource of this name can have these settings."""
    if not name:
        raise Refusal(ErrorCode.INVALID_REQUEST, "Subscription name can't be empty")
    declared = ClientMetricsSettings.declared()
    for each in overrides:
        if each not in declared:
            raise Refusal(ErrorCode.INVALID_REQUEST, f"Unknown client metrics configuration: {each}")
    try:
        settings = client_metrics_of(overrides)
    except InvalidSetting as error:
        raise Refusal(ErrorCode.INVALID_CONFIG, str(error)) from None
    _check_list(ClientMetricsSettings.metrics, settings.metrics)
    _check_list(ClientMetricsSettings.match, settings.match)
    if not _LOWEST_INTERVAL_MS <= settings.interval_ms <= _HIGHEST_INTERVAL_MS:
        raise Refusal(
            ErrorCode.INVALID_REQUEST,
            f"Invalid value {settings.interval_ms} for interval.ms, interval must be between 100 and 3600000 (1 hour)",
        )
    patterns_of(settings.match)


def _check_list(setting: Setting[Any], values: Sequence[str]) -> None:
    if "" in values:
        raise Refusal(ErrorCode.INVALID_CONFIG, f"Configuration '{setting.name}' values must not be empty.")


def patterns_of(match: Sequence[str]) -> dict[str, Callable[[str], bool]]:
    """Return the patterns of a `match` by the property of the client that each is for. Raises Refusal INVALID_CONFIG."""
    found: dict[str, Callable[[str], bool]] = {}
    for pair in match:
        name, equals, pattern = pair.rstrip("=").partition("=")
        refusal = Refusal(ErrorCode.INVALID_CONFIG, f"Illegal client matching pattern: {pair}")
        if not equals or "=" in pattern or name.strip() not in MATCHED:
            raise refusal
        try:
            found[name.strip()] = whole_match(pattern.strip())
        except Refusal:
            raise refusal from None
    return found
