"""A quorum of two controllers of Apache Kafka and one of our nodes, which is a broker too: either can lead, and continues the other's log."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from streamactors.broker.launch.storage_format import format_folder
from streamactors.broker.wire_request import call, create_topic
from tests.differential.apache_kafka import broker as apache
from tests.differential.apache_kafka.broker import CLUSTER_ID, _free_ports
from tests.differential.apache_kafka.cluster import ApacheNode
from tests.differential.our_node import OurNode

pytestmark = [
    pytest.mark.differential,
    pytest.mark.slow,
    pytest.mark.skipif(not apache.found(), reason="Java or Maven is not here"),
    pytest.mark.timeout(300),
]
OURS, THEIRS = 3, (1, 2)
WITHIN_S = 90.0
QUORUM = {"topics": [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]}


class Quorum:
    """`patience_ms` is the election timeout of our node, `their_patience_ms` that of the others: the least patient is elected."""

    def __init__(self, folder: Path, patience_ms: int, their_patience_ms: int) -> None:
        self.ports = dict(zip((*THEIRS, OURS), _free_ports(3), strict=True))
        self.voters = ",".join(f"{node}@127.0.0.1:{port}" for node, port in self.ports.items())
        settings = {
            "broker.session.timeout.ms": "3000",
            "controller.quorum.election.timeout.ms": str(their_patience_ms),
        }
        self.theirs = {
            node: ApacheNode(
                folder / str(node), node, "controller", voters=self.voters, port=self.ports[node], settings=settings
            )
            for node in THEIRS
        }
        format_folder(folder / str(OURS), OURS, CLUSTER_ID)
        self.ours = OurNode(folder / str(OURS), OURS, "", {"controller.quorum.election.timeout.ms": patience_ms})
        self.ours._listen.append(f"CONTROLLER://127.0.0.1:{self.ports[OURS]}")
        self.ours._settings |= {
            "process.roles": "broker,controller",
            "controller.quorum.voters": self.voters,
            "controller.listener.names": "CONTROLLER",
        }
        del self.ours._settings["controller.quorum.bootstrap.servers"]

    def start(self, *theirs: int, ours_last: bool) -> None:
        """Start nodes of theirs, and ours at the same time or when they can be asked."""
        for node in theirs:
            self.theirs[node].start()
        for node in theirs if ours_last else ():
            until(lambda node=node: listens(self.ports[node]), f"controller {node} listens")  # type: ignore[misc]
        self.ours.start()

    def await_whole_log(self) -> None:
        """Wait until every voter has everything."""
        until(
            lambda: len({each.log_end_offset for each in self.described().current_voters}) == 1,
            "every voter has the whole log",
        )

    def described(self) -> Any:
        """The quorum as its leader tells our broker, which asks on until there is one."""
        return call(self.ours.address, (55, 2), QUORUM).topics[0].partitions[0]

    def one_of_theirs_leads(self) -> bool:
        # Only the leader describes the quorum. DescribeCluster names no leader that is not registered as a controller.
        answers = (call(f"127.0.0.1:{self.ports[node]}", (55, 2), QUORUM) for node in THEIRS)
        return any(each.topics[0].partitions[0].leader_id in THEIRS for each in answers if each.topics)

    def stop(self) -> None:
        self.ours.stop()
        for node in self.theirs.values():
            node.kill()


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Callable[[int, int], Quorum]]:
    quorums: list[Quorum] = []

    def make(patience_ms: int, their_patience_ms: int) -> Quorum:
        quorums.append(Quorum(tmp_path, patience_ms, their_patience_ms))
        return quorums[-1]

    yield make
    for each in quorums:
        each.stop()


def until(there: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + WITHIN_S
    while not there():
        assert time.monotonic() < deadline, what
        time.sleep(0.1)


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def topics_of(folder: Path) -> set[str]:
    """The topics in a metadata log, as Apache Kafka's tool reads it."""
    logs = sorted((folder / "__cluster_metadata-0").glob("*.log"))
    told = apache.tool(
        *("org.apache.kafka.tools.DumpLogSegments", "--cluster-metadata-decoder", "--skip-record-metadata"),
        *("--files", ",".join(map(str, logs))),
    )
    return {line.split('"name":"')[1].split('"')[0] for line in told.splitlines() if '"TOPIC_RECORD"' in line}


def test_our_vote_elects_their_leader_and_we_follow_and_go_on_with_its_log(
    made: Callable[[int, int], Quorum], tmp_path: Path
) -> None:
    quorum = made(6_000, 1_000)
    first, second = THEIRS
    quorum.start(first, ours_last=True)  # one of three: it needs our vote, and asks for it before we would ask for its
    assert quorum.described().leader_id == first
    create_topic(quorum.ours.address, "one", 1, {})
    quorum.theirs[second].start()
    quorum.await_whole_log()
    quorum.theirs[first].kill()
    create_topic(quorum.ours.address, "two", 1, {})  # two of three are left, and both have everything
    assert quorum.described().leader_id in (second, OURS)
    quorum.theirs[first].start()
    create_topic(quorum.ours.address, "three", 1, {})
    quorum.await_whole_log()
    quorum.ours.stop()
    assert topics_of(tmp_path / str(OURS)) == {"one", "two", "three"}


def test_we_lead_their_voters_and_they_go_on_with_the_log_that_we_wrote(
    made: Callable[[int, int], Quorum], tmp_path: Path
) -> None:
    # Only our node asks for votes in time, also when it starts in more than 3 s beside load.
    quorum = made(200, 10_000)
    quorum.start(*THEIRS, ours_last=False)  # a node of ours starts faster than one of theirs
    assert quorum.described().leader_id == OURS
    create_topic(quorum.ours.address, "ours", 1, {})
    quorum.await_whole_log()
    told = apache.tool(
        "org.apache.kafka.tools.MetadataQuorumCommand",
        *("--bootstrap-controller", f"127.0.0.1:{quorum.ports[OURS]}", "describe", "--replication"),
    )
    lines = [line.split() for line in told.splitlines()[1:] if line.strip()]
    assert {(line[0], line[-1]) for line in lines} == {("1", "Follower"), ("2", "Follower"), ("3", "Leader")}
    quorum.ours.kill()
    until(quorum.one_of_theirs_leads, "one of theirs leads")
    quorum.ours.start()  # follows
    assert quorum.described().leader_id in THEIRS
    create_topic(quorum.ours.address, "theirs", 1, {})
    quorum.ours.stop()
    assert topics_of(tmp_path / str(OURS)) == {"ours", "theirs"}
    for node in quorum.theirs.values():
        node.kill()
        assert topics_of(node.folder) == {"ours", "theirs"}
