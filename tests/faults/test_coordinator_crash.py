"""kill -9 at random points under load: committed offsets, members and decided transactions are there afterwards."""

from __future__ import annotations

import random
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from streamactors.broker.errors import ErrorCode
from streamactors.broker.wire_request import create_topic
from tests.broker.apis.test_group_apis import join, sync
from tests.broker.wire import WireClient
from tests.faults.broker_process import BrokerProcess

E = ErrorCode
CONFIG = {"offsets.topic.num.partitions": 3, "transaction.state.log.num.partitions": 3}
GROUPS = 6


class Committer:
    """A member of a group of one, which commits one offset after the other until its connection breaks."""

    def __init__(self, broker: BrokerProcess, number: int) -> None:
        self.broker = broker
        self.group = f"g{number}"
        self.partition = number % 3
        self.sent = 0
        self.acknowledged = 0
        self.generation = -1
        self.member_id = ""
        self.client: WireClient | None = None

    def connect(self) -> WireClient:
        self.client = WireClient("127.0.0.1", self.broker.port)
        return self.client

    def become_member(self) -> None:
        client = self.connect()
        client.call(10, 3, {"key": self.group, "key_type": 0})
        joined = join(client, self.group, session_timeout_ms=60_000)
        assert sync(client, self.group, joined).error_code == E.NONE
        self.member_id, self.generation = joined.member_id, joined.generation_id

    def commit(self, offset: int) -> int:
        assert self.client is not None
        body = {
            "group_id": self.group,
            "member_id": self.member_id,
            "generation_id_or_member_epoch": self.generation,
            "topics": [
                {
                    "name": "t",
                    "partitions": [
                        {"partition_index": self.partition, "committed_offset": offset, "committed_metadata": ""}
                    ],
                }
            ],
        }
        (topic,) = self.client.call(8, 8, body).topics
        return int(topic.partitions[0].error_code)

    def run(self) -> None:
        try:
            while True:
                self.sent += 1
                assert self.commit(self.sent) == E.NONE
                self.acknowledged = self.sent
        except OSError:
            return  # the broker is gone

    def check(self) -> None:
        """The same member continues at its position, and no acknowledged commit is lost."""
        client = self.connect()

        def until_loaded(ask) -> Any:
            while (error := ask()) == E.COORDINATOR_LOAD_IN_PROGRESS:
                pass
            return error

        fetch = {"group_id": self.group, "topics": [{"name": "t", "partition_indexes": [self.partition]}]}
        assert until_loaded(lambda: client.call(9, 5, fetch).error_code) == E.NONE
        found = client.call(9, 5, fetch).topics[0].partitions[0].committed_offset
        assert self.acknowledged <= max(found, 0) <= self.sent, f"{self.group}: {found}"
        beat = {"group_id": self.group, "generation_id": self.generation, "member_id": self.member_id}
        assert client.call(12, 4, beat).error_code == E.NONE
        (described,) = client.call(15, 4, {"groups": [self.group]}).groups
        assert (described.group_state, described.members[0].member_assignment) == ("Stable", b"mine")


def crash(tmp_path: Path, times: int) -> None:
    dice = random.Random(times)
    with BrokerProcess(tmp_path / "data", CONFIG) as broker:
        create_topic(broker.bootstrap_servers, "t", 3, {})
        committers = [Committer(broker, number) for number in range(GROUPS)]
        for committer in committers:
            committer.become_member()
        for _ in range(times):
            threads = [threading.Thread(target=committer.run) for committer in committers]
            for thread in threads:
                thread.start()
            wanted = [committer.acknowledged + 10 for committer in committers]
            deadline = time.monotonic() + 30
            while any(each.acknowledged < n for each, n in zip(committers, wanted, strict=True)):
                assert time.monotonic() < deadline, "ten commits a group take more than 30 s"
                time.sleep(0.01)
            threading.Event().wait(dice.uniform(0, 0.3))
            broker.kill()
            for thread in threads:
                thread.join(30)
            broker.start()
            for committer in committers:
                committer.check()


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_groups_survive_kills_of_their_coordinator(tmp_path: Path) -> None:
    crash(tmp_path, 4)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_groups_survive_a_hundred_kills_of_their_coordinator(tmp_path: Path) -> None:
    crash(tmp_path, 100)
