"""Streams groups of KIP-1071 beside Apache Kafka 4.4.0: the same random histories, the same answers, assignments and records."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from streamactors.broker import Cluster
from streamactors.broker.controller import controller
from streamactors.broker.group.streams.streams_record import (
    CURRENT,
    EPOCH,
    MEMBER,
    TARGET,
    TARGET_EPOCH,
    TOPOLOGY,
    TargetEpochValue,
    TopologyValue,
    decode,
)
from tests.broker.wire import WireClient
from tests.differential.apache_kafka import broker as apache
from tests.differential.history_count import histories, within_s
from tests.differential.log_reading import records_of
from tests.differential.streams_history import HEARTBEAT, TOPICS, Asked, History, call, plain, play

pytestmark = [
    pytest.mark.differential,
    pytest.mark.slow,
    pytest.mark.skipif(not apache.found(), reason="Java or Maven is not here"),
    pytest.mark.timeout(within_s(32)),
]

SEEDS = range(histories(32))
LENGTH = 60
SETTINGS: Mapping[str, str] = {
    "offsets.topic.num.partitions": "1",
    # nobody is removed because a machine is slow
    "group.streams.max.session.timeout.ms": "3600000",
    "group.streams.session.timeout.ms": "3600000",
    "group.streams.assignment.interval.ms": "0",
    "group.streams.initial.rebalance.delay.ms": "0",
    "group.streams.num.standby.replicas": "1",
}
_KINDS = (EPOCH, MEMBER, TARGET_EPOCH, TARGET, CURRENT, TOPOLOGY)


class Both(NamedTuple):
    """What was asked, and what both answered and wrote."""

    asked: list[Asked]
    theirs: list[Any]
    ours: list[Any]
    their_records: list[Any]
    our_records: list[Any]


def create_topics(client: WireClient) -> list[uuid.UUID]:
    made = []
    for name, partitions in TOPICS.items():
        topic = {"name": name, "num_partitions": partitions, "replication_factor": 1, "assignments": (), "configs": ()}
        answer = client.call(19, 7, {"topics": [topic], "timeout_ms": 30_000, "validate_only": False})
        made.append(answer.topics[0].topic_id)
    return made


def await_coordinator(client: WireClient) -> None:
    while client.call(10, 4, {"key_type": 0, "coordinator_keys": ["g"]}).coordinators[0].error_code:
        pass
    beat = {"group_id": "g", "generation_id": 1, "member_id": "m", "group_instance_id": None}
    while client.call(12, 4, beat).error_code in (14, 15, 16):
        pass


def group_records(folder: Path) -> list[Any]:
    """Return the records of streams groups in a folder, without clocks; the order of the parts of a topology is that of a hash table."""
    found: list[Any] = []
    for record in records_of(folder / "__consumer_offsets-0"):
        kind = int.from_bytes(record.key[:2], "big")
        if kind not in _KINDS:
            continue
        decoded = decode(kind, record.key, record.value)
        if isinstance(decoded.value, TargetEpochValue):
            found.append((kind, decoded.group_id, decoded.value.epoch, bool(decoded.value.time_ms)))
        elif isinstance(decoded.value, TopologyValue):
            found.append((kind, decoded.group_id, decoded.value.epoch, sorted(decoded.value.subtopologies, key=repr)))
        else:
            found.append(decoded)
    return found


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Both:
    folder = Path(tmp_path_factory.mktemp("kafka")) / "data"
    kafka = apache.ApacheKafka(folder, settings=dict(SETTINGS))
    kafka.start()
    asked: list[Asked] = []
    theirs: list[Any] = []
    try:
        host, port = kafka.address.split(":")
        client = WireClient(host, int(port))
        ids = create_topics(client)
        await_coordinator(client)
        for seed in SEEDS:
            requests, answers = play(client, History(seed), LENGTH)
            asked += requests
            theirs += answers
        client.close()
    finally:
        kafka.stop()
    ours_folder = Path(tmp_path_factory.mktemp("ours")) / "data"
    left = iter(ids)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(controller, "new_topic_id", lambda: next(left, uuid.uuid4()))
        with Cluster(listen="127.0.0.1:0", data=ours_folder, config=dict(SETTINGS)) as cluster:
            host, port = cluster.bootstrap_servers.split(":")
            client = WireClient(host, int(port))
            assert create_topics(client) == ids
            await_coordinator(client)
            ours = [call(client, each) for each in asked]
            client.close()
    return Both(asked, theirs, ours, group_records(folder), group_records(ours_folder))


def test_every_answer_is_apache_kafkas(both: Both) -> None:
    for number, (asked, theirs, ours) in enumerate(zip(both.asked, both.theirs, both.ours, strict=True)):
        assert plain(ours) == plain(theirs), f"request {number}: {asked}"
    print(f"{len(SEEDS)} histories, {len(both.asked)} answers")
    beats = [answer for asked, answer in zip(both.asked, both.theirs, strict=True) if asked.key == HEARTBEAT]
    assert sum(not answer.error_code for answer in beats) > len(beats) / 3, "most heartbeats were refused"


def test_every_record_is_apache_kafkas(both: Both) -> None:
    for number, (theirs, ours) in enumerate(zip(both.their_records, both.our_records, strict=False)):
        assert ours == theirs, f"record {number}"
    assert len(both.our_records) == len(both.their_records) > 500
