"""Apache Kafka's command-line tools, the same commands to three nodes of Apache Kafka 4.4.0 and to three of ours: they print the same.

Left out of the comparison is what cannot be the same: ids, addresses, clocks and sizes. What is not the same and why is in DIFFERENCES."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

import pytest

from tests.differential.apache_kafka import broker as apache
from tests.differential.java_programs.jvm import Jvm
from tests.differential.three_nodes import ThreeNodes

pytestmark = [
    pytest.mark.differential,
    pytest.mark.slow,
    pytest.mark.skipif(not apache.found(), reason="Java or Maven is not here"),
    pytest.mark.timeout(900),
]

TOPICS, CONFIGS, ELECT, REASSIGN = (
    "TopicCommand",
    "ConfigCommand",
    "LeaderElectionCommand",
    "reassign.ReassignPartitionsCommand",
)
QUORUM, CLUSTER, FEATURES, VERSIONS = (
    "MetadataQuorumCommand",
    "ClusterTool",
    "FeatureCommand",
    "BrokerApiVersionsCommand",
)

# (name, tool, arguments); {s} are the brokers, {c} is the controller, {file} a plan of PLANS
COMMANDS: Final = [
    ("create", TOPICS, "--bootstrap-server {s} --create --topic a --replica-assignment 1:2:3,2:3:1,3:1:2"),
    ("create with the default factor", TOPICS, "--bootstrap-server {s} --create --topic d --partitions 1"),
    ("create with four replicas", TOPICS, "--bootstrap-server {s} --create --topic b --replication-factor 4"),
    ("create on an unknown broker", TOPICS, "--bootstrap-server {s} --create --topic b --replica-assignment 1:9"),
    ("create on a broker twice", TOPICS, "--bootstrap-server {s} --create --topic b --replica-assignment 1:1"),
    ("describe", TOPICS, "--bootstrap-server {s} --describe --topic a"),
    ("under-replicated", TOPICS, "--bootstrap-server {s} --describe --under-replicated-partitions"),
    ("grow", TOPICS, "--bootstrap-server {s} --alter --topic a --partitions 4 --replica-assignment 1:2:3,2:3:1,3:1:2,1:3:2"),
    ("grow with another factor", TOPICS, "--bootstrap-server {s} --alter --topic a --partitions 5 --replica-assignment 1:2:3,2:3:1,3:1:2,1:3:2,1"),
    ("describe, grown", TOPICS, "--bootstrap-server {s} --describe --topic a"),
    ("alter a topic", CONFIGS, "--bootstrap-server {s} --alter --entity-type topics --entity-name a --add-config retention.ms=77000"),
    ("alter a topic at the controller", CONFIGS, "--bootstrap-controller {c} --alter --entity-type topics --entity-name a --add-config retention.ms=78000"),
    ("a topic's settings", CONFIGS, "--bootstrap-server {s} --describe --entity-type topics --entity-name a"),
    ("alter a broker at the controller", CONFIGS, "--bootstrap-controller {c} --alter --entity-type brokers --entity-name 1 --add-config log.cleaner.backoff.ms=20000"),
    ("alter a broker", CONFIGS, "--bootstrap-server {s} --alter --entity-type brokers --entity-name 3 --add-config log.cleaner.backoff.ms=30000"),
    ("a broker's settings", CONFIGS, "--bootstrap-server {s} --describe --entity-type brokers --entity-name 3"),
    ("alter all brokers", CONFIGS, "--bootstrap-server {s} --alter --entity-type brokers --entity-default --add-config message.max.bytes=2000000"),
    ("alter all brokers at the controller", CONFIGS, "--bootstrap-controller {c} --alter --entity-type brokers --entity-default --add-config log.retention.ms=99999999"),
    ("defaults of brokers", CONFIGS, "--bootstrap-server {s} --describe --entity-type brokers --entity-default"),
    ("defaults of brokers at the controller", CONFIGS, "--bootstrap-controller {c} --describe --entity-type brokers --entity-default"),
    ("a client's quota at the controller", CONFIGS, "--bootstrap-controller {c} --alter --entity-type clients --entity-name x --add-config producer_byte_rate=1000000"),
    ("quotas", CONFIGS, "--bootstrap-server {s} --describe --entity-type clients"),
    ("quotas at the controller", CONFIGS, "--bootstrap-controller {c} --describe --entity-type clients"),
    ("a password at the controller", CONFIGS, "--bootstrap-controller {c} --alter --entity-type users --entity-name ann --add-config SCRAM-SHA-256=[iterations=4096,password=secret]"),
    ("a user", CONFIGS, "--bootstrap-server {s} --describe --entity-type users --entity-name ann"),
    ("elect preferred leaders", ELECT, "--bootstrap-server {s} --election-type preferred --all-topic-partitions"),
    ("elect a preferred leader", ELECT, "--bootstrap-server {s} --election-type preferred --topic a --partition 0"),
    ("elect uncleanly", ELECT, "--bootstrap-server {s} --election-type unclean --topic a --partition 0"),
    ("elect for an unknown topic", ELECT, "--bootstrap-server {s} --election-type preferred --topic none --partition 0"),
    ("reassign", REASSIGN, "--bootstrap-server {s} --reassignment-json-file {shrink} --execute"),
    ("verify", REASSIGN, "--bootstrap-server {s} --reassignment-json-file {shrink} --verify"),
    ("reassign to an unknown broker", REASSIGN, "--bootstrap-server {s} --reassignment-json-file {unknown} --execute"),
    ("reassign at the controller", REASSIGN, "--bootstrap-controller {c} --reassignment-json-file {whole} --execute"),
    ("list moves", REASSIGN, "--bootstrap-server {s} --list"),
    ("list moves at the controller", REASSIGN, "--bootstrap-controller {c} --list"),
    ("cancel", REASSIGN, "--bootstrap-server {s} --reassignment-json-file {whole} --cancel"),
    ("quorum status", QUORUM, "--bootstrap-server {s} describe --status"),
    ("quorum status at the controller", QUORUM, "--bootstrap-controller {c} describe --status"),
    ("quorum replication", QUORUM, "--bootstrap-server {s} describe --replication"),
    ("quorum replication at the controller", QUORUM, "--bootstrap-controller {c} describe --replication"),
    ("remove a controller", QUORUM, "--bootstrap-server {s} remove-controller --controller-id 7 --controller-directory-id AAAAAAAAAAAAAAAAAAAABw"),
    ("cluster id", CLUSTER, "cluster-id --bootstrap-server {s}"),
    ("cluster id at the controller", CLUSTER, "cluster-id --bootstrap-controller {c}"),
    ("endpoints", CLUSTER, "list-endpoints --bootstrap-server {s}"),
    ("endpoints with fenced ones", CLUSTER, "list-endpoints --bootstrap-server {s} --include-fenced-brokers"),
    ("endpoints at the controller", CLUSTER, "list-endpoints --bootstrap-controller {c}"),
    ("unregister an unknown broker", CLUSTER, "unregister --bootstrap-server {s} --id 99"),
    ("unregister an unknown broker at the controller", CLUSTER, "unregister --bootstrap-controller {c} --id 99"),
    ("features", FEATURES, "--bootstrap-server {s} describe"),
    ("features at the controller", FEATURES, "--bootstrap-controller {c} describe"),
    ("disable an unknown feature", FEATURES, "--bootstrap-server {s} disable --feature foo"),
    ("upgrade beyond", FEATURES, "--bootstrap-server {s} upgrade --feature group.version=7"),
    ("versions", VERSIONS, "--bootstrap-server {s}"),
    ("rights", "AclCommand", "--bootstrap-server {s} --list"),
    ("rights at the controller", "AclCommand", "--bootstrap-controller {c} --list"),
    ("folders", "LogDirsCommand", "--bootstrap-server {s} --describe --topic-list d"),
    ("topics at the controller", TOPICS, "--bootstrap-server {c} --list"),
    ("reassign with a throttle", REASSIGN, "--bootstrap-server {s} --reassignment-json-file {shrink} --execute --throttle 1000000"),
    ("settings under a throttle", CONFIGS, "--bootstrap-server {s} --describe --entity-type topics --entity-name a"),
    ("verify and take the throttle away", REASSIGN, "--bootstrap-server {s} --reassignment-json-file {shrink} --verify"),
    ("settings without a throttle", CONFIGS, "--bootstrap-server {s} --describe --entity-type topics --entity-name a"),
    ("delete", TOPICS, "--bootstrap-server {s} --delete --topic a"),
]  # fmt: skip
AFTER_A_DEATH: Final = [
    ("unavailable", TOPICS, "--bootstrap-server {s} --describe --unavailable-partitions"),
    ("under-replicated, one dead", TOPICS, "--bootstrap-server {s} --describe --topic f"),
    ("unregister a dead broker", CLUSTER, "unregister --bootstrap-server {s} --id 3"),
    ("endpoints without it", CLUSTER, "list-endpoints --bootstrap-server {s} --include-fenced-brokers"),
]
BEFORE_A_DEATH: Final = (
    "create for a death",
    TOPICS,
    "--bootstrap-server {s} --create --topic f --replica-assignment 1:2:3,2:3:1,3:1:2",
)
PLANS: Final = {
    "shrink": [{"topic": "a", "partition": 0, "replicas": [2, 1]}],
    "unknown": [{"topic": "a", "partition": 0, "replicas": [2, 9]}],
    "whole": [{"topic": "a", "partition": 0, "replicas": [1, 2, 3]}],
}
PATIENCE_S: Final = 10.0
_FEATURES = "our brokers support fewer features, at lower levels"
DIFFERENCES: Final = {
    "features": _FEATURES,
    "features at the controller": _FEATURES,
    "versions": "share groups and group.version are not offered here; 4.4.0 has stable versions only",
}


def _observers(found: re.Match[str]) -> str:
    return "observers: " + " ".join(sorted(re.findall(r'"id": (\d+)', found[0])))


BLOTTED: Final[tuple[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]], ...]] = (
    (re.compile(r"127\.0\.0\.1[: ]\d+"), "<address>"),
    (re.compile(r"\[\d{4}-\d\d-\d\d [\d:,]+\]|\b1[7-9]\d{11}\b"), "<time>"),
    (re.compile(r"TopicId: \S+|Cluster ID: \S+|ClusterId: +\S+"), "<id>"),
    (re.compile(r"HighWatermark: +\d+"), "<offset>"),
    (re.compile(r'"directoryId": "[^"]+", (?="endpoints")'), ""),  # the voter's folder is named here only
    (re.compile(r'"logDir":"[^"]+"|"[^"]*/(ours|theirs)/\d+"'), "<folder>"),
    (re.compile(r"^(\d\s+)\S{22}\s+\d+ *\t\d+ *", re.MULTILINE), r"\1<folder> <offset> <lag>"),  # spaces fill a column
    (re.compile(r"CurrentObservers: .*"), _observers),
    (re.compile(r"^\s+at .*\n", re.MULTILINE), ""),
    (re.compile(r" +$", re.MULTILINE), ""),
)


def play(
    jvm: Jvm, cluster: ThreeNodes, folder: Path, wanted: Mapping[str, str] = MappingProxyType({})
) -> dict[str, str]:
    """Run all commands; return what each printed.

    A change reaches a broker a moment after the controller has answered, in either cluster. So a question is asked again until the answer is
    the one that is `wanted`."""
    files = {}
    for name, partitions in PLANS.items():
        files[name] = folder / f"{name}.json"
        files[name].write_text(json.dumps({"version": 1, "partitions": partitions}))

    def run(name: str, tool: str, arguments: str) -> str:
        words = [each.format(s=cluster.servers, c=cluster.controller, **files) for each in arguments.split()]
        said = comparable(jvm.run(tool, *words))
        give_up = time.monotonic() + PATIENCE_S
        while (
            name in wanted
            and said != wanted[name]
            and not {"--describe", "--verify"}.isdisjoint(words)
            and time.monotonic() < give_up
        ):
            said = comparable(jvm.run(tool, *words))
        return said

    told = {name: run(name, tool, arguments) for name, tool, arguments in [*COMMANDS, BEFORE_A_DEATH]}
    cluster.nodes[3].kill()
    cluster.await_isr("f", {1, 2})
    return told | {name: run(name, tool, arguments) for name, tool, arguments in AFTER_A_DEATH}


def comparable(text: str) -> str:
    for pattern, instead in BLOTTED:
        text = pattern.sub(instead, text)
    return "\n".join(sorted(text.splitlines()))  # topics, settings and replicas come in the order of a hash table


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[str, str]]:
    """Command -> (what it says of Apache Kafka's nodes, what it says of ours)."""
    folder = tmp_path_factory.mktemp("three")
    with Jvm() as jvm:
        with ThreeNodes(folder / "theirs", ours=False) as cluster:
            theirs = play(jvm, cluster, folder)
        with ThreeNodes(folder / "ours", ours=True) as cluster:
            ours = play(jvm, cluster, folder, theirs)
    return {name: (theirs[name], ours[name]) for name in theirs}


@pytest.mark.parametrize("name", [name for name, _, _ in (*COMMANDS, BEFORE_A_DEATH, *AFTER_A_DEATH)])
def test_the_tool_says_the_same(told: dict[str, tuple[str, str]], name: str) -> None:
    theirs, ours = told[name]
    if name in DIFFERENCES:
        assert ours != theirs, f"it is the same by now: take {name!r} off the list of differences"
    else:
        assert ours == theirs
