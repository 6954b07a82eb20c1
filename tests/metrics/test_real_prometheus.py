"""A real Prometheus (Debian's) scrapes a running pipeline and its broker: the dashboard's queries return series, and alerts fire where they should.

Skipped where the programs are missing: apt-get install prometheus."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from pathlib import Path

import confluent_kafka as ck
import pytest

from streamactors.broker import Cluster
from streamactors.broker.cluster.reserved_ports import free_port

ROOT = Path(__file__).parents[2]
MONITORING = ROOT / "docs" / "monitoring"
TOOLS = shutil.which("prometheus"), shutil.which("promtool")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(None in TOOLS, reason="no prometheus or promtool: apt-get install prometheus"),
]

GRAPH = """
import os
import time

from streamactors import Directive
from streamactors.kafka import *

settings = ConsumerSettings(os.environ["KAFKA"], group_id="orders", auto_offset_reset="earliest")
producing = ProducerSettings(os.environ["KAFKA"])


def price(record):
    time.sleep(0.002)
    if record.offset % 50 == 49:
        raise ValueError("no price")
    return ProducerRecord("priced", record.value)


graph = (
    Consumer.source(settings, Subscriptions.topics("orders"))
    .map(price)
    .with_attributes(decider=lambda _: Directive.RESUME)
    .to(Producer.plain_sink(producing))
    .named("pricing")
)
"""

ABSENT = {
    # what this pipeline has not: transactions, dead letters, windows, stores, Spark, members, and restarts of a stage
    "streamactors_kafka_transaction_", "streamactors_kafka_dead_letters_", "streamactors_window_", "streamactors_store_", "streamactors_spark_",
    "streamactors_member_", "streamactors_stage_restarts_",
}  # fmt: skip


class Prometheus:
    """A server with its configuration and data in a folder."""

    def __init__(self, folder: Path, targets: dict[str, tuple[int, str]], rules: str) -> None:
        self.port = free_port()
        (folder / "rules.yml").write_text(rules)
        jobs = []
        for job, (port, token) in targets.items():
            (folder / f"{job}.token").write_text(token)
            jobs.append(
                {
                    "job_name": job,
                    "authorization": {"credentials_file": str(folder / f"{job}.token")},
                    "static_configs": [{"targets": [f"127.0.0.1:{port}"]}],
                }
            )
        config = {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "scrape_configs": jobs,
            "rule_files": [str(folder / "rules.yml")],
        }
        (folder / "prometheus.yml").write_text(json.dumps(config))  # JSON is YAML
        self._log = (folder / "prometheus.log").open("w")
        arguments = [
            TOOLS[0] or "",
            f"--config.file={folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{self.port}",
        ]
        self._process = subprocess.Popen(arguments, stdout=self._log, stderr=subprocess.STDOUT)

    def get(self, path: str, **query: str) -> dict:
        url = f"http://127.0.0.1:{self.port}/api/v1/{path}?{urllib.parse.urlencode(query)}"
        with urllib.request.urlopen(url, timeout=30) as answer:
            return json.load(answer)["data"]

    def query(self, expression: str) -> list[dict]:
        return self.get("query", query=expression)["result"]

    def up(self) -> list[str]:
        with contextlib.suppress(OSError):
            return sorted(each["metric"]["job"] for each in self.query("up == 1"))
        return []

    def firing(self) -> set[str]:
        return {each["labels"]["alertname"] for each in self.get("alerts")["alerts"] if each["state"] == "firing"}

    def close(self) -> None:
        self._process.terminate()
        self._process.wait(30)
        self._log.close()


def until(condition, seconds=120.0):
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, "it did not come true"
        time.sleep(0.5)
    return found


def quick_rules() -> str:
    """Return the alerts as they are shipped, with seconds in place of minutes: the test waits for them."""
    text = (MONITORING / "prometheus-alerts.yml").read_text()
    for span in ("30m", "15m", "10m", "5m", "1m"):
        text = text.replace(f"for: {span}", "for: 2s")
    return text.replace("> 300", "> 3")


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """A broker, a pipeline that is too slow and drops elements, and a Prometheus that scrapes both."""
    folder = tmp_path_factory.mktemp("prometheus")
    (folder / "pricing.py").write_text(GRAPH)
    (folder / "token").write_text("stream-token")
    broker_port, run_port = free_port(), free_port()
    with contextlib.ExitStack() as undo:
        cluster = undo.enter_context(Cluster(metrics_port=broker_port))
        cluster.create_topic("orders", 2)
        cluster.create_topic("priced", 1)
        producer = ck.Producer({"bootstrap.servers": cluster.bootstrap_servers})
        for number in range(60_000):
            producer.produce("orders", b"x" * 20, partition=number % 2)
            if not number % 5_000:
                producer.flush(30)
        assert not producer.flush(30)
        del producer
        run = subprocess.Popen(
            [sys.executable, "-m", "streamactors.cli.main", "run", f"{folder / 'pricing.py'}:graph", "--log-level", "error",
             "--metrics-port", str(run_port), "--metrics-token-file", str(folder / "token")],
            env={**os.environ, "KAFKA": cluster.bootstrap_servers, "PYTHONPATH": str(ROOT)},
        )  # fmt: skip
        undo.callback(run.wait)
        undo.callback(run.terminate)
        targets = {"broker": (broker_port, cluster.metrics_token or ""), "streams": (run_port, "stream-token")}
        prometheus = Prometheus(folder, targets, quick_rules())
        undo.callback(prometheus.close)
        until(lambda: prometheus.up() == ["broker", "streams"] or run.poll() is not None)
        assert run.poll() is None, "the pipeline has ended"
        until(lambda: prometheus.query("streamactors_kafka_committed > 100"))
        time.sleep(5)  # a few scrapes more, for rates
        yield prometheus


def test_the_files_are_right_for_promtool(tmp_path):
    checked = subprocess.run(
        [TOOLS[1] or "", "check", "rules", str(MONITORING / "prometheus-alerts.yml")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert "19 rules found" in checked.stdout


FULL_DISK = """
rule_files: [prometheus-alerts.yml]
evaluation_interval: 1m
tests:
  - interval: 1m
    input_series:
      - series: streamactors_broker_disk_free_bytes{folder="full"}
        values: 900000x240
      - series: streamactors_broker_disk_free_bytes{folder="fills"}
        values: 90000000000-300000000x240
      - series: streamactors_broker_disk_free_bytes{folder="roomy"}
        values: 90000000000x240
    promql_expr_test:
      - expr: sum by (folder) (ALERTS{alertname="DiskFillsUp", alertstate="firing"})
        eval_time: 3h
        exp_samples:
          - {labels: '{folder="full"}', value: 1}
          - {labels: '{folder="fills"}', value: 1}
