"""A broker is killed: the consumer groups are there when it returns, and their members go on with their epochs."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from streamactors.broker import Cluster
from tests.broker.wire import WireClient, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.expects_crash]


def beat(client: WireClient, member: str, epoch: int) -> Any:
    joins = epoch == 0
    body = {
        "group_id": "g", "member_id": member, "member_epoch": epoch, "instance_id": None, "rack_id": None,
        "rebalance_timeout_ms": 60_000 if joins else -1, "subscribed_topic_names": ["t"] if joins else None,
        "subscribed_topic_regex": None, "server_assignor": None, "topic_partitions": [],
    }  # fmt: skip
    return client.call(68, 1, body)


def connected(cluster: Cluster) -> WireClient:
    host, port = cluster.bootstrap_servers.split(":")
    return WireClient(host, int(port))


def test_members_go_on_after_kill_9(tmp_path: Path) -> None:
    config = {"group.consumer.assignment.interval.ms": 0}
    with Cluster(process=True, data=tmp_path, config=config) as cluster:
        cluster.create_topic("t", 4)
        client = connected(cluster)
        wait_until(
            lambda: not client.call(10, 4, {"key_type": 0, "coordinator_keys": ["g"]}).coordinators[0].error_code
        )
        wait_until(lambda: beat(client, "one", 0).error_code == 0)
        two = beat(client, "two", 0)
        assert two.error_code == 0
        os.kill(cluster.pid, signal.SIGKILL)
    with Cluster(process=True, data=tmp_path, config=config) as cluster:
        client = connected(cluster)
        wait_until(lambda: beat(client, "two", two.member_epoch).error_code == 0)
        (found,) = client.call(69, 1, {"group_ids": ["g"], "include_authorized_operations": False}).groups
        assert sorted(each.member_id for each in found.members) == ["one", "two"]
        assert found.group_epoch == two.member_epoch
        client.close()
