"""Controllers whose voters are named by the metadata log, and by no setting (kraft.version 1)."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from streamactors.broker.cluster.reserved_ports import HOST
from streamactors.broker.errors import BrokerStartError
from streamactors.broker.launch.storage_format import format_folder, new_cluster_id
from streamactors.broker.log.disk import Disk
from streamactors.broker.log.partition_metadata import encode_uuid
from streamactors.broker.metadata.snapshot import snapshots
from streamactors.broker.quorum.stored_voters import snapshot_voters, stored_voters
from streamactors.broker.quorum.voter_set import VoterSet, parse_voters
from streamactors.cli.main import run
from tests.broker.live_broker import LiveBroker
from tests.broker.server.test_three_controllers import QUORUM, create
from tests.broker.server.three_controllers import CLUSTER_ID, ThreeControllers
from tests.broker.wire import wait_until

DIRECTORIES = [encode_uuid(uuid.UUID(int=1_000 + node)) for node in (1, 2, 3)]


class NamedByTheLog(ThreeControllers):
    """The settings name the addresses of the others, and no voter."""

    voters: VoterSet

    def __enter__(self) -> NamedByTheLog:
        addresses = [f"{HOST}:{port}" for port in self.ports.values()]
        del self.settings["controller.quorum.voters"]
        self.settings["controller.quorum.bootstrap.servers"] = ",".join(addresses)
        named = zip(self.ports, addresses, DIRECTORIES, strict=True)
        self.voters = parse_voters(",".join(f"{node}@{at}:{folder}" for node, at, folder in named), "CONTROLLER")
        for node in self.ports:
            format_folder(self.folder / str(node), node, CLUSTER_ID, voters=self.voters)
        self.start(*self.ports)
        return self

    def log(self, node: int) -> Path:
        return self.folder / str(node) / "__cluster_metadata-0"


def test_three_controllers_take_their_voters_from_the_log(tmp_path: Path) -> None:
    with NamedByTheLog(tmp_path) as cluster:
        leader = cluster.leader()
        assert create(cluster.nodes[leader].client(), "one").error_code == 0
        described = cluster.nodes[leader].client().call(55, 2, QUORUM).topics[0].partitions[0]
        assert [encode_uuid(each.replica_directory_id) for each in described.current_voters] == DIRECTORIES
        answer = cluster.client(leader).call(18, 4, {"client_software_name": "a", "client_software_version": "1"})
        assert ("kraft.version", 1) in {(e.name, e.max_version_level) for e in answer.finalized_features}
        cluster.stop(leader)
        assert create(cluster.nodes[cluster.leader()].client(), "two", 2).error_code == 0
        cluster.start(leader)
        cluster.await_topic("two")
    for node in cluster.ports:  # also on the nodes that got the records from the first leader
        assert stored_voters(Disk(), cluster.log(node)) == cluster.voters


def test_a_snapshot_names_the_voters_and_a_restart_reads_them_there(tmp_path: Path) -> None:
    often = {"metadata_log_max_record_bytes_between_snapshots": 1}
    with NamedByTheLog(tmp_path, roles="controller", **often) as cluster:
        for node in cluster.ports:

            def has_snapshot(node: int = node) -> bool:
                kept = snapshots(each.name for each in cluster.log(node).iterdir())
                return bool(kept) and kept[-1][0] > 0

            wait_until(has_snapshot, f"node {node} has a snapshot")
        cluster.stop(*cluster.ports)
        for node in cluster.ports:
            assert snapshot_voters(Disk(), cluster.log(node)) == cluster.voters
        cluster.start(*cluster.ports)
        assert cluster.quorum(cluster.leader()).voters == {1, 2, 3}


def test_the_only_voter_of_a_folder_leads_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, data = tmp_path / "server.properties", tmp_path / "data"
    file.write_text(
        f"node.id=4\nlog.dirs={data}\nprocess.roles=broker,controller\ncontroller.listener.names=CONTROLLER\n"
        "listeners=PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:19093\n"
    )
    assert run(["storage", "format", "-t", new_cluster_id(), "-c", str(file), "--standalone"]) == 0
    assert run(["storage", "info", "-c", str(file)]) == 0
    told = capsys.readouterr().out.splitlines()
    directory = next(line.split()[1] for line in told if line.startswith("directory.id"))
    assert "kraft.version 1" in told
    assert f"voter         4@127.0.0.1:19093:{directory}" in told
    for _ in range(2):
        with LiveBroker(data, {"node.id": 4}) as broker:
            assert broker.node.voters is not None
            described = broker.client().call(55, 2, QUORUM).topics[0].partitions[0]
            assert [encode_uuid(each.replica_directory_id) for each in described.current_voters] == [directory]


def test_a_node_that_the_log_does_not_name_has_no_vote(tmp_path: Path) -> None:
    voters = parse_voters(f"1@127.0.0.1:19093:{DIRECTORIES[0]}", "CONTROLLER")
    format_folder(tmp_path / "5", 5, CLUSTER_ID, voters=voters)
    with (
        pytest.raises(
            BrokerStartError, match=r"controller 5 has no vote in the quorum of .*/5, whose voters are 1@127"
        ),
        LiveBroker(tmp_path / "5", {"node.id": 5}),
    ):
        pass


@pytest.mark.parametrize(
    ("settings", "options", "complaint"),
    [
        ("", ["--standalone", "--no-initial-controllers"], "exclude each other"),
        ("", ["--standalone"], "needs the address of this controller"),
        ("process.roles=broker\ncontroller.quorum.bootstrap.servers=a:1", ["--standalone"], "is for a controller"),
        ("", ["--initial-controllers", "1@a:1"], "its form is id@host:port:directory"),
        (
            "controller.quorum.voters=1@127.0.0.1:9093",
            ["--initial-controllers", f"1@127.0.0.1:9093:{DIRECTORIES[0]}"],
            "names the voters already",
        ),
    ],
)
def test_voters_that_cannot_be_are_refused_and_nothing_is_formatted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], settings: str, options: list[str], complaint: str
) -> None:
    file = tmp_path / "server.properties"
    file.write_text(f"node.id=1\nlog.dirs={tmp_path / 'data'}\n{settings}\n")
    assert run(["storage", "format", "-t", CLUSTER_ID, "-c", str(file), *options]) != 0
    assert complaint in capsys.readouterr().err.replace("\n", " ")
    assert not (tmp_path / "data").exists()


def test_the_folder_of_a_voter_has_the_id_that_the_voters_say(tmp_path: Path) -> None:
    told = f"1@127.0.0.1:9093:{DIRECTORIES[0]},2@127.0.0.1:9094:{DIRECTORIES[1]}"
    for node in (1, 2):
        given = ["--node-id", str(node), "--data", str(tmp_path / str(node)), "--initial-controllers", told]
        assert run(["storage", "format", "-t", CLUSTER_ID, *given]) == 0
        assert f"directory.id={DIRECTORIES[node - 1]}" in (tmp_path / str(node) / "meta.properties").read_text()
