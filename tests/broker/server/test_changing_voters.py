"""Voters that are added to a running quorum and removed from it over the wire, one at a time (KIP-853)."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from streamactors.broker.cluster.reserved_ports import HOST, free_port
from streamactors.broker.errors import BrokerStartError, ErrorCode
from streamactors.broker.launch.storage_format import format_folder
from streamactors.broker.log.disk import Disk
from streamactors.broker.quorum.raft.raft_channels import RaftChannels
from streamactors.broker.quorum.raft.raft_effects import Effect
from streamactors.broker.quorum.raft.raft_messages import BeginEpoch, VoteAnswer
from streamactors.broker.quorum.raft.raft_state import RaftState
from streamactors.broker.quorum.raft.raft_wire import decode
from streamactors.broker.quorum.stored_voters import stored_voters
from streamactors.broker.quorum.voter_requests import VoterRequests
from streamactors.broker.quorum.voter_set import parse_voters
from streamactors.cli.main import run
from tests.broker.live_broker import LiveBroker
from tests.broker.server.test_three_controllers import QUORUM
from tests.broker.server.three_controllers import CLUSTER_ID, ThreeControllers
from tests.broker.wire import wait_until

ADD, REMOVE = (80, 0), (81, 0)


class Growing(ThreeControllers):
    """Node 1 is the first and only voter. The others follow its log without a vote when they are started.

    Beside load a sync of the disk can last longer than the fetch timeout, and then another node is elected at any moment. So a test asks again
    until the cluster says what it waits for, and a voter that was removed may be removed by a request whose answer was another one."""

    def __enter__(self) -> Growing:
        del self.settings["controller.quorum.voters"]
        # No node dies in these tests, so a leader is given up only because the machine is busy.
        self.settings["controller.quorum.fetch.timeout.ms"] = 3_000
        addresses = [f"{HOST}:{port}" for port in self.ports.values()]
        self.settings["controller.quorum.bootstrap.servers"] = ",".join(addresses)
        first = parse_voters(f"1@{addresses[0]}:QEOMgVHXTfOVhlLkAbFR6A", "CONTROLLER")
        format_folder(self.folder / "1", 1, CLUSTER_ID, voters=first)
        for node in (2, 3):
            format_folder(self.folder / str(node), node, CLUSTER_ID)
        self.start(1)
        return self

    def key(self, node: int) -> dict[str, Any]:
        return {"voter_id": node, "voter_directory_id": self.nodes[node].node.logs.properties.directory_id}

    def ask(self, api: tuple[int, int], body: dict[str, Any], at: int | None = None) -> Any:
        """Send a request to a controller, by default the one that leads."""
        leader = self.leader() if at is None else at
        with self.client(leader) as client:
            return client.call(*api, {"cluster_id": CLUSTER_ID, **body})

    def await_answer(self, api: tuple[int, int], body: dict[str, Any], code: ErrorCode) -> None:
        wait_until(lambda: self.ask(api, body).error_code == code, f"key {api[0]} is answered with {code.name}")

    def add(self, node: int, at: int | None = None) -> ErrorCode:
        listeners = [{"name": "CONTROLLER", "host": HOST, "port": self.ports[node]}]
        return ErrorCode(self.ask(ADD, {**self.key(node), "listeners": listeners, "timeout_ms": 10_000}, at).error_code)

    def add_at_last(self, node: int) -> None:
        """Add a node that may not have read the whole log yet."""
        wait_until(lambda: self.add(node) in (ErrorCode.NONE, ErrorCode.DUPLICATE_VOTER), f"{node} is a voter")

    def remove(self, node: int) -> ErrorCode:
        return ErrorCode(self.ask(REMOVE, self.key(node)).error_code)

    def remove_at_last(self, key: dict[str, Any]) -> None:
        """Remove a voter. When another node is elected meanwhile, the first request is answered with an error and carried out all the same."""
        gone = (ErrorCode.NONE, ErrorCode.VOTER_NOT_FOUND)
        wait_until(lambda: self.ask(REMOVE, key).error_code in gone, f"{key['voter_id']} is no voter")

    def asked_for_a_vote(self, node: int, voter: dict[str, Any]) -> int:
        """Ask a node whether it would vote, as that voter; return the error."""
        partition = {
            "partition_index": 0,
            "replica_epoch": self.quorum(node).epoch,
            "replica_id": 2,
            "replica_directory_id": self.key(2)["voter_directory_id"],
            "voter_directory_id": voter["voter_directory_id"],
            "last_offset_epoch": 0,
            "last_offset": 0,
            "pre_vote": True,
        }
        topics = [{"topic_name": "__cluster_metadata", "partitions": [partition]}]
        answer = self.ask((52, 2), {"voter_id": voter["voter_id"], "topics": topics}, node)
        assert answer.error_code == 0
        return int(answer.topics[0].partitions[0].error_code)

    def described(self) -> dict[str, set[int]]:
        with self.client(self.leader()) as client:
            partition = client.call(55, 2, QUORUM).topics[0].partitions[0]
        return {
            "voters": {each.replica_id for each in partition.current_voters},
            "observers": {each.replica_id for each in partition.observers},
        }

    def write(self, name: str) -> None:
        """Have the leader commit a record: a quota of a client of this name."""
        entity = [{"entity_type": "client-id", "entity_name": name}]
        ops = [{"key": "producer_byte_rate", "value": 1e6, "remove": False}]
        body = {"entries": [{"entity": entity, "ops": ops}], "validate_only": False}

        def written() -> bool:
            with self.client(self.leader()) as client:
                return bool(client.call(49, 1, body).entries[0].error_code == 0)

        wait_until(written, f"{name} is written")

    def await_written(self, name: str, *nodes: int) -> None:
        for node in nodes or self.nodes:
            wait_until(
                lambda node=node: any(name in str(each) for each in self.image(node).quotas),  # type: ignore[misc]
                f"node {node} has {name}",
            )

    def log(self, node: int) -> Path:
        return self.folder / str(node) / "__cluster_metadata-0"


@pytest.mark.parametrize("roles", ["broker,controller", "controller"])
def test_a_quorum_of_one_grows_to_three_and_outlives_its_first_voter(tmp_path: Path, roles: str) -> None:
    with Growing(tmp_path, roles=roles) as cluster:
        cluster.start(2)
        cluster.start(3)
        wait_until(lambda: cluster.described()["observers"] >= {2, 3}, "both read the log without a vote")
        for node in (2, 3):
            cluster.add_at_last(node)
        assert cluster.described()["voters"] == {1, 2, 3}
        assert cluster.add(3) is ErrorCode.DUPLICATE_VOTER
        cluster.stop(1)
        assert cluster.leader() in (2, 3)
        cluster.write("after")
        cluster.start(1)
        cluster.await_written("after")
    for node in (1, 2, 3):
        named = stored_voters(Disk(), cluster.log(node))
        assert named is not None
        assert named.ids == {1, 2, 3}


@pytest.mark.slow
def test_a_leader_that_is_removed_hands_over_and_reads_on_without_a_vote(tmp_path: Path) -> None:
    with Growing(tmp_path) as cluster:
        for node in (2, 3):
            cluster.start(node)
            cluster.add_at_last(node)
        assert cluster.leader() == 1
        cluster.remove_at_last(cluster.key(1))
        wait_until(lambda: cluster.quorum(1).leader in (2, 3), "another node leads, and 1 knows it")
        cluster.write("next")
        cluster.await_written("next")
        assert cluster.described() == {"voters": {2, 3}, "observers": {1}}
        cluster.stop(1)
        cluster.start(1)  # without a vote, as the log says
        wait_until(lambda: cluster.described() == {"voters": {2, 3}, "observers": {1}}, "1 is back")
        cluster.add_at_last(1)
        assert cluster.described()["voters"] == {1, 2, 3}


@pytest.mark.slow
def test_a_voter_that_lost_its_disk_has_no_vote_until_it_is_added_with_its_new_one(tmp_path: Path) -> None:
    with Growing(tmp_path) as cluster:
        for node in (2, 3):
            cluster.start(node)
            cluster.add_at_last(node)
        old = cluster.key(3)
        cluster.stop(3)
        shutil.rmtree(tmp_path / "3")
        format_folder(tmp_path / "3", 3, CLUSTER_ID)
        cluster.start(3)
        assert cluster.key(3) != old
        wait_until(lambda: cluster.quorum(3).leader == cluster.leader(), "3 follows the leader")
        assert 3 not in cluster.quorum(3).voters  # the voter 3 is another folder
        expected = (
            (old, ErrorCode.INVALID_VOTER_KEY),
            (cluster.key(3), ErrorCode.NONE),
            (cluster.key(2), ErrorCode.INVALID_VOTER_KEY),
        )
        for key, error in expected:
            # The epoch can change between the reading of it and the request, so the test asks again.
            wait_until(
                lambda key=key, error=error: cluster.asked_for_a_vote(3, key) == error, f"{key} has {error.name}"
            )  # type: ignore[misc]
        cluster.write("one")
        cluster.await_written("one")
        wait_until(lambda: cluster.add(3) is ErrorCode.DUPLICATE_VOTER, "its node has a vote")
        cluster.await_answer(REMOVE, cluster.key(3), ErrorCode.VOTER_NOT_FOUND)
        cluster.remove_at_last(old)
        cluster.add_at_last(3)
        assert 3 in cluster.quorum(cluster.leader()).voters


@pytest.mark.slow
def test_a_voter_that_lost_its_disk_elects_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # 1 gets a new disk and starts under its id -> 2 and 3 stop -> 3 starts: the vote of 1, whose log can be behind any other, was enough.
    answers: list[VoteAnswer] = []
    genuine = RaftState.voted

    def voted(state: RaftState, voter: int, answer: VoteAnswer, now_ms: float) -> list[Effect]:
        # `state._refused` may stay empty: node 1 names node 2 as the leader, and node 3 follows node 2 again until its fetch times out.
        answers.append(answer)
        return genuine(state, voter, answer, now_ms)

    with Growing(tmp_path, roles="controller") as cluster:
        for node in (2, 3):
            cluster.start(node)
            cluster.add_at_last(node)
        cluster.stop(1)
        shutil.rmtree(tmp_path / "1")
        format_folder(tmp_path / "1", 1, CLUSTER_ID)
        cluster.start(1)
        wait_until(lambda: cluster.quorum(1).leader is not None, "1 follows the leader")
        cluster.stop(2, 3)
        monkeypatch.setattr(RaftState, "voted", voted)
        cluster.start(3)
        wait_until(lambda: len(answers) > 1, "1 has refused its vote", 90)  # after several elections
        assert not any(answer.granted for answer in answers)
        assert not cluster.quorum(3).leads


@pytest.mark.slow
def test_a_removal_whose_answer_was_an_error_can_have_been_carried_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The leader appended the removal -> another node was elected, so the request was answered with NOT_LEADER_OR_FOLLOWER -> the new leader
    # committed the removal. A test that asked again until the answer was NONE got VOTER_NOT_FOUND forever.
    genuine = VoterRequests._append

    def append(requests: VoterRequests, *arguments: Any) -> None:
        genuine(requests, *arguments)
        requests.leader_changed()

    with Growing(tmp_path) as cluster:
        for node in (2, 3):
            cluster.start(node)
            cluster.add_at_last(node)
        gone = cluster.key(3)
        monkeypatch.setattr(VoterRequests, "_append", append)
        assert cluster.ask(REMOVE, gone).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        cluster.await_answer(REMOVE, gone, ErrorCode.VOTER_NOT_FOUND)
        cluster.remove_at_last(gone)
        assert cluster.described()["voters"] == {1, 2}


@pytest.mark.slow
def test_a_voter_at_another_address_has_it_corrected_in_the_log(tmp_path: Path) -> None:
    with Growing(tmp_path) as cluster:
        for node in (2, 3):
            cluster.start(node)
            cluster.add_at_last(node)
        follower = next(node for node in (1, 2, 3) if node != cluster.leader())
        cluster.stop(follower)
        cluster.ports[follower] = free_port()
        cluster.start(follower)

        def corrected() -> bool:
            named = cluster.quorum(cluster.leader()).voter_set
            return named is not None and named.addresses()[follower] == (HOST, cluster.ports[follower])

        wait_until(corrected, "the log has the new address")
        assert cluster.described()["voters"] == {1, 2, 3}


def test_requests_that_cannot_be_carried_out_say_why(tmp_path: Path) -> None:
    with Growing(tmp_path) as cluster:
        cluster.start(2)
        nobody = {"voter_id": 9, "voter_directory_id": cluster.key(2)["voter_directory_id"]}
        assert cluster.ask(REMOVE, nobody).error_code == ErrorCode.VOTER_NOT_FOUND
        assert cluster.remove(1) is ErrorCode.INVALID_REQUEST  # the last one
        nowhere = [{"name": "CONTROLLER", "host": HOST, "port": free_port()}]
        silent = cluster.ask(ADD, {**nobody, "listeners": nowhere, "timeout_ms": 1_000})
        assert silent.error_code == ErrorCode.REQUEST_TIMED_OUT
        assert "is not ready to receive requests" in silent.error_message
        assert cluster.ask(ADD, {**nobody, "listeners": [], "timeout_ms": 1}).error_code == ErrorCode.INVALID_REQUEST
        other = cluster.client(1).call(81, 0, {**nobody, "cluster_id": "another"})
        assert other.error_code == ErrorCode.INCONSISTENT_CLUSTER_ID
        wait_until(lambda: cluster.quorum(2).leader == 1, "2 follows")
        assert cluster.add(2, at=2) is ErrorCode.NOT_LEADER_OR_FOLLOWER
        through_a_broker = cluster.nodes[2].client().call(81, 0, {"cluster_id": CLUSTER_ID, **nobody})
        assert through_a_broker.error_code == ErrorCode.VOTER_NOT_FOUND  # forwarded to the leader


def test_voters_that_the_settings_name_do_not_change(tmp_path: Path) -> None:
    with ThreeControllers(tmp_path) as cluster:
        leader = cluster.leader()
        body = {
            "cluster_id": CLUSTER_ID,
            "voter_id": 9,
            "voter_directory_id": cluster.nodes[1].node.logs.properties.directory_id,
        }
        listeners = [{"name": "CONTROLLER", "host": HOST, "port": 1}]
        added = cluster.client(leader).call(80, 0, {**body, "listeners": listeners, "timeout_ms": 1})
        assert added.error_code == ErrorCode.UNSUPPORTED_VERSION
        assert cluster.client(leader).call(81, 0, body).error_code == ErrorCode.UNSUPPORTED_VERSION


def test_a_node_that_hears_of_a_leader_before_it_knows_its_address_registers_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The leader says who it is while the node's first question is under way; only the answer has the address. The broker never learned it: its start
    # failed after a minute, "no controller answers".
    genuine, told = RaftChannels._got, []

    def overtaken(channels: RaftChannels, target: int, request: Any, wire: Any) -> None:
        answer = None if wire.error is not None else decode(request, wire.value)
        if target < 0 and answer is not None and answer.leader is not None and not told:
            told.append(answer.leader)
            quorum = channels._answered.__self__.quorum  # type: ignore[attr-defined]
            quorum.asked(BeginEpoch(answer.epoch, answer.leader), lambda _: None)
        genuine(channels, target, request, wire)

    with Growing(tmp_path) as cluster:
        cluster.settings["initial.broker.registration.timeout.ms"] = 20_000  # the start failed after that
        monkeypatch.setattr(RaftChannels, "_got", overtaken)
        cluster.start(2)
        assert told == [1]


def test_a_controller_without_a_vote_that_finds_no_leader_says_what_to_do(tmp_path: Path) -> None:
    format_folder(tmp_path / "1", 1, CLUSTER_ID)
    settings = {
        "node.id": 1,
        "controller.quorum.bootstrap.servers": f"{HOST}:{free_port()},{HOST}:{free_port()}",
        "controller.listener.names": "CONTROLLER",
        "listeners": f"PLAINTEXT://{HOST}:0,CONTROLLER://{HOST}:0",
        "initial.broker.registration.timeout.ms": 300,
    }
    with (
        pytest.raises(BrokerStartError, match=r"this one has no vote; start them, or format .* --initial-controllers"),
        LiveBroker(tmp_path / "1", settings),
    ):
        pass


@pytest.mark.slow
def test_storage_info_prints_the_voters_that_the_log_names_now(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Growing(tmp_path) as cluster:
        cluster.start(2)
        cluster.add_at_last(2)
    assert run(["storage", "info", "--data", str(tmp_path / "1")]) == 0
    assert [
        line.split()[1].partition("@")[0] for line in capsys.readouterr().out.splitlines() if line.startswith("voter")
    ] == ["1", "2"]
