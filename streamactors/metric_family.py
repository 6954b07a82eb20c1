"""Family: the definition of one metric, from which its samples, the page docs/metrics.md and the checks of the Grafana dashboard are made.

Names follow Prometheus: `streamactors_`, the part it is about, what it is, the unit (`_seconds`, `_bytes`; a count of things has none), and `_total` for
counters. prometheus_client is imported when samples are made."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from prometheus_client.core import Metric

Samples = Iterable[tuple[tuple[str, ...], float]]
"""Values of the labels, and the value."""


class Family(NamedTuple):
    """One metric. `kind`: gauge or counter. `alert`: when somebody should be told; empty for most."""

    name: str
    """As it is on the endpoint: a counter ends in `_total`."""
    kind: str
    labels: tuple[str, ...]
    meaning: str
    alert: str = ""

    def metric(self, samples: Samples) -> Metric:
        """Return the family with these samples."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        made = (CounterMetricFamily if self.kind == "counter" else GaugeMetricFamily)(
            self.name, self.meaning, labels=self.labels
        )
        for labels, value in samples:
            made.add_metric(labels, value)
        return made


def gauge(name: str, labels: tuple[str, ...], meaning: str, alert: str = "") -> Family:
    """Return a value that goes up and down."""
    return Family(name, "gauge", labels, meaning, alert)


def counter(name: str, labels: tuple[str, ...], meaning: str, alert: str = "") -> Family:
    """Return a count that only grows, from 0 at the start of its process."""
    return Family(name, "counter", labels, meaning, alert)
