"""Scripts named like Apache Kafka's: what a fixture made for Apache Kafka does with them, on this broker."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from streamactors.broker.cluster.reserved_ports import free_port
from tests.compat.kafka_shims.write import write_scripts

pytestmark = [
    pytest.mark.compat,
    pytest.mark.slow,
    pytest.mark.expects_log("this broker has no such threads or queues"),  # PROPERTIES below are those of Apache Kafka
]

# As kafka-python's fixtures render it, an authorizer that allows everybody included.
PROPERTIES = """
process.roles=broker,controller
node.id=7
controller.quorum.bootstrap.servers=localhost:{controller}
listeners=PLAINTEXT://localhost:{port},CONTROLLER://localhost:{controller}
inter.broker.listener.name=PLAINTEXT
controller.listener.names=CONTROLLER
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
allow.everyone.if.no.acl.found=true
num.network.threads=2
num.io.threads=2
socket.request.max.bytes=104857600
log.dirs={data}
num.partitions=4
default.replication.factor=1
replica.lag.time.max.ms=1000
offsets.topic.replication.factor=1
offsets.topic.num.partitions=2
group.initial.rebalance.delay.ms=0
"""
CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A KAFKA_HOME made of shims, with a rendered server.properties."""
    home = tmp_path_factory.mktemp("kafka home")  # with a space, as on other people's machines
    write_scripts(home)
    port = free_port()
    rendered = PROPERTIES.format(port=port, controller=free_port([port]), data=home / "data")
    (home / "server.properties").write_text(rendered)
    (home / "port").write_text(str(port))
    return home


def script(home: Path, name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [str(home / "bin" / name), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture(scope="module")
def bootstrap(home: Path) -> Iterator[str]:
    config = str(home / "server.properties")
    formatted = script(home, "kafka-storage.sh", "format", "--standalone", "-t", CLUSTER_ID, "-c", config)
    assert formatted.returncode == 0, formatted.stderr
    again = script(home, "kafka-storage.sh", "format", "-t", CLUSTER_ID, "-c", config)
    assert (again.returncode, "already formatted" in again.stderr) == (1, True)
    command = [str(home / "bin" / "kafka-run-class.sh"), "kafka.Kafka", config]
    broker = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )
    assert broker.stdout is not None
    try:
        pattern = re.compile(r"\[KafkaRaftServer nodeId=7\] Kafka Server started")
        assert any(pattern.search(line) for line in iter(broker.stdout.readline, "")), "it did not start"
        yield f"localhost:{(home / 'port').read_text()}"
    finally:
        os.killpg(broker.pid, signal.SIGTERM)
        broker.communicate(timeout=20)
    assert broker.returncode in (0, -signal.SIGTERM)


def test_the_formatted_cluster_id_is_the_clusters(home: Path, bootstrap: str) -> None:
    assert f"cluster.id={CLUSTER_ID}" in (home / "data" / "meta.properties").read_text()


def test_topics(home: Path, bootstrap: str) -> None:
    def topics(*arguments: str) -> subprocess.CompletedProcess[str]:
        return script(home, "kafka-topics.sh", "--bootstrap-server", bootstrap, *arguments)

    made = topics(
        "--create", "--topic", "a", "--partitions", "2", "--replication-factor", "1", "--config", "retention.ms=60000"
    )
    assert (made.returncode, made.stdout) == (0, "Created topic a.\n")
    assert topics("--create", "--topic", "a", "--if-not-exists").returncode == 0
    refused = topics("--create", "--topic", "a")
    assert refused.returncode == 1
    assert refused.stdout.startswith("Error while executing topic command")
    assert "already exists" in refused.stdout
    assert "a" in topics("--list").stdout.split()  # the other tests have topics, too
    assert topics("--alter", "--topic", "a", "--partitions", "3").returncode == 0
    described = topics("--describe", "--topic", "a").stdout
    assert "Topic: a\tPartitionCount: 3\tReplicationFactor: 1\tConfigs: retention.ms=60000" in described
    assert "\tTopic: a\tPartition: 2\tLeader: 7\tReplicas: 7\tIsr: 7" in described

    def configs(*arguments: str) -> subprocess.CompletedProcess[str]:
        named = ("--entity-type", "topics", "--entity-name", "a")
        return script(home, "kafka-configs.sh", "--bootstrap-server", bootstrap, *named, *arguments)

    altered = configs(
        "--alter", "--add-config", "cleanup.policy=[compact,delete],retention.ms=7", "--delete-config", ""
    )
    assert altered.returncode == 0, altered.stderr
    assert "cleanup.policy=compact,delete" in configs("--describe").stdout
    assert topics("--delete", "--topic", "a").returncode == 0
    assert "a" not in topics("--list").stdout.split()
    assert topics("--delete", "--topic", "a", "--if-exists").returncode == 0


def test_groups(home: Path, bootstrap: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for _ in range(5):
        producer.produce("b", b"x", partition=1)
    producer.flush(10)
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "g"})
    consumer.commit(offsets=[TopicPartition("b", 1, 2)], asynchronous=False)
    consumer.close()

    def groups(*arguments: str) -> subprocess.CompletedProcess[str]:
        return script(home, "kafka-consumer-groups.sh", "--bootstrap-server", bootstrap, *arguments)

    assert groups("--list").stdout.split() == ["g"]
    described = groups("--describe", "--group", "g").stdout
    assert "Consumer group 'g' has no active members." in described
    lines = [line.split() for line in described.splitlines()[3:]]
    assert lines[0][:6] == ["GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG"]
    assert lines[1][:6] == ["g", "b", "1", "2", "5", "3"]
    reset = ("--reset-offsets", "--group", "g", "--topic", "b:1", "--shift-by", "2")
    assert groups(*reset).stdout.split()[-4:] == ["g", "b", "1", "4"]
    assert groups("--describe", "--all-groups").stdout.split()[-9:-6] == ["g", "b", "1"]
    assert groups("--describe", "--group", "g").stdout == described  # nothing was reset without --execute
    assert groups(*reset, "--execute").returncode == 0
    assert groups("--describe", "--group", "g").stdout.split()[-6] == "4"
    assert "succeeded" in groups("--delete-offsets", "--group", "g", "--topic", "b:1").stdout
    assert "CURRENT-OFFSET" not in groups("--describe", "--group", "g").stdout
    assert "successful" in groups("--delete", "--group", "g").stdout
    assert groups("--list").stdout == ""


def test_what_is_not_known_is_refused_by_name(home: Path) -> None:
    for name, *arguments in (
        ("kafka-run-class.sh", "org.apache.zookeeper.server.quorum.QuorumPeerMain", "x"),
        ("kafka-topics.sh", "--zookeeper", "localhost:2181", "--list"),
        ("kafka-consumer-groups.sh", "--bootstrap-server", "localhost:1"),
        ("kafka-consumer-groups.sh", "--bootstrap-server", "localhost:1", "--list", "--by-duration", "P1D"),
        ("kafka-transactions.sh", "--bootstrap-server", "localhost:1", "find-hanging"),
        ("kafka-storage.sh", "format"),
    ):
        ran = script(home, name, *arguments)
        assert ran.returncode == 2
        assert name in ran.stderr
        assert ran.stderr.count("\n") == 1


def test_acls_are_refused_as_without_an_authorizer(home: Path) -> None:
    ran = script(home, "kafka-acls.sh", "--bootstrap-server", "localhost:1", "--list")
    assert (ran.returncode, "No Authorizer is configured" in ran.stderr) == (1, True)
