"""A quorum of our node and controllers of Apache Kafka whose voters are added and removed while it runs, by Apache Kafka's tool (KIP-853)."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest

from streamactors.broker.launch.storage_format import format_folder, read_folder
from streamactors.broker.log.disk import Disk
from streamactors.broker.log.partition_metadata import encode_uuid
from streamactors.broker.quorum.stored_voters import stored_voters
from streamactors.broker.quorum.voter_set import parse_voters
from streamactors.broker.wire_request import call, create_topic
from tests.differential.apache_kafka import broker as apache
from tests.differential.apache_kafka.broker import CLUSTER_ID, _free_ports
from tests.differential.apache_kafka.cluster import ApacheNode
from tests.differential.our_node import OurNode
from tests.differential.test_mixed_quorum import QUORUM, THEIRS, topics_of, until

pytestmark = [
    pytest.mark.differential,
    pytest.mark.slow,
    pytest.mark.skipif(not apache.found(), reason="Java or Maven is not here"),
    pytest.mark.timeout(400),
]
OURS = 3
TOOL = "org.apache.kafka.tools.MetadataQuorumCommand"
DIRECTORIES = {1: "QEOMgVHXTfOVhlLkAbFR6A", 2: "7rvIwioJRIaji02zL2jmuw", 3: "Zk8hUWXKT_OuNyKTmyTmSA"}


class Changing:
    """Nodes 1 and 2 are controllers of Apache Kafka, node 3 is a broker and a controller of ours. `first` begin as voters. With `joins`
    the others ask for their vote themselves."""

    def __init__(self, folder: Path, *first: int, joins: bool = False) -> None:
        self.folder = folder
        self.ports = dict(zip((*THEIRS, OURS), _free_ports(3), strict=True))
        addresses = {node: f"127.0.0.1:{port}" for node, port in self.ports.items()}
        named = ",".join(f"{node}@{addresses[node]}:{DIRECTORIES[node]}" for node in first)
        bootstrap = ",".join(addresses.values())
        auto = {"controller.quorum.auto.join.enable": str(joins).lower()}
        self.theirs = {
            node: ApacheNode(
                folder / str(node),
                node,
                "controller",
                voters="",
                port=self.ports[node],
                settings={
                    "controller.quorum.bootstrap.servers": bootstrap,
                    "broker.session.timeout.ms": "3000",
                    **auto,
                },
                format_options=("--initial-controllers", named) if node in first else ("--no-initial-controllers",),
            )
            for node in THEIRS
        }
        voters = parse_voters(named, "CONTROLLER") if OURS in first else None
        format_folder(folder / str(OURS), OURS, CLUSTER_ID, voters=voters)
        patience = {"controller.quorum.election.timeout.ms": 6_000}  # one of theirs is elected where one is there
        self.ours = OurNode(folder / str(OURS), OURS, bootstrap, {**patience, **auto})
        self.ours._listen.append(f"CONTROLLER://{addresses[OURS]}")
        self.ours._settings |= {"process.roles": "broker,controller", "controller.listener.names": "CONTROLLER"}

    def settings_of(self, node: int) -> Path:
        """The file of a controller's settings, which the tool reads."""
        if node in THEIRS:
            return self.folder / f"{node}.properties"
        file = self.folder / "ours.properties"
        file.write_text(
            f"node.id={OURS}\nlog.dirs={self.ours.folder}\nprocess.roles=controller\ncontroller.listener.names=CONTROLLER\n"
            f"listeners=CONTROLLER://127.0.0.1:{self.ports[OURS]}\ncontroller.quorum.bootstrap.servers=127.0.0.1:{self.ports[1]}\n"
        )
        return file

    def add(self, node: int, at: int) -> None:
        """Have the tool ask one controller to add another. A node that has not read the whole log is refused at first."""

        def added() -> bool:
            told = apache.tool(
                *(TOOL, "--command-config", str(self.settings_of(node))),
                *("--bootstrap-controller", f"127.0.0.1:{self.ports[at]}", "add-controller"),
                may_fail=True,
            )
            return f"Added controller {node}" in told or "already in the set of voters" in told

        until(added, f"{node} is added")

    def await_voters(self, voters: set[int]) -> None:
        """Wait until the leader says that these are the voters."""

        def voting() -> bool:
            for port in self.ports.values():
                try:
                    answer = call(f"127.0.0.1:{port}", (55, 2), QUORUM)
                except OSError:
                    continue  # this node is not started
                partition = answer.topics[0].partitions[0] if answer.topics else None
                if partition is not None and not partition.error_code:
                    return {each.replica_id for each in partition.current_voters} == voters
            return False

        until(voting, f"{voters} are the voters")

    def remove(self, node: int, at: int) -> None:
        properties = read_folder(self.folder / str(node))
        assert properties is not None
        assert properties.directory_id is not None
        key = ("--controller-id", str(node), "--controller-directory-id", encode_uuid(properties.directory_id))
        told = apache.tool(*(TOOL, "--bootstrap-controller", f"127.0.0.1:{self.ports[at]}", "remove-controller", *key))
        assert "Removed" in told

    def described(self, at: int) -> tuple[int, set[int]]:
        """The leader and the voters, as the tool says."""
        told = apache.tool(TOOL, "--bootstrap-controller", f"127.0.0.1:{self.ports[at]}", "describe", "--replication")
        lines = [line.split() for line in told.splitlines()[1:] if line.strip()]
        leader = next(int(line[0]) for line in lines if line[-1] == "Leader")
        return leader, {int(line[0]) for line in lines if line[-1] in ("Leader", "Follower")}

    def await_one_of_theirs(self) -> None:
        """Wait until one of theirs leads. Their tool must not be asked earlier: a tool that hears of a dead leader gives up after a minute."""

        def leads() -> bool:
            answers = (call(f"127.0.0.1:{self.ports[node]}", (55, 2), QUORUM) for node in THEIRS)
            return any(each.topics[0].partitions[0].leader_id in THEIRS for each in answers if each.topics)

        try:
            until(leads, "one of theirs leads")
        except AssertionError as error:
            logs = {node: each.log.read_text()[-4_000:] for node, each in self.theirs.items()}
            raise AssertionError(f"{error}: {logs}") from None

    def leader_as_we_know(self) -> int:
        """The leader, as it describes the quorum to our broker."""
        return int(call(self.ours.address, (55, 2), QUORUM).topics[0].partitions[0].leader_id)

    def named(self, node: int) -> set[int]:
        voters = stored_voters(Disk(), self.folder / str(node) / "__cluster_metadata-0")
        return set() if voters is None else set(voters.ids)

    def stop(self) -> None:
        self.ours.stop()
        for node in self.theirs.values():
            node.kill()


