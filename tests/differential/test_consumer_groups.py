"""Consumer groups of KIP-848 beside Apache Kafka 4.4.0: the same random histories, the same answers, assignments and records."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from streamactors.broker import Cluster
from streamactors.broker.controller import controller
from streamactors.broker.group.consumer.consumer_record import (
    CURRENT,
    EPOCH,
    MEMBER,
    OLD_METADATA,
    REGEX,
    TARGET,
    TARGET_EPOCH,
    CurrentValue,
    StoredOwned,
    TargetEpochValue,
    TargetValue,
    decode,
)
from tests.broker.wire import WireClient
from tests.differential.apache_kafka import broker as apache
from tests.differential.consumer_history import Asked, History, again, plain, play
from tests.differential.history_count import histories, within_s
from tests.differential.log_reading import records_of

pytestmark = [
    pytest.mark.differential,
    pytest.mark.skipif(not apache.found(), reason="Java or Maven is not here"),
    pytest.mark.timeout(within_s(8)),
]

TOPICS = {"t1": 7, "t2": 3, "t3": 12, "t4": 1, "t5": 40, "t6": 17}
SEEDS = range(1, 1 + histories(8))
LENGTH = 250
SETTINGS: Mapping[str, str] = {
    "offsets.topic.num.partitions": "1",
    # nobody is removed because a machine is slow
    "group.consumer.max.session.timeout.ms": "3600000",
    "group.consumer.session.timeout.ms": "3600000",
    "group.consumer.assignment.interval.ms": "0",
    "group.initial.rebalance.delay.ms": "0",
}
_KINDS = (EPOCH, OLD_METADATA, MEMBER, TARGET_EPOCH, TARGET, CURRENT, REGEX)


class Both(NamedTuple):
    """What was asked, and what both answered and wrote."""

    asked: list[Asked]
    theirs: list[Any]
    ours: list[Any]
    their_records: list[Any]
    our_records: list[Any]
    ids: Mapping[str, uuid.UUID]
    their_folder: Path
    our_folder: Path
    their_groups: Any
    our_groups: Any


def create_topics(client: WireClient) -> dict[str, uuid.UUID]:
    made = {}
    for name, partitions in TOPICS.items():
        topic = {"name": name, "num_partitions": partitions, "replication_factor": 1, "assignments": (), "configs": ()}
        answer = client.call(19, 7, {"topics": [topic], "timeout_ms": 30_000, "validate_only": False})
        made[name] = answer.topics[0].topic_id
    return made


def await_coordinator(client: WireClient) -> None:
    while True:
        found = client.call(10, 4, {"key_type": 0, "coordinator_keys": ["g"]})
        if not found.coordinators[0].error_code:
            break
    while client.call(
        12, 4, {"group_id": "g", "generation_id": 1, "member_id": "m", "group_instance_id": None}
    ).error_code in (14, 15, 16):
        pass  # fmt: skip


def group_records(folder: Path) -> list[Any]:
    """Return the records of consumer groups in a folder, without clocks."""
    found = []
    for record in records_of(folder / "__consumer_offsets-0"):
        kind = int.from_bytes(record.key[:2], "big")
        if kind in _KINDS:
            decoded = decode(kind, record.key, record.value)
            if isinstance(decoded.value, TargetEpochValue):
                found.append((kind, decoded.group_id, decoded.value.epoch, bool(decoded.value.time_ms)))
            elif isinstance(decoded.value, CurrentValue):
                # The order of its topics is that of a hash table, and nothing depends on it.
                assigned, revoking = (
                    sorted(map(_sorted, part)) for part in (decoded.value.assigned, decoded.value.revoking)
                )
                found.append(replace(decoded, value=replace(decoded.value, assigned=assigned, revoking=revoking)))
            elif isinstance(decoded.value, TargetValue):
                # A topic that the assignor gave and took again leaves the table larger, and the order another.
                found.append(replace(decoded, value=replace(decoded.value, topics=sorted(decoded.value.topics))))
            else:
                found.append(decoded)
    return found


def _sorted(owned: StoredOwned) -> StoredOwned:
    pairs = sorted(zip(owned.partitions, owned.epochs or (), strict=True))
    return StoredOwned(owned.topic_id, tuple(p for p, _ in pairs), tuple(e for _, e in pairs))


@contextmanager
def same_ids(ids: Mapping[str, uuid.UUID]) -> Iterator[None]:
    """Let our controller give the topics these ids: assignments depend on them."""
    left = iter(ids.values())
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(controller, "new_topic_id", lambda: next(left, None) or uuid.uuid4())
        yield


def described(client: WireClient) -> Any:
    """Return every group of the histories, with its members and assignments."""
    while (listed := client.call(16, 5, {"states_filter": [], "types_filter": ["consumer"]})).error_code:
        pass  # the groups are being read
    names = sorted(each.group_id for each in listed.groups)
    return plain(client.call(69, 1, {"group_ids": names, "include_authorized_operations": False}))


def hand_over(giver: Path, taker: Path) -> None:
    """Put the offsets partition of one broker into the folder of another, as if it had crashed over it."""
    partition = "__consumer_offsets-0"
    for old in (taker / partition).iterdir():
        if old.name != "partition.metadata":
            old.unlink()
    for new in (giver / partition).iterdir():
        if new.name != "partition.metadata":
            shutil.copy(new, taker / partition)
    for checkpoint in [*taker.glob("*-checkpoint"), *taker.glob("*cleanshutdown")]:
        checkpoint.unlink()


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
            requests, answers = play(client, History(seed, ids), LENGTH)
            asked += requests
            theirs += answers
        their_groups = described(client)
        client.close()
    finally:
        kafka.stop()
    ours_folder = Path(tmp_path_factory.mktemp("ours")) / "data"
    with same_ids(ids):
        with Cluster(listen="127.0.0.1:0", data=ours_folder, config=dict(SETTINGS)) as cluster:
            host, port = cluster.bootstrap_servers.split(":")
            client = WireClient(host, int(port))
            assert create_topics(client) == ids
            await_coordinator(client)
            ours = again(client, asked)
            our_groups = described(client)
            client.close()
    records = group_records(folder), group_records(ours_folder)
    return Both(asked, theirs, ours, *records, ids, folder, ours_folder, their_groups, our_groups)


def test_every_answer_is_apache_kafkas(both: Both) -> None:
    for number, (asked, theirs, ours) in enumerate(zip(both.asked, both.theirs, both.ours, strict=True)):
        assert plain(ours) == plain(theirs), f"request {number}: {asked}"
    accepted = sum(
        1 for asked, answer in zip(both.asked, both.theirs, strict=True) if asked.key == 68 and not answer.error_code
    )
    assert accepted > len(both.asked) / 3, "most heartbeats were refused: the history shows little"
    print(f"{len(SEEDS)} histories, {len(both.asked)} answers")


def test_every_record_is_apache_kafkas(both: Both) -> None:
    for number, (theirs, ours) in enumerate(zip(both.their_records, both.our_records, strict=False)):
        assert ours == theirs, f"record {number}"
    assert len(both.our_records) == len(both.their_records) > 500


def test_apache_kafka_takes_our_groups_over(both: Both, tmp_path: Path) -> None:
    folder = tmp_path / "data"
    shutil.copytree(both.their_folder, folder)
    hand_over(both.our_folder, folder)
    kafka = apache.ApacheKafka(folder, settings=dict(SETTINGS))
    kafka.start()
    try:
        host, port = kafka.address.split(":")
        client = WireClient(host, int(port))
        await_coordinator(client)
        for theirs, ours in zip(described(client)["groups"], both.our_groups["groups"], strict=True):
            assert {name: (theirs[name], ours[name]) for name in ours if theirs[name] != ours[name]} == {}
        client.close()
    finally:
        kafka.kill()


def test_we_take_apache_kafkas_groups_over(both: Both, tmp_path: Path) -> None:
    folder = tmp_path / "data"
    shutil.copytree(both.our_folder, folder)
    hand_over(both.their_folder, folder)
    with Cluster(listen="127.0.0.1:0", data=folder, config=dict(SETTINGS)) as cluster:
        host, port = cluster.bootstrap_servers.split(":")
        client = WireClient(host, int(port))
        await_coordinator(client)
        assert described(client) == both.their_groups
        client.close()
