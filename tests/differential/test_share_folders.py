"""The state of share groups changes hands: what one broker has written, also one that was killed, the other continues out of the same files."""

from __future__ import annotations

import os
import signal
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest

from streamactors.broker import Cluster
from streamactors.broker.errors import ErrorCode
from tests.broker.apis.share_member import ACCEPT, REJECT, RELEASE, ShareMember
from tests.broker.live_broker import batch, produce_body
from tests.broker.wire import WireClient, wait_until
from tests.differential.apache_kafka import broker as apache
from tests.differential.test_share_dead_letters import letters

pytestmark = [
    pytest.mark.differential,
    pytest.mark.skipif(not apache.found(), reason="Java or Maven is not here"),
    pytest.mark.timeout(600),
]

E = ErrorCode
SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}
TOPIC, GROUP = "held", "g"


@contextmanager
def theirs(folder: Path, *, killed: bool = False) -> Iterator[str]:
    """Serve a folder with Apache Kafka."""
    kafka = apache.ApacheKafka(folder, settings=SETTINGS)
    kafka.start()
    try:
        yield kafka.address
    finally:
        (kafka.kill if killed else kafka.stop)()


@contextmanager
def ours(folder: Path, *, killed: bool = False) -> Iterator[str]:
    """Serve a folder with this broker."""
    with Cluster(process=True, data=folder, config=SETTINGS) as cluster:
        yield cluster.bootstrap_servers
        if killed:
            os.kill(cluster.pid, signal.SIGKILL)


def _client(address: str) -> WireClient:
    host, _, port = address.partition(":")
    return WireClient(host, int(port))


def _topic_id(client: WireClient) -> uuid.UUID:
    (topic,) = client.call(3, 12, {"topics": [{"topic_id": None, "name": TOPIC}]}).topics
    found = topic.topic_id
    assert isinstance(found, uuid.UUID)
    return found


