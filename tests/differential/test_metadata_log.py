"""Apache Kafka's dump-log tool over our metadata log and its snapshot; our reader over the metadata log that Kafka wrote."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from streamactors.broker import Cluster
from streamactors.broker.metadata.image import MetadataImage
from streamactors.broker.metadata.loader import MetadataLoader, batch_records
from streamactors.broker.records.batch import iter_batches
from tests.differential.apache_kafka import broker as apache

pytestmark = [
    pytest.mark.differential,
    pytest.mark.skipif(not apache.found(), reason="Java or Maven is not here"),
    pytest.mark.timeout(300),
]


def dump(file: Path) -> list[tuple[str, dict[str, object]]]:
    """Return (type, data) of the records that Kafka's tool reads in a metadata file."""
    told = apache.tool("kafka.tools.DumpLogSegments", "--cluster-metadata-decoder", "--files", str(file))
    assert "isvalid: false" not in told
    payloads = [json.loads(line) for line in re.findall(r"payload: (\{.*\})", told)]
    return [(payload["type"], payload["data"]) for payload in payloads]


def test_kafka_reads_our_metadata_log(tmp_path: Path) -> None:
    with Cluster(data=tmp_path) as cluster:
        cluster.create_topic("kept", 2, {"retention.ms": "77"})
        cluster.create_topic("gone")
        cluster.delete_topic("gone")
    told = dump(tmp_path / "__cluster_metadata-0" / "00000000000000000000.log")
    assert [kind for kind, _ in told] == [
        "REGISTER_BROKER_RECORD",
        "TOPIC_RECORD",
        "PARTITION_RECORD",
        "PARTITION_RECORD",
        "CONFIG_RECORD",
        "TOPIC_RECORD",
        "PARTITION_RECORD",
        "REMOVE_TOPIC_RECORD",
    ]
    assert told[1][1]["name"] == "kept"
    assert told[3][1]["replicas"] == [1]
    assert told[4][1] == {"resourceType": 2, "resourceName": "kept", "name": "retention.ms", "value": "77"}


def test_kafka_reads_our_snapshot(tmp_path: Path) -> None:
    with Cluster(data=tmp_path, config={"metadata.log.max.record.bytes.between.snapshots": 1}) as cluster:
        cluster.create_topic("a", 2)
        cluster.create_topic("b")
    (snapshot,) = (tmp_path / "__cluster_metadata-0").glob("*.checkpoint")
    told = dump(snapshot)
    assert [data["name"] for kind, data in told if kind == "TOPIC_RECORD"] == ["a", "b"]
    assert sum(kind == "PARTITION_RECORD" for kind, _ in told) == 3


def test_we_read_the_metadata_log_that_kafka_wrote(tmp_path: Path) -> None:
    kafka = apache.ApacheKafka(tmp_path / "kafka")
    kafka.start()
    try:
        with_topic(kafka.address, "theirs", 3)
    finally:
        kafka.stop()
    content = (tmp_path / "kafka" / "__cluster_metadata-0" / "00000000000000000000.log").read_bytes()
    loader = MetadataLoader(MetadataImage())
    for batch in iter_batches(memoryview(bytearray(content))):
        batch.ensure_valid()
        loader.replay(batch_records(batch), batch.last_offset)
    delta = loader.take()
    assert delta is not None
    image = delta.image
    assert len(image.topics["theirs"].partitions) == 3
    assert image.brokers[1].endpoint("PLAINTEXT") is not None
    assert image.features["metadata.version"] >= 1


def with_topic(address: str, name: str, partitions: int) -> None:
    from streamactors.broker.wire_request import create_topic

    create_topic(address, name, partitions, {})
