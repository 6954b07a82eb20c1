"""Folders whose metadata log names the voters: Apache Kafka 4.4.0 reads ours and starts on them, and we start on those that it formatted."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamactors.broker.server.stored_quorum import voters_of_folder
from streamactors.broker.wire_request import create_topic
from streamactors.cli.main import run
from tests.broker.live_broker import LiveBroker
from tests.differential.apache_kafka import broker as apache
from tests.differential.apache_kafka.broker import CLUSTER_ID, _free_ports
from tests.differential.apache_kafka.cluster import ApacheNode

pytestmark = [
    pytest.mark.differential,
    pytest.mark.slow,
    pytest.mark.skipif(not apache.found(), reason="Java or Maven is not here"),
    pytest.mark.timeout(300),
]


def properties(file: Path, data: Path) -> str:
    """Write the settings of a standalone controller; return its address."""
    port, clients = _free_ports(2)
    file.write_text(
        f"node.id=1\nlog.dirs={data}\nprocess.roles=broker,controller\ncontroller.listener.names=CONTROLLER\n"
        f"controller.quorum.bootstrap.servers=127.0.0.1:{port}\n"
        f"listeners=PLAINTEXT://127.0.0.1:{clients},CONTROLLER://127.0.0.1:{port}\n"
        "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT\n"
    )
    return f"127.0.0.1:{port}"


def checkpoint_as_told(data: Path) -> list[str]:
    """The control records of a formatted folder, as Apache Kafka's tool prints them, without times."""
    file = data / "__cluster_metadata-0" / f"{0:020d}-{0:010d}.checkpoint"
    told = apache.tool("org.apache.kafka.tools.DumpLogSegments", "--cluster-metadata-decoder", "--files", str(file))
    told_records = [line.split("headerKeys: [] ")[1] for line in told.splitlines() if line.startswith("| ")]
    # From 4.4 on Apache Kafka's tool puts the features into this snapshot as well as into bootstrap.checkpoint; ours are in the latter alone.
    return [each for each in told_records if not each.startswith("payload: ")]


def test_both_tools_format_alike_and_read_the_folder_of_the_other(tmp_path: Path) -> None:
    told = []
    for name in ("ours", "theirs"):
        file, data = tmp_path / f"{name}.properties", tmp_path / name
        properties(file, data)
        voters = "1@127.0.0.1:9093:QEOMgVHXTfOVhlLkAbFR6A,2@localhost:9094:7rvIwioJRIaji02zL2jmuw"
        arguments = ["format", "-t", CLUSTER_ID, "-c", str(file), "--initial-controllers", voters]
        if name == "ours":
            assert run(["storage", *arguments]) == 0
        else:
            apache.tool("kafka.tools.StorageTool", *arguments)
        assert str(voters_of_folder(data)) == voters
        assert "directory.id=QEOMgVHXTfOVhlLkAbFR6A" in (data / "meta.properties").read_text().replace("\\", "")
        told.append([line for line in checkpoint_as_told(data) if not line.startswith("SnapshotHeader")])
    assert told[0] == told[1]
    assert [line.split()[0] for line in told[0]] == ["KRaftVersion", "KRaftVoters", "SnapshotFooter"]


def test_apache_kafka_starts_on_our_folder_and_goes_on_with_the_log_that_we_wrote(tmp_path: Path) -> None:
    file, data = tmp_path / "s.properties", tmp_path / "data"
    controller = properties(file, data)
    assert run(["storage", "format", "-t", CLUSTER_ID, "-c", str(file), "--standalone"]) == 0
    voters = voters_of_folder(data)
    settings = {
        "node.id": 1,
        "controller.quorum.bootstrap.servers": controller,
        "controller.listener.names": "CONTROLLER",
        "process.roles": "broker,controller",
        "listeners": f"PLAINTEXT://127.0.0.1:0,CONTROLLER://{controller}",
    }
    with LiveBroker(data, settings) as broker:
        create_topic(f"127.0.0.1:{broker.port}", "ours", 1, {})
    kafka = ApacheNode(
        *(data, 1, "broker,controller"),
        voters="",
        settings={"controller.quorum.bootstrap.servers": controller},
        controller_port=int(controller.rpartition(":")[2]),
    )
    kafka.start()
    try:
        kafka.await_broker()
        create_topic(kafka.address, "theirs", 1, {})
        status = apache.tool(
            "org.apache.kafka.tools.MetadataQuorumCommand",
            *("--bootstrap-server", kafka.address, "describe", "--status"),
        )
        assert str(voters).rpartition(":")[2] in status
    finally:
        kafka.stop()
    assert voters_of_folder(data) == voters
    with LiveBroker(data, settings) as broker:
        assert {"ours", "theirs"} <= broker.node.metadata.image.topics.keys()
