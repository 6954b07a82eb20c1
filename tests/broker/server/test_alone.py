"""Whether a node is its own only controller: its settings name no other one."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamactors.broker.config.broker_config import QUORUM_IN_LOG, BrokerConfig
from streamactors.broker.errors import BrokerStartError
from streamactors.broker.launch.storage_format import format_folder, new_cluster_id
from streamactors.broker.log.disk import Disk
from streamactors.broker.quorum.vote_file import Election, write_election
from streamactors.broker.server.stored_quorum import METADATA_FOLDER, with_stored_voters

LISTENERS = {
    "controller.listener.names": "CONTROLLER",
    "listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
}
ALL = {**LISTENERS, "process.roles": "broker,controller"}
CASES = [
    ({}, True),
    ({"process.roles": "broker,controller"}, True),
    (LISTENERS, True),
    (ALL, True),
    ({**ALL, "controller.quorum.bootstrap.servers": "127.0.0.1:9093"}, True),  # that is itself
    ({**ALL, "controller.quorum.bootstrap.servers": "127.0.0.1:9093,other:9093"}, False),
    ({**ALL, "controller.quorum.bootstrap.servers": "other:9093"}, False),
    ({**LISTENERS, "process.roles": "controller"}, False),  # no broker: others may join it
]  # fmt: skip


@pytest.mark.parametrize(("settings", "alone"), CASES)
def test_a_node_without_a_log_waits_for_voters_unless_it_is_alone(
    settings: dict[str, str], alone: bool, tmp_path: Path
) -> None:
    config = BrokerConfig({"node.id": "1", **settings}, {}, {}, {})
    told, voters = with_stored_voters(config, tmp_path, None)
    assert voters is None
    assert (told is config) == alone
    assert (told.static.get(QUORUM_IN_LOG) == "true") == (not alone)


@pytest.mark.parametrize(
    ("vote", "alone"), [(Election(3, 2), False), (Election(3, None, 2), False), (Election(3, 1, 1), True)]
)
def test_a_vote_for_another_controller_is_no_vote_of_a_node_alone(vote: Election, alone: bool, tmp_path: Path) -> None:
    # a snapshot has taken the place of the log, which named the voters of its leader
    format_folder(tmp_path, 1, new_cluster_id())
    (tmp_path / METADATA_FOLDER).mkdir(exist_ok=True)
    write_election(Disk(), tmp_path / METADATA_FOLDER, vote)
    config = BrokerConfig({"node.id": "1"}, {}, {}, {})
    if alone:
        assert with_stored_voters(config, tmp_path, None) == (config, None)
    else:
        with pytest.raises(BrokerStartError, match=r"is of node 1 in a cluster with other controllers \(2\)"):
            with_stored_voters(config, tmp_path, None)
