"""Apache Kafka's own command-line tools, the same commands to Apache Kafka 4.4.0 and to this broker: they print the same.

Left out of the comparison is what cannot be the same: ids, addresses, clocks, rates and folders. What is not the same and why is
in DIFFERENCES.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Final

import pytest

from streamactors.broker import Cluster
from tests.differential.apache_kafka import broker as apache

pytestmark = [
    pytest.mark.differential,
    pytest.mark.slow,
    pytest.mark.skipif(not apache.found(), reason="Java or Maven is not here"),
    pytest.mark.timeout(900),
]

TOPICS, CONFIGS = "org.apache.kafka.tools.TopicCommand", "org.apache.kafka.tools.ConfigCommand"
OFFSETS, CLUSTER = "org.apache.kafka.tools.GetOffsetShell", "org.apache.kafka.tools.ClusterTool"
GROUPS, TRANSACTIONS = (
    f"org.apache.kafka.tools.{name}" for name in ("consumer.group.ConsumerGroupCommand", "TransactionsCommand")
)

# (name, main class, arguments); {at} is the broker's address
COMMANDS: Final = [
    ("create", TOPICS, "--create --topic a --partitions 3 --config retention.ms=1000000 --config cleanup.policy=compact,delete"),
    ("create again", TOPICS, "--create --topic a"),
    ("create with three replicas", TOPICS, "--create --topic b --replication-factor 3"),
    ("create with a bad name", TOPICS, "--create --topic a&b"),
    ("describe", TOPICS, "--describe --topic a"),
    ("describe what is not there", TOPICS, "--describe --topic none"),
    ("under-replicated", TOPICS, "--describe --under-replicated-partitions"),
    ("grow", TOPICS, "--alter --topic a --partitions 5"),
    ("shrink", TOPICS, "--alter --topic a --partitions 2"),
    ("a topic's settings", CONFIGS, "--describe --entity-type topics --entity-name a"),
    ("alter a topic", CONFIGS, "--alter --entity-type topics --entity-name a --add-config max.message.bytes=2000000,flush.ms=1000 --delete-config retention.ms"),
    ("a topic's settings, altered", CONFIGS, "--describe --entity-type topics --entity-name a"),
    ("all settings of a topic", CONFIGS, "--describe --all --entity-type topics --entity-name a"),
    ("an unknown setting", CONFIGS, "--alter --entity-type topics --entity-name a --add-config foo=bar"),
    ("a bad value", CONFIGS, "--alter --entity-type topics --entity-name a --add-config retention.ms=x"),
    ("alter all brokers", CONFIGS, "--alter --entity-type brokers --entity-default --add-config message.max.bytes=2000000,log.retention.ms=99999999"),
    ("defaults of brokers", CONFIGS, "--describe --entity-type brokers --entity-default"),
    ("alter a broker", CONFIGS, "--alter --entity-type brokers --entity-name 1 --add-config log.cleaner.backoff.ms=20000"),
    ("a broker's settings", CONFIGS, "--describe --entity-type brokers --entity-name 1"),
    ("quotas", CONFIGS, "--describe --entity-type clients"),
    ("produce", "org.apache.kafka.tools.ProducerPerformance", "--topic perf --num-records 5000 --record-size 100 --throughput -1 --producer-props bootstrap.servers={at} acks=all"),
    ("produce and verify", "org.apache.kafka.tools.VerifiableProducer", "--topic ver --max-messages 20 --acks -1"),
    ("consume and verify", "org.apache.kafka.tools.VerifiableConsumer", "--topic ver --group-id vg --max-messages 20 --reset-policy earliest"),
    ("consume on the console", "org.apache.kafka.tools.consumer.ConsoleConsumer", "--topic ver --from-beginning --max-messages 20 --property print.partition=true --property print.offset=true"),
    ("there and back", "org.apache.kafka.tools.EndToEndLatency", "--topic e2e --num-records 5 --producer-acks 1 --record-size 100"),
    ("latest offsets", OFFSETS, "--topic perf"),
    ("earliest offsets", OFFSETS, "--topic perf --time earliest"),
    ("a group", GROUPS, "--describe --group vg"),
    ("producers", TRANSACTIONS, "describe-producers --topic perf --partition 0"),
    ("transactions", TRANSACTIONS, "list"),
    ("reassignments", "org.apache.kafka.tools.reassign.ReassignPartitionsCommand", "--list"),
    ("elect", "org.apache.kafka.tools.LeaderElectionCommand", "--election-type preferred --all-topic-partitions"),
    ("versions", "org.apache.kafka.tools.BrokerApiVersionsCommand", ""),
    ("cluster id", CLUSTER, "cluster-id"),
    ("endpoints", CLUSTER, "list-endpoints"),
    ("features", "org.apache.kafka.tools.FeatureCommand", "describe"),
    ("quorum", "org.apache.kafka.tools.MetadataQuorumCommand", "describe --status"),
    ("delete", TOPICS, "--delete --topic a"),
    ("delete again", TOPICS, "--delete --topic a"),
]  # fmt: skip
WITHOUT_SERVER: Final = ("produce",)  # it takes the address in a way of its own
AFTER: Final = (CLUSTER,)

DIFFERENCES: Final = {
    "all settings of a topic": "record.validation is a setting that Apache Kafka does not have",
    "versions": "4.4.0 has stable versions only",
    "features": "this broker supports fewer features, at lower levels",
    "quorum": "the voter is known by its folder here and by its endpoint there",
}

BLOTTED: Final = (
    (re.compile(r"\[\d{4}-\d\d-\d\d [\d:,]+\]|\b1[7-9]\d{11}\b|\"timestamp\":\d+"), "<time>"),
    (re.compile(r"TopicId: \S+|Cluster ID: \S+|ClusterId: +\S+"), "<id>"),
    (re.compile(r"\b\d+([.,]\d+)? (ms|records/sec)|\(\d+[.,]\d+ MB/sec\)|\b\d+(st|th|\.9th)"), "<rate>"),
    (re.compile(r"\"avg_throughput\":[\d.]+|\b(Avg latency|Percentiles).*|^\d\t[\d.]+$", re.MULTILINE), "<rate>"),
    (re.compile(r"(\t|console-consumer-)\d+\.\d+|\bid: \d+ rack"), "<any>"),
    (re.compile(r"^\s+at .*\n", re.MULTILINE), ""),
    (re.compile(r" +$", re.MULTILINE), ""),
)


def play(address: str) -> dict[str, str]:
    """Run all commands; return what each printed, its exit code last."""
    told = {}
    for name, main, arguments in COMMANDS:
        words = arguments.format(at=address).split()
        server = [] if name in WITHOUT_SERVER else ["--bootstrap-server", address]
        words = [*words, *server] if main in AFTER else [*server, *words]
        java = ["java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", apache.classpath(), main]
        ran = subprocess.run([*java, *words], capture_output=True, text=True, timeout=120, check=False)
        told[name] = comparable(f"{ran.stdout}{ran.stderr}exit {ran.returncode}", address)
    return told


def comparable(text: str, address: str) -> str:
    host, port = address.split(":")
    text = text.replace(address, "<address>").replace(f"{host} {port}", "<address>").replace(port, "<port>")
    for pattern, instead in BLOTTED:
        text = pattern.sub(instead, text)
    return "\n".join(sorted(text.splitlines()))  # topics, settings and replicas come in the order of a hash table


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[str, str]]:
    """Command -> (what it says of Apache Kafka, what it says of us)."""
    kafka = apache.ApacheKafka(Path(tmp_path_factory.mktemp("kafka")) / "data")
    kafka.start()
    try:
        theirs = play(kafka.address)
    finally:
        kafka.stop()
    with Cluster(process=True, listen="127.0.0.1:0") as cluster:
        ours = play(cluster.bootstrap_servers)
    return {name: (theirs[name], ours[name]) for name in theirs}


@pytest.mark.parametrize("name", [name for name, _, _ in COMMANDS])
def test_the_tool_says_the_same(told: dict[str, tuple[str, str]], name: str) -> None:
    theirs, ours = told[name]
    if name in DIFFERENCES:
        assert ours != theirs, f"it is the same by now: take {name!r} off the list of differences"
    else:
        assert ours == theirs