"""


def test_a_disk_that_is_full_keeps_its_alert(tmp_path):
    # Free bytes that stay at 0.9 MB predict no further fall: the alert ended when the disk was full.
    shutil.copy(MONITORING / "prometheus-alerts.yml", tmp_path)
    (tmp_path / "full.yml").write_text(FULL_DISK)
    program = [TOOLS[1] or "", "test", "rules", str(tmp_path / "full.yml")]
    checked = subprocess.run(program, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_promtool_finds_nothing_wrong_with_the_names(world):
    names = world.get("label/__name__/values")
    lines = "".join(f"# HELP {name} x\n# TYPE {name} {'counter' if name.endswith('_total') else 'gauge'}\n{name} 1\n" for name in names if name.startswith("streamactors_"))  # fmt: skip
    checked = subprocess.run(
        [TOOLS[1] or "", "check", "metrics"], input=lines, capture_output=True, text=True, check=False
    )
    assert checked.stdout + checked.stderr == ""


def test_every_query_of_the_dashboard_returns_series(world):
    board = json.loads((MONITORING / "grafana-dashboard.json").read_text())
    queries = [target["expr"] for panel in board["panels"] for target in panel.get("targets", ())]
    empty = [query for query in queries if not world.query(query.replace("$__rate_interval", "10s"))]
    assert [query for query in empty if not any(name in query for name in ABSENT)] == []


def test_the_rates_that_prometheus_computes_are_those_of_the_pipeline(world):
    (delivered,) = world.query('rate(streamactors_kafka_delivered_total{graph="pricing"}[10s])')
    (appended,) = world.query('rate(streamactors_broker_log_end_offset_total{topic="priced"}[10s])')
    assert float(appended["value"][1]) > 0
    assert 0.3 < float(appended["value"][1]) / float(delivered["value"][1]) < 3


def test_alerts_fire_in_the_situations_that_they_are_for(world):
    """The pipeline is minutes behind by the clock of the test, drops each fiftieth record, and its group has much to read."""
    expected = {"StreamIsLate", "ElementsDropped"}
    until(lambda: expected <= world.firing())
    assert not world.firing() & {
        "PartitionsOffline",
        "PartitionsUnderReplicated",
        "MemberDown",
        "RecordsNotWritten",
        "DeadLetters",
    }
