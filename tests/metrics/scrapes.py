"""Scrapes of the tests: a collector as text, and a cluster's endpoint."""

from __future__ import annotations

import urllib.request
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest

from streamactors.broker import Cluster


def text_of(collector: Any) -> str:
    """Return what a scrape of this collector gives."""
    registry = CollectorRegistry()
    registry.register(collector)
    return generate_latest(registry).decode()


def value(collector: Any, name: str, **labels: str) -> float | None:
    """Return one sample."""
    registry = CollectorRegistry()
    registry.register(collector)
    return registry.get_sample_value(name, labels)


def cluster_text(cluster: Cluster, port: int) -> str:
    """Return the metrics of a cluster of one broker."""
    url = f"http://127.0.0.1:{port}/metrics"
    asked = urllib.request.Request(url, headers={"Authorization": f"Bearer {cluster.metrics_token}"})
    with urllib.request.urlopen(asked, timeout=30) as answer:
        text: str = answer.read().decode()
    return text
