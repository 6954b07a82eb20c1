"""The fixtures that a user's tests get by installing the package."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import confluent_kafka
import pytest

if TYPE_CHECKING:
    from streamactors.broker import Cluster

_seen: list[str] = []


def partitions_of(broker: Cluster, topic: str) -> int | None:
    producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap_servers})
    found = producer.list_topics(timeout=10).topics.get(topic)
    return None if found is None else len(found.partitions)


@pytest.mark.parametrize("turn", [1, 2])
def test_every_test_has_a_fresh_topic_and_the_last_ones_is_gone(
    kafka_broker: Cluster, kafka_topic: str, turn: int
) -> None:
    assert partitions_of(kafka_broker, kafka_topic) == 1
    assert kafka_topic.startswith("test_every_test_has_a_fresh_topic")
    for earlier in _seen:
        assert partitions_of(kafka_broker, earlier) is None
    assert kafka_topic not in _seen
    _seen.append(kafka_topic)


@pytest.mark.kafka_topic(3)
def test_a_test_says_how_many_partitions_it_wants(kafka_broker: Cluster, kafka_topic: str) -> None:
    assert partitions_of(kafka_broker, kafka_topic) == 3


@pytest.mark.kafka_topic(partitions=2)
def test_or_says_so_by_name(kafka_broker: Cluster, kafka_topic: str) -> None:
    assert partitions_of(kafka_broker, kafka_topic) == 2  # the name was overlooked, and the topic had one


WRONG_MARKERS = """
import pytest

@pytest.mark.kafka_topic(parts=2)
def test_another_name(kafka_topic): pass

@pytest.mark.kafka_topic(2, 3)
def test_too_many(kafka_topic): pass
"""


def test_a_marker_that_says_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "test_wrong.py").write_text(WRONG_MARKERS)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_wrong.py"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60)
    assert ran.returncode == pytest.ExitCode.TESTS_FAILED
    assert "2 errors" in ran.stdout
    assert ran.stdout.count("its form is kafka_topic(partitions=3)\n") >= 2


def test_the_plugin_costs_a_test_run_nothing_until_a_fixture_is_used() -> None:
    code = """
import sys
import streamactors.testing.pytest_plugin
print([name for name in sys.modules if name.startswith(("streamactors.broker", "confluent_kafka", "thespian", "reactivex"))])
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert ran.stdout == "[]\n"
