"""Every metric of the package, by the place that serves it. docs/metrics.md is made from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from streamactors.broker.http import broker_metrics
from streamactors.metric_family import Family
from streamactors.metrics import graphs, kafka, members, queries, windows

TABLE: Final[Mapping[str, Sequence[Family]]] = {
    "Graphs and stages": graphs.FAMILIES,
    "Consumers, producers and transactions": kafka.FAMILIES,
    "Windows and stores": windows.FAMILIES,
    "Spark": queries.FAMILIES,
    "Members of `run --processes`": members.FAMILIES,
    "A broker": broker_metrics.FAMILIES,
}
