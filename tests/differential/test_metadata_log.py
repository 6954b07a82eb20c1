"""Apache Kafka's dump-log tool over our metadata log and its snapshot; our reader over the metadata log that Kafka wrote."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from streamactors.broker import Cluster
from streamactors.broker.controller.rules.release_levels import default_levels, level_of_release
from streamactors.broker.launch.storage_format import format_folder, new_cluster_id
from streamactors.broker.metadata.image import MetadataImage
from streamactors.broker.metadata.loader import MetadataLoader, batch_records
from streamactors.broker.records.batch import iter_batches
from tests.differential.apache_kafka import broker as apache
from tests.differential.mixed_cluster import wait_until

pytestmark = [
    pytest.mark.differential,
    pytest.mark.skipif(not apache.found(), reason="Java or Maven is not here"),
    pytest.mark.timeout(300),
]


def dump(file: Path) -> list[tuple[str, dict[str, object]]]:
    """Return (type, data) of the records that Kafka's tool reads in a metadata file."""
    told = apache.tool("org.apache.kafka.tools.DumpLogSegments", "--cluster-metadata-decoder", "--files", str(file))
    assert "isvalid: false" not in told
    payloads = [json.loads(line) for line in re.findall(r"payload: (\{.*\})", told)]
    return [(payload["type"], payload["data"]) for payload in payloads]


def test_kafka_reads_our_metadata_log(tmp_path: Path) -> None:
    with Cluster(data=tmp_path) as cluster:
        cluster.create_topic("kept", 2, {"retention.ms": "77"})
        cluster.create_topic("gone")
        cluster.delete_topic("gone")
    told = dump(tmp_path / "__cluster_metadata-0" / "00000000000000000000.log")
    kinds = [kind for kind, _ in told]
    levels = kinds.count("FEATURE_LEVEL_RECORD")
    begin = {str(data["name"]): data["featureLevel"] for _, data in told[:levels]}
    expected = default_levels()
    del expected["kraft.version"]  # the only voter is named by no record
    assert begin == expected
    assert kinds[levels:] == [
        "CONFIG_RECORD",  # min.insync.replicas, on which the eligible leader replicas depend
        "REGISTER_BROKER_RECORD",
        "TOPIC_RECORD",
        "PARTITION_RECORD",
        "PARTITION_RECORD",
        "CONFIG_RECORD",
        "TOPIC_RECORD",
        "PARTITION_RECORD",
        "REMOVE_TOPIC_RECORD",
    ]
    topic, second, setting = (told[levels + place][1] for place in (2, 4, 5))
    assert topic["name"] == "kept"
    assert second["replicas"] == [1]
    assert setting == {"resourceType": 2, "resourceName": "kept", "name": "retention.ms", "value": "77"}


def test_kafka_reads_our_snapshot(tmp_path: Path) -> None:
    with Cluster(data=tmp_path, config={"metadata.log.max.record.bytes.between.snapshots": 1}) as cluster:
        cluster.create_topic("a", 2)
        cluster.create_topic("b")
    (snapshot,) = (tmp_path / "__cluster_metadata-0").glob("*.checkpoint")
    told = dump(snapshot)
    assert [data["name"] for kind, data in told if kind == "TOPIC_RECORD"] == ["a", "b"]
    assert sum(kind == "PARTITION_RECORD" for kind, _ in told) == 3


def test_kafkas_shell_walks_through_our_metadata(tmp_path: Path) -> None:
    # The newest shell that is served is of release 4.3, and reads no records of a later one.
    format_folder(tmp_path, 1, new_cluster_id(), {"metadata.version": level_of_release("4.3")})
    with Cluster(data=tmp_path, config={"metadata.log.max.record.bytes.between.snapshots": 1}) as cluster:
        cluster.create_topic("orders", 2, {"retention.ms": "77"})
    (snapshot,) = (tmp_path / "__cluster_metadata-0").glob("*.checkpoint")

    def shell(*command: str) -> str:
        arguments = ("--snapshot", str(snapshot), *command)
        return apache.tool("org.apache.kafka.shell.MetadataShell", *arguments, pom=apache.SHELL)

    def has_read() -> bool:  # a command can be faster than the shell's own reading of the file
        return shell("ls", "/image/topics/byName").split() == ["orders"]

    wait_until(has_read, lambda: "the shell has not read the topic")
    for command, wanted in (
        ("ls /image/topics/byName/orders", "0 1 id name"),
        ("cat /image/topics/byName/orders/1", "isr=[1]"),
        ("cat /image/configs/TOPIC:orders/retention.ms", "77"),
        ("ls /image/cluster/brokers", "1"),
    ):
        wait_until(
            lambda c=command, w=wanted: w in " ".join(shell(*c.split()).split()),  # type: ignore[misc]
            lambda c=command: shell(*c.split()),  # type: ignore[misc]
        )


def test_kafkas_storage_tool_knows_our_data_folder(tmp_path: Path) -> None:
    data, file = tmp_path / "data", tmp_path / "server.properties"
    with Cluster(data=data) as cluster:
        cluster_id = cluster.cluster_id
    file.write_text(
        f"node.id=1\nlog.dirs={data}\nprocess.roles=broker,controller\ncontroller.listener.names=CONTROLLER\n"
        "controller.quorum.voters=1@127.0.0.1:9093\nlisteners=PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093\n"
    )
    told = apache.tool("kafka.tools.StorageTool", "info", "--config", str(file), may_fail=True)
    assert f"Found log directory:\n  {data}" in told
    assert "node.id=1" in told
    assert cluster_id in told
    assert "problem" not in told


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
