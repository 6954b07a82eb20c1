"""What an endpoint shows: the graphs of a system with their clients, and what the user's program registers with prometheus_client itself.

`prometheus_client.REGISTRY` also has `process_*` and `python_*`. A program that registers one of our collectors there is not shown twice."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from prometheus_client import REGISTRY, CollectorRegistry
from prometheus_client.registry import Collector

from streamactors.log_limit import log_limited
from streamactors.metrics.graphs import GraphsCollector
from streamactors.metrics.kafka import COLLECTOR
from streamactors.metrics.queries import QueriesCollector
from streamactors.metrics.windows import WindowsCollector

if TYPE_CHECKING:
    from prometheus_client.core import Metric

    from streamactors.actors.system import ActorSystem


_log = logging.getLogger("streamactors.metrics")


class SystemCollector(Collector):
    """The graphs of a system, and the Kafka clients of the process."""

    def __init__(self, system: ActorSystem) -> None:
        self._parts = (GraphsCollector(system), COLLECTOR, WindowsCollector(system), QueriesCollector(system))

    def collect(self) -> Iterator[Metric]:
        """The families of all parts."""
        for part in self._parts:
            yield from part.collect()

    def describe(self) -> list[Metric]:
        """Return nothing: registering reads no graph."""
        return []


class WithTheUsers(Collector):
    """`own`, and everything in the user's registry that has another name."""

    def __init__(self, own: Collector, users: CollectorRegistry = REGISTRY) -> None:
        self._own = own
        self._users = users

    def collect(self) -> Iterator[Metric]:
        """The families of both."""
        seen = set()
        for family in self._own.collect():
            seen.add(family.name)
            yield family
        try:
            for family in self._users.collect():
                if family.name not in seen:
                    yield family
        except Exception as error:  # noqa: BLE001 - of the user's; ours are needed all the more
            log_limited(
                _log,
                logging.WARNING,
                ("a user's collector", type(error)),
                "a collector that this program has registered failed, and the metrics after it are missing: %s: %s",
                type(error).__name__,
                error,
            )

    def describe(self) -> Iterable[Metric]:
        """Return nothing: registering asks nobody."""
        return []


def registry_of(own: Collector) -> CollectorRegistry:
    """Return the registry of an endpoint: `own`, and what the user's program has registered."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(WithTheUsers(own))
    return registry
