"""`Consumer.shared_source` on Apache Kafka whose feature share.version is off."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamactors import Keep, Sink
from streamactors.kafka import Consumer, SharedSourceSettings
from streamactors.kafka.errors import NoShareGroups
from tests.differential.apache_kafka import broker as apache

pytestmark = [
    pytest.mark.differential,
    pytest.mark.skipif(not apache.found(), reason="Java or Maven is not here"),
    pytest.mark.timeout(600),
]


def test_a_cluster_without_the_feature_fails_the_source_with_the_way_out(tmp_path: Path) -> None:
    kafka = apache.ApacheKafka(tmp_path / "data")
    kafka.start()
    try:
        off = ["downgrade", "--feature", "share.version=0"]
        apache.tool("org.apache.kafka.tools.FeatureCommand", "--bootstrap-server", kafka.address, *off)
        created = ["--create", "--topic", "jobs"]
        apache.tool("org.apache.kafka.tools.TopicCommand", "--bootstrap-server", kafka.address, *created)
        source = Consumer.shared_source(SharedSourceSettings(kafka.address, "late"), "jobs")
        control, done = source.to_mat(Sink.ignore(), Keep.both).run()
        for error in (done.exception(60), control.is_shutdown.exception(60)):
            assert isinstance(error, NoShareGroups)
            assert "share.version=1" in str(error)
    finally:
        kafka.kill()
