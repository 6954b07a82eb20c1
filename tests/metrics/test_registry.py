"""What an endpoint shows beside our own metrics: the user's, those of the process, and nothing twice."""

from __future__ import annotations

import re

import pytest
from prometheus_client import CollectorRegistry, Counter, generate_latest

from streamactors import ActorSystem, Sink, Source
from streamactors.metrics import collector
from streamactors.metrics.kafka import COLLECTOR
from streamactors.metrics.registry import SystemCollector, WithTheUsers, registry_of


@pytest.fixture
def system():
    with ActorSystem("registry") as system:
        yield system


def shown(own, users):
    registry = CollectorRegistry()
    registry.register(WithTheUsers(own, users))
    return generate_latest(registry).decode()


def test_the_users_metrics_and_the_processes_are_there_too(system):
    counter = Counter("shop_orders", "Orders that were seen")
    counter.inc(3)
    text = generate_latest(registry_of(SystemCollector(system))).decode()
    assert "shop_orders_total 3.0" in text
    assert "process_cpu_seconds_total" in text
    assert "python_gc_collections_total" in text


def test_a_collector_that_the_user_registered_is_not_shown_twice(system):
    users = CollectorRegistry()
    users.register(COLLECTOR)
    users.register(collector(system))
    types = re.findall(r"^# TYPE (\S+)", shown(SystemCollector(system), users), re.MULTILINE)
    assert len(types) == len(set(types))
    assert "streamactors_kafka_lag" in types


@pytest.mark.expects_log("a collector that this program has registered failed")
def test_a_collector_of_the_user_that_fails_leaves_ours(system):
    class Broken:
        def collect(self):
            raise RuntimeError("no database")

        def describe(self):
            return []

    users = CollectorRegistry()
    users.register(Broken())
    assert "# TYPE streamactors_kafka_lag gauge" in shown(SystemCollector(system), users)


def test_a_program_of_its_own_registers_one_collector(system):
    registry = CollectorRegistry()
    registry.register(collector(system))
    Source.never().to(Sink.ignore()).named("waits").run(system)
    assert registry.get_sample_value("streamactors_graph_runs", {"graph": "waits"}) == 1.0
