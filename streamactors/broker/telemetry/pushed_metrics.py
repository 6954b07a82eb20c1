"""The metrics that clients have pushed, for /metrics of the broker: bounded, and forgotten when their client falls silent.

Owner: the telemetry of one broker, on the data plane's thread. A metric of a client becomes `streamactors_client_` and its name without
`org.apache.kafka.`; its labels are the attributes of the client, with `client_id` and `client_instance_id` as the broker knows them."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from streamactors.broker.log.partition_metadata import encode_uuid
from streamactors.broker.telemetry.otlp import MAX_VALUE, Point

MAX_SERIES: Final = 50_000
"""Series of all clients."""
MAX_SERIES_OF_CLIENT: Final = 1_000

PREFIX: Final = "streamactors_client_"
_KAFKA: Final = "org.apache.kafka."
_TOTAL: Final = "_total"
_NOT_IN_NAMES: Final = re.compile(r"[^a-zA-Z0-9_]")

Labels = tuple[tuple[str, str], ...]


class PushedFamily(NamedTuple):
    """One metric of all clients. `name` has no `_total`, which the samples of a counter have."""

    name: str
    original: str
    counter: bool
    samples: Sequence[tuple[dict[str, str], float]]


class _Client:
    __slots__ = ("client_id", "expires_at_ms", "series")

    def __init__(self) -> None:
        self.client_id = ""
        self.expires_at_ms = 0.0
        self.series: dict[tuple[str, Labels], float] = {}


class _Family:
    """What all series of one name have in common. `original` is the name in OTLP."""

    __slots__ = ("counter", "original", "series")

    def __init__(self, counter: bool, original: str) -> None:
        self.counter = counter
        self.original = original
        self.series = 0


class PushedMetrics:
    """The newest values of all clients."""

    def __init__(self) -> None:
        self._clients: dict[uuid.UUID, _Client] = {}
        self._families: dict[str, _Family] = {}  # those that have series
        self._count = 0
        self.dropped = 0
        """Points that were not kept, since the broker's start."""

    @property
    def clients(self) -> int:
        """Number of clients with values."""
        return len(self._clients)

    def add(self, instance: uuid.UUID, client_id: str, points: Sequence[Point], expires_at_ms: float) -> None:
        """Keep the values of a push until `expires_at_ms`."""
        client = self._clients.setdefault(instance, _Client())
        client.client_id = client_id[:MAX_VALUE]
        client.expires_at_ms = expires_at_ms
        for point in points:
            if not self._add(client, point):
                self.dropped += 1
        if not client.series:
            del self._clients[instance]

    def _add(self, client: _Client, point: Point) -> bool:
        name = family_name(point)
        family = self._families.get(name)
        if family is not None and family.counter != point.monotonic:
            return False  # two metrics would have one name
        labels = tuple((_NOT_IN_NAMES.sub("_", key), value) for key, value in point.attributes)
        series, key = client.series, (name, labels)
        if key not in series:
            if self._count >= MAX_SERIES or len(series) >= MAX_SERIES_OF_CLIENT:
                return False
            if family is None:
                family = self._families[name] = _Family(point.monotonic, point.name)
            family.series += 1
            self._count += 1
            series[key] = 0.0
        series[key] = series[key] + point.value if point.delta and point.monotonic else point.value
        return True

    def expire(self, now_ms: float) -> None:
        """Forget the clients whose time is over."""
        for instance in [each for each, client in self._clients.items() if client.expires_at_ms <= now_ms]:
            series = self._clients.pop(instance).series
            self._count -= len(series)
            for name, _ in series:
                self._families[name].series -= 1
                if not self._families[name].series:
                    del self._families[name]

    def families(self) -> Iterator[PushedFamily]:
        """Yield all metrics, by name."""
        samples: dict[str, list[tuple[dict[str, str], float]]] = {}
        for instance, client in self._clients.items():
            own = {"client_id": client.client_id, "client_instance_id": encode_uuid(instance)}
            for (name, labels), value in client.series.items():
                samples.setdefault(name, []).append(({**dict(labels), **own}, value))
        for name in sorted(samples):
            family = self._families[name]
            yield PushedFamily(name, family.original, family.counter, samples[name])


def family_name(point: Point) -> str:
    """Return the name of a point's family. A counter's has no `_total`."""
    name = PREFIX + _NOT_IN_NAMES.sub("_", point.name.removeprefix(_KAFKA))
    return name.removesuffix(_TOTAL) if point.monotonic else name