@pytest.fixture
def joining(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Changing]:
    made = Changing(tmp_path, *request.param, joins=True)
    yield made
    made.stop()


@pytest.fixture
def changing(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Changing]:
    made = Changing(tmp_path, *request.param)
    yield made
    made.stop()


@pytest.mark.parametrize("changing", [(1, 2)], indirect=True)
def test_our_node_becomes_a_voter_of_theirs_and_its_vote_is_needed_for_the_next_leader(changing: Changing) -> None:
    for node in changing.theirs.values():
        node.start()
    changing.ours.start()  # without a vote, its broker is unfenced
    create_topic(changing.ours.address, "one", 1, {})
    changing.add(OURS, at=1)
    leader, voters = changing.described(at=1)
    assert voters == {1, 2, OURS}
    assert leader in THEIRS
    changing.theirs[leader].stop()
    other = 3 - leader
    create_topic(changing.ours.address, "two", 1, {})  # two of three: the leader needs our vote
    assert changing.leader_as_we_know() in (other, OURS)  # both have everything, and the one that asks first is elected
    changing.theirs[leader].start()
    changing.remove(leader, at=other)
    assert changing.described(at=other)[1] == {other, OURS}
    create_topic(changing.ours.address, "three", 1, {})
    changing.ours.stop()
    assert changing.named(OURS) == {other, OURS}
    assert topics_of(changing.folder / str(OURS)) == {"one", "two", "three"}


@pytest.mark.parametrize("changing", [(OURS,)], indirect=True)
def test_their_nodes_become_voters_of_ours_and_go_on_with_the_log_that_we_wrote(changing: Changing) -> None:
    changing.ours.start()
    create_topic(changing.ours.address, "ours", 1, {})
    for node in THEIRS:
        changing.theirs[node].start()
        changing.add(node, at=OURS)
    assert changing.described(at=OURS) == (OURS, {1, 2, OURS})
    changing.ours.kill()
    changing.await_one_of_theirs()
    changing.ours.start()
    create_topic(changing.ours.address, "theirs", 1, {})
    leader = changing.described(at=1)[0]
    changing.remove(OURS, at=leader)
    assert changing.described(at=leader)[1] == set(THEIRS)
    create_topic(changing.ours.address, "without-a-vote", 1, {})
    changing.ours.stop()
    assert changing.named(OURS) == set(THEIRS)
    assert topics_of(changing.folder / str(OURS)) == {"ours", "theirs", "without-a-vote"}


@pytest.mark.parametrize("joining", [(1, 2)], indirect=True)
def test_our_controller_joins_theirs_by_itself_also_with_a_new_disk(joining: Changing) -> None:
    for node in joining.theirs.values():
        node.start()
    joining.ours.start()
    joining.await_voters({1, 2, OURS})
    create_topic(joining.ours.address, "one", 1, {})
    first = read_folder(joining.ours.folder)
    assert first is not None
    joining.ours.stop()
    shutil.rmtree(joining.ours.folder)
    format_folder(joining.ours.folder, OURS, CLUSTER_ID)
    second = read_folder(joining.ours.folder)
    assert second is not None
    assert second.directory_id != first.directory_id
    joining.ours.start()  # its former folder loses its vote, then the new one gets one

    def voted() -> UUID | None:
        voters = stored_voters(Disk(), joining.ours.folder / "__cluster_metadata-0")
        return None if voters is None else voters.directory_of(OURS)

    until(lambda: voted() == second.directory_id, "the new folder has a vote")
    joining.await_voters({1, 2, OURS})
    joining.remove(OURS, at=1)
    joining.await_voters({1, 2, OURS})  # as a controller of Apache Kafka: it must be stopped before it is removed
    create_topic(joining.ours.address, "two", 1, {})


@pytest.mark.parametrize("joining", [(OURS,)], indirect=True)
def test_their_controllers_join_ours_by_themselves_and_go_on_without_us(joining: Changing) -> None:
    joining.ours.start()
    create_topic(joining.ours.address, "ours", 1, {})
    for node in joining.theirs.values():
        node.start()
    joining.await_voters({1, 2, OURS})
    joining.ours.kill()
    joining.await_one_of_theirs()
    joining.ours.start()
    create_topic(joining.ours.address, "theirs", 1, {})
    joining.ours.stop()
    assert joining.named(OURS) == {1, 2, OURS}
    assert topics_of(joining.folder / str(OURS)) == {"ours", "theirs"}
