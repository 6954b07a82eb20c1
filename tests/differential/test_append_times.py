"""Apache Kafka 4.4.0 refuses to tell when a record was appended, and is asked once."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from streamactors.kafka import ConsumerSettings
from streamactors.kafka.client.offsets import append_times
from streamactors.kafka.client.offsets.append_times import AppendTimes
from streamactors.kafka.subscriptions import TopicPartition
from tests.differential.apache_kafka import broker as apache

pytestmark = [
    pytest.mark.differential,
    pytest.mark.slow,
    pytest.mark.skipif(not apache.found(), reason="Java or Maven is not here"),
    pytest.mark.timeout(600),
]


def test_apache_kafka_refuses_the_question(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(append_times, "EVERY_S", 0.0)
    theirs = apache.ApacheKafka(tmp_path / "data")
    theirs.start()
    try:
        _refused(theirs.address)
    finally:
        theirs.stop()


def _refused(address: str) -> None:
    admin = AdminClient({"bootstrap.servers": address})
    for future in admin.create_topics([NewTopic("t", 1, 1)]).values():
        future.result(30)
    times, answers, answered = AppendTimes(ConsumerSettings(address, "g")), [], threading.Event()
    assert times.ask(TopicPartition("t", 0), 0, lambda ms: (answers.append(ms), answered.set()))
    assert answered.wait(60)
    assert answers == [None]
    assert not times.answers
    assert not times.ask(TopicPartition("t", 0), 0, answers.append)
    times.close()
