"""Which metrics a client is asked for: the client-metrics resources that match it. Pure.

Owner: the telemetry of one broker. Source: KIP-714, Apache Kafka's ClientMetricsManager."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import crc32c

from streamactors.broker.config.client_metrics_settings import DEFAULT_INTERVAL_MS, client_metrics_of, patterns_of

ALL: Final = "*"
_HIGH: Final = 1 << 31


@dataclass(frozen=True, slots=True)
class Subscription:
    """One client-metrics resource."""

    metrics: tuple[str, ...]
    interval_ms: int
    match: Mapping[str, Callable[[str], bool]]

    def matches(self, client: Mapping[str, str | None]) -> bool:
        """Whether all patterns match the whole values of the client."""
        return all((found := client.get(name)) is not None and matches(found) for name, matches in self.match.items())


class Wanted(NamedTuple):
    """What one client shall push. `subscription_id` changes with the rest."""

    subscription_id: int
    metrics: tuple[str, ...]
    interval_ms: int


def subscription_of(overrides: Mapping[str, str]) -> Subscription:
    """Return the subscription of a resource, from the values that were set and checked."""
    settings = client_metrics_of(overrides)
    return Subscription(settings.metrics, settings.interval_ms, patterns_of(settings.match))


def wanted_of(subscriptions: Iterable[Subscription], client: Mapping[str, str | None], instance: uuid.UUID) -> Wanted:
    """Return what a client shall push: the metrics of all subscriptions that match it, at their shortest interval."""
    matching = [each for each in subscriptions if each.matches(client)]
    metrics = sorted({name for each in matching for name in each.metrics})
    interval_ms = min((each.interval_ms for each in matching), default=DEFAULT_INTERVAL_MS)
    if ALL in metrics:
        metrics = [ALL]
    interval_ms = min(interval_ms, DEFAULT_INTERVAL_MS)
    return Wanted(_subscription_id(metrics, interval_ms, instance), tuple(metrics), interval_ms)


def _subscription_id(metrics: Sequence[str], interval_ms: int, instance: uuid.UUID) -> int:
    """Return the CRC of the subscription, mixed with the instance, as a signed number of 32 bits.

    Apache Kafka's order of the metrics is that of a hash table, so only ids of at most one metric are equal to its ids."""
    crc = crc32c.crc32c(f"[{', '.join(metrics)}]{interval_ms}".encode())
    folded = (instance.int >> 64) ^ instance.int
    mixed = crc ^ ((folded >> 32) & 0xFFFF_FFFF) ^ (folded & 0xFFFF_FFFF)
    return (mixed ^ _HIGH) - _HIGH
