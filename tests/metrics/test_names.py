"""One scheme: the names of all metrics, the page that lists them, and the files for Grafana and Prometheus that use them."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from docs import metrics_page
from streamactors import ActorSystem
from streamactors.broker import Cluster
from streamactors.broker.cluster.reserved_ports import free_port
from streamactors.metrics.registry import SystemCollector, registry_of
from streamactors.metrics.table import TABLE
from tests.metrics.scrapes import cluster_text

FAMILIES = [family for families in TABLE.values() for family in families]
MONITORING = Path(__file__).parents[2] / "docs" / "monitoring"
OTHERS = {"process_cpu_seconds_total", "process_resident_memory_bytes"}


def used_names() -> dict[str, set[str]]:
    """Return the names of metrics in each file."""
    board = json.loads((MONITORING / "grafana-dashboard.json").read_text())
    queries = [target["expr"] for panel in board["panels"] for target in panel.get("targets", ())]
    alerts = re.findall(r"^ +expr: (.+)$", (MONITORING / "prometheus-alerts.yml").read_text(), re.MULTILINE)
    name = re.compile(r"\b(?:streamactors|process|python)_[a-z_]+\b")
    return {
        "grafana-dashboard.json": {found for query in queries for found in name.findall(query)},
        "prometheus-alerts.yml": {found for query in alerts for found in name.findall(query)},
    }


def test_no_metric_is_there_twice():
    counts = Counter(family.name for family in FAMILIES)
    assert [name for name, count in counts.items() if count > 1] == []
    meanings = Counter(family.meaning for family in FAMILIES)
    assert [meaning for meaning, count in meanings.items() if count > 1] == []


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_a_name_follows_prometheus(family):
    """https://prometheus.io/docs/practices/naming/: snake case, one prefix, base units, `_total` for counters and for nothing else."""
    assert re.fullmatch(r"streamactors(_[a-z]+)+", family.name)
    assert family.name.endswith("_total") == (family.kind == "counter")
    assert family.kind in ("counter", "gauge")
    words = family.name.replace("share_group", "group").split("_")  # a share of something is a ratio
    assert not {"ms", "millis", "milliseconds", "minutes", "percent", "kb", "mb", "kilobytes", "share"} & set(words)
    assert not {"le", "quantile", "instance", "job"} & set(family.labels), "Prometheus has these itself"
    assert all(re.fullmatch(r"[a-z_]+", label) for label in family.labels)
    assert family.meaning[0].isupper()
    assert not family.meaning.endswith(".")
    assert "|" not in family.meaning + family.alert, "the page has a table"


def test_the_page_lists_the_metrics_that_there_are():
    assert metrics_page.PAGE.read_text(encoding="utf-8") == metrics_page.text().rstrip() + "\n", "run: make docs"


def test_an_endpoint_shows_the_metrics_of_the_table_and_no_others():
    with ActorSystem("names") as system:
        text = generate_latest(registry_of(SystemCollector(system))).decode()
    shown = {name for name in re.findall(r"^# TYPE (\S+) ", text, re.MULTILINE) if name.startswith("streamactors_")}
    places = [title for title in TABLE if title not in ("A broker", "Members of `run --processes`")]
    assert shown == {family.name for title in places for family in TABLE[title]}
    assert len(list(text_string_to_metric_families(text))) > 10, "Prometheus' parser reads it"


def test_a_broker_shows_the_metrics_of_the_table_and_no_others():
    port = free_port()
    with Cluster(metrics_port=port) as cluster:
        cluster.create_topic("t")
        text = cluster_text(cluster, port)
    shown = set(re.findall(r"^# TYPE (streamactors_\S+) ", text, re.MULTILINE))
    assert shown == {family.name for family in TABLE["A broker"]}
    assert re.search(r'^streamactors_broker_log_bytes\{topic="t"\} 0', text, re.MULTILINE)


@pytest.mark.parametrize("file", sorted(used_names()))
def test_grafana_and_prometheus_use_names_that_there_are(file):
    used = used_names()[file]
    known = {family.name for family in FAMILIES} | OTHERS
    assert used <= known
    assert len(used) > 10


def test_each_alert_of_the_table_has_a_rule():
    alerts = used_names()["prometheus-alerts.yml"]
    by_hand = {"streamactors_graph_runs", "streamactors_window_stream_time_seconds", "streamactors_window_dropped_rows_total",
               "streamactors_spark_batches_total", "streamactors_spark_last_batch_seconds", "streamactors_member_restarts",
               "streamactors_kafka_transaction_aborts_total"}  # fmt: skip
    assert {family.name for family in FAMILIES if family.alert} - by_hand <= alerts


def test_a_hostile_label_stays_in_its_line():
    from streamactors.metric_family import gauge

    registry = CollectorRegistry()

    class Hostile:
        def collect(self):
            yield gauge("streamactors_x", ("graph",), "Says").metric([(('a"} 1\nstreamactors_forged 2\n\\',), 1.0)])

    registry.register(Hostile())
    lines = generate_latest(registry).decode().splitlines()
    assert [line for line in lines if line.startswith("streamactors_forged")] == []