def prepare(address: str) -> None:
    """Make the topic with ten records, and begin its share partition."""
    with _client(address) as client:
        topic = {"name": TOPIC, "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
        client.call(19, 7, {"topics": [topic], "timeout_ms": 30_000, "validate_only": False})
        produced = produce_body(batch(*(b"%d" % each for each in range(10))), TOPIC)
        wait_until(
            lambda: client.call(0, 9, produced).responses[0].partition_responses[0].error_code == E.NONE, timeout_s=30
        )
        partition = {"partition": 0, "state_epoch": 1, "start_offset": 0}
        asked = {"group_id": GROUP, "topics": [{"topic_id": _topic_id(client), "partitions": [partition]}]}
        key = {"key_type": 2, "coordinator_keys": [f"{GROUP}:AAAAAAAAAAAAAAAAAAAAAA:0"]}
        wait_until(lambda: client.call(10, 6, key).coordinators[0].error_code == E.NONE, timeout_s=60)
        wait_until(lambda: client.call(83, 0, asked).results[0].partitions[0].error_code == E.NONE, timeout_s=60)


def work(address: str, expected: dict[int, int], *acknowledged: tuple[int, int, int]) -> None:
    """Acquire what there is, compare the deliveries of each record, and acknowledge some."""
    with _client(address) as client:
        member = ShareMember(client, _topic_id(client), uuid.uuid4().hex, GROUP)
        found: dict[int, int] = {}

        def fetched() -> bool:
            for part in ShareMember.parts(member.fetch(wait_ms=500)):
                for each in part.acquired_records:
                    found.update(dict.fromkeys(range(each.first_offset, each.last_offset + 1), each.delivery_count))
            return len(found) >= len(expected)

        wait_until(fetched, timeout_s=60)
        assert found == expected
        answer: Any = member.acknowledge(*acknowledged)
        assert answer.error_code == E.NONE, answer


@pytest.mark.parametrize("first", [ours, theirs])
def test_the_other_broker_continues_a_share_partition_whose_broker_was_killed(tmp_path: Path, first: Any) -> None:
    second = theirs if first is ours else ours
    folder = tmp_path / "data"
    with first(folder, killed=True) as address:
        prepare(address)
        work(address, dict.fromkeys(range(10), 1), (0, 2, ACCEPT), (3, 4, RELEASE), (6, 6, REJECT))
    # What was only locked when the broker was killed counts as never delivered.
    with second(folder, killed=True) as address:
        work(address, {3: 2, 4: 2, 5: 1, 7: 1, 8: 1, 9: 1}, (3, 3, ACCEPT), (4, 4, RELEASE), (9, 9, ACCEPT))
    with first(folder) as address:
        work(address, {4: 3, 5: 1, 7: 1, 8: 1}, (4, 5, ACCEPT))


COUNT = 2_000
QUEUE = "dlq.held"


class Worker(threading.Thread):
    """A member that fetches, and acknowledges in the next request what it has, until its broker is gone. Some records it rejects or releases."""

    def __init__(self, address: str, topic_id: uuid.UUID, name: str) -> None:
        super().__init__(daemon=True)
        self._client = _client(address)
        self._member = ShareMember(self._client, topic_id, name, GROUP)
        self._random = Random(name)
        self.sent: dict[int, int] = {}
        """The last kind of acknowledgement of each record, whether or not it was answered."""
        self.known: dict[int, int] = {}
        """Those that were answered without an error."""

    def run(self) -> None:
        acks: list[dict[str, Any]] = []
        try:
            while True:
                answer = self._member.fetch(wait_ms=500, max_records=50, acks={0: acks} if acks else None)
                assert answer.error_code == E.NONE, answer
                (part,) = ShareMember.parts(answer) or (None,)
                if part is None:
                    acks = []
                    continue
                if part.acknowledge_error_code == E.NONE:
                    self._note(self.known, acks)
                acks = [
                    {
                        "first_offset": each.first_offset,
                        "last_offset": each.last_offset,
                        "acknowledge_types": [self._random.choice((ACCEPT, ACCEPT, ACCEPT, RELEASE, REJECT))],
                    }
                    for each in part.acquired_records
                ]
                self._note(self.sent, acks)
        except (OSError, EOFError):
            return  # the broker was killed

    @staticmethod
    def _note(where: dict[int, int], acks: list[dict[str, Any]]) -> None:
        for each in acks:
            (kind,) = each["acknowledge_types"]
            where.update(dict.fromkeys(range(each["first_offset"], each["last_offset"] + 1), kind))


def fill(address: str) -> None:
    """Make the topic with many records, and a share partition whose group has a dead letter queue."""
    prepare(address)
    with _client(address) as client:
        queue = {
            "name": QUEUE, "num_partitions": 1, "replication_factor": 1, "assignments": [],
            "configs": [{"name": "errors.deadletterqueue.group.enable", "value": "true"}],
        }  # fmt: skip
        client.call(19, 7, {"topics": [queue], "timeout_ms": 30_000, "validate_only": False})
        configs = [{"name": "errors.deadletterqueue.topic.name", "config_operation": 0, "value": QUEUE}]
        resource = {"resource_type": 32, "resource_name": GROUP, "configs": configs}
        answer = client.call(44, 1, {"resources": [resource], "validate_only": False})
        assert answer.responses[0].error_code == E.NONE, answer
        for _ in range(COUNT // 20 - 1):
            produced = produce_body(batch(*(b"%d" % each for each in range(20))), TOPIC)
            assert client.call(0, 9, produced).responses[0].partition_responses[0].error_code == E.NONE
        rest = produce_body(batch(*(b"%d" % each for each in range(10))), TOPIC)
        assert client.call(0, 9, rest).responses[0].partition_responses[0].error_code == E.NONE


def drain(address: str, done: set[int]) -> dict[int, int]:
    """Accept everything that comes, until each record was done before or has come; return the deliveries of what has come."""
    found: dict[int, int] = {}
    with _client(address) as client:
        member = ShareMember(client, _topic_id(client), uuid.uuid4().hex, GROUP)
        acks: list[dict[str, Any]] = []

        def fetched() -> bool:
            answer = member.fetch(wait_ms=500, acks={0: acks} if acks else None)
            assert answer.error_code == E.NONE, answer
            acks.clear()
            for part in ShareMember.parts(answer):
                for each in part.acquired_records:
                    offsets = range(each.first_offset, each.last_offset + 1)
                    found.update(dict.fromkeys(offsets, each.delivery_count))
                    acks.append({"first_offset": offsets[0], "last_offset": offsets[-1], "acknowledge_types": [ACCEPT]})
            return not acks and done | set(found) >= set(range(COUNT))

        wait_until(fetched, timeout_s=120)
    return found


@pytest.mark.parametrize("first", [ours, theirs])
def test_nothing_is_lost_and_nothing_accepted_comes_again_when_a_broker_is_killed_amid_many_records(
    tmp_path: Path, first: Any
) -> None:
    second = theirs if first is ours else ours
    folder = tmp_path / "data"
    with first(folder, killed=True) as address:
        fill(address)
        with _client(address) as client:
            topic_id = _topic_id(client)
        workers = [Worker(address, topic_id, f"m{each}") for each in range(4)]
        for each in workers:
            each.start()
        wait_until(lambda: sum(len(each.known) for each in workers) > COUNT // 3, timeout_s=120)
    for each in workers:
        each.join(60)
        assert not each.is_alive()
    known = {at: kind for each in workers for at, kind in each.known.items() if kind in (ACCEPT, REJECT)}
    sent = {at for each in workers for at, kind in each.sent.items() if kind in (ACCEPT, REJECT)}
    with second(folder, killed=True) as address:
        # What was sent and not answered may have been stored, or not.
        came = drain(address, sent)
        assert not set(came) & set(known), "what was stored as done is delivered again"
        rejected = {at for at, kind in known.items() if kind == REJECT}
        assert rejected
        wait_until(lambda: buried(address) >= rejected, timeout_s=60)
    with first(folder) as address:
        assert buried(address) >= rejected


def buried(address: str) -> set[int]:
    """Return the offsets of the records that are in the dead letter queue."""
    return {int(dict(headers)["__dlq.errors.offset"]) for headers, _, _ in letters(address, QUEUE)}
