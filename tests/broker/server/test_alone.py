"""Whether a node is its own only controller: its settings name no other one."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamactors.broker.config.broker_config import QUORUM_IN_LOG, BrokerConfig
from streamactors.broker.server.stored_quorum import with_stored_voters

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
