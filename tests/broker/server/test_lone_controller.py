"""A node that is the only controller and no broker: process.roles=controller, as many clusters of Apache Kafka begin."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from streamactors.broker.cluster.reserved_ports import HOST, free_port
from streamactors.broker.launch.storage_format import format_folder
from tests.broker.live_broker import LiveBroker
from tests.broker.server.test_folder_failures import fetched, produced
from tests.broker.server.test_metadata_disk import created
from tests.broker.server.three_controllers import CLUSTER_ID, QUICK
from tests.broker.wire import wait_until


class Cluster:
    """A controller, and a broker that joins it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port = folder, free_port(())
        voters = {"controller.quorum.voters": f"1@{HOST}:{self.port}"}
        self.settings: dict[str, Any] = {**QUICK, "controller.listener.names": "CONTROLLER", **voters}

    def controller(self) -> LiveBroker:
        own = {"process.roles": "controller", "node.id": 1, "listeners": f"CONTROLLER://{HOST}:{self.port}"}
        return LiveBroker(self.folder / "1", {**self.settings, **own})

    def broker(self) -> LiveBroker:
        own = {"process.roles": "broker", "node.id": 2, "listeners": f"PLAINTEXT://{HOST}:0"}
        return LiveBroker(self.folder / "2", {**self.settings, **own})


def test_a_broker_joins_it_and_both_start_again(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    format_folder(tmp_path / "1", 1, CLUSTER_ID)
    for number in range(2):
        with cluster.controller(), cluster.broker() as live, live.client() as client:
            if number == 0:
                live.create_topic("orders")
            wait_until(lambda: produced(client, "orders") == 0)
            assert fetched(client, "orders") == (0, number + 1)
            assert live.node.cluster_id == CLUSTER_ID


def test_the_broker_goes_on_while_it_is_away(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    format_folder(tmp_path / "1", 1, CLUSTER_ID)
    with ExitStack() as last, cluster.controller() as controller, cluster.broker() as live, live.client() as client:
        live.create_topic("orders")
        wait_until(lambda: produced(client, "orders") == 0)
        controller.__exit__(None, None, None)
        assert produced(client, "orders") == 0
        last.enter_context(cluster.controller())  # ends after the broker, which would wait a minute for it
        wait_until(lambda: created(live, "later"))


def test_an_unformatted_folder_is_refused_with_the_command(tmp_path: Path) -> None:
    with pytest.raises(
        Exception, match=r"not formatted.*streamactors storage format --cluster-id ID --node-id 1 --data"
    ):
        Cluster(tmp_path).controller().__enter__()
