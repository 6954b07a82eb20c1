"""The metadata log on disk: what was appended is there after any restart, and damage is found."""

from __future__ import annotations

import random
import uuid
from pathlib import Path

import pytest

from streamactors.broker.controller.metadata_log import MetadataLog
from streamactors.broker.errors import BrokerError, BrokerStartError, StorageError
from streamactors.broker.log.config import LogConfig
from streamactors.broker.log.disk import Disk
from streamactors.broker.log.manager import LogManager
from streamactors.broker.log.partition_metadata import encode_uuid
from streamactors.broker.metadata.delta import apply_records
from streamactors.broker.metadata.image import MetadataImage
from streamactors.broker.metadata.metadata_record import (
    ConfigRecord,
    FeatureLevel,
    MetadataRecord,
    PartitionRecord,
    RemoveTopic,
    TopicRecord,
)
from streamactors.broker.metadata.snapshot import decode_snapshot
from streamactors.broker.metadata.transaction_record import BeginTransaction, EndTransaction
from streamactors.broker.quorum.voter_set import parse_voters
from streamactors.broker.records.control_batch import control_batch
from tests.broker.failing_folder import FailingDisk
from tests.broker.log.forgetful_disk import ForgetfulDisk

NOW_MS = 1_700_000_000_000
# bootstrap.checkpoint of a folder that Apache Kafka 4.1.1 formatted
KAFKAS_SNAPSHOT = (
    "000000000000000000000047000000000272dc81b7002000000000000001a1fe4c25db000001a1fe4c25dbffffffffffffffffffffffff"
    "ffff000000012a0000000800000003160000000000000000000000000000000000000001000000b900000000023d38a044000000000003"
    "000001a1fe4c2637000001a1fe4c2637ffffffffffffffffffffffffffff000000043a000000012e010c00116d657461646174612e7665"
    "7273696f6e001b00005a000002014e010c0021656c696769626c652e6c65616465722e7265706c696361732e76657273696f6e00010000"
    "340000040128010c000e67726f75702e76657273696f6e00010000400000060134010c00147472616e73616374696f6e2e76657273696f"
    "6e0002000000000000000000050000003f00000000026f0cb49d002000000000000001a1fe4c263d000001a1fe4c263dffffffffffffff"
    "ffffffffffffff000000011a00000008000000040600000000"
)


def topic(number: int) -> list[MetadataRecord]:
    made = uuid.UUID(int=number + 1)
    return [
        TopicRecord(f"t{number}", made),
        PartitionRecord(0, made, (1,), (1,), 1),
        ConfigRecord(2, f"t{number}", "retention.ms", "1"),
    ]


def manager(folder: Path, disk: Disk | None = None) -> LogManager:
    opened = LogManager(folder, default_config=LogConfig(), clock_ms=lambda: NOW_MS, disk=disk)
    opened.open()
    return opened


def opened(logs: LogManager) -> MetadataLog:
    return MetadataLog.open(logs, lambda: NOW_MS)


def write(log: MetadataLog, records: list[MetadataRecord]) -> int:
    last_offset = log.append(records, 1)
    log.sync()
    log.commit(last_offset + 1)
    return last_offset


def test_loading_returns_the_appended_records(tmp_path: Path) -> None:
    logs = manager(tmp_path)
    log = opened(logs)
    image = log.load().image
    for number in range(5):
        image = apply_records(image, topic(number), write(log, topic(number))).image
    removed: list[MetadataRecord] = [RemoveTopic(uuid.UUID(int=3))]
    image = apply_records(image, removed, write(log, removed)).image
    logs.close()
    again = manager(tmp_path)
    assert opened(again).load().image == image
    assert set(image.topics) == {"t0", "t1", "t3", "t4"}
    again.close()


def test_an_offset_counts_records_and_a_batch_is_one_change(tmp_path: Path) -> None:
    logs = manager(tmp_path)
    log = opened(logs)
    assert (write(log, topic(0)), write(log, topic(1)), log.end_offset) == (2, 5, 6)
    logs.close()


@pytest.mark.parametrize("seed", range(15))
def test_a_power_cut_takes_nothing_that_was_appended(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    disk = ForgetfulDisk(tmp_path)
    logs = manager(tmp_path, disk)
    log = opened(logs)
    count = rng.randrange(1, 6)
    for number in range(count):
        write(log, topic(number))
    disk.cut_power(rng)
    logs.folders.unlock()  # the process is gone, and with it its lock
    again = manager(tmp_path, ForgetfulDisk(tmp_path))
    image = opened(again).load().image
    assert set(image.topics) == {f"t{number}" for number in range(count)}
    again.close()


def play(log: MetadataLog, image: MetadataImage, numbers: range, limit: int) -> MetadataImage:
    """Create topics and delete every other one, snapshots and all."""
    for number in numbers:
        records = topic(number) if number % 2 else [*topic(number), RemoveTopic(uuid.UUID(int=number + 1))]
        image = apply_records(image, records, write(log, records)).image
        log.snapshot(image, limit)
    return image


@pytest.mark.parametrize("limit", [1, 300, 1000, 10**9])
def test_snapshots_change_nothing_but_the_length_of_the_log(tmp_path: Path, limit: int) -> None:
    image, end, after = MetadataImage(), 0, 0
    for number in range(3):
        logs = manager(tmp_path)
        log = opened(logs)
        assert log.load().image == image
        assert log.end_offset == end
        image = play(log, image, range(10 * number, 10 * number + 10), limit)
        end = log.end_offset
        after = logs.logs()[0].log_start_offset
        assert len(list((tmp_path / "__cluster_metadata-0").glob("*.checkpoint"))) == (limit < 10**9)
        assert logs.logs()[0].size_bytes < max(limit, 1) + 400 or limit == 10**9
        logs.close()
    assert (after > 0) == (limit < 10**9)


@pytest.mark.parametrize("seed", range(40))
def test_a_power_cut_between_snapshots_takes_nothing(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    disk = ForgetfulDisk(tmp_path)
    logs = manager(tmp_path, disk)
    image = play(opened(logs), MetadataImage(), range(rng.randrange(2, 9)), rng.choice([1, 200, 400]))
    disk.cut_power(rng)
    logs.folders.unlock()
    again = manager(tmp_path, ForgetfulDisk(tmp_path))
    assert opened(again).load().image == image
    again.close()


def test_a_snapshot_that_is_missing_or_half_written_stops_the_broker(tmp_path: Path) -> None:
    logs = manager(tmp_path)
    play(opened(logs), MetadataImage(), range(4), 1)
    logs.close()
    (snapshot,) = (tmp_path / "__cluster_metadata-0").glob("*.checkpoint")
    content = snapshot.read_bytes()
    damaged = [content[: len(content) // 2], b"", bytes([*content[:150], content[150] ^ 1, *content[151:]])]
    for each in damaged:
        snapshot.write_bytes(each)
        again = manager(tmp_path)
        with pytest.raises(BrokerStartError, match="the metadata log is damaged"):
            opened(again).load()
        again.close()
    snapshot.unlink()
    again = manager(tmp_path)
    with pytest.raises(BrokerStartError, match="the snapshot of the records before is missing"):
        opened(again).load()
    again.close()


def test_a_snapshot_written_by_kafka_is_read() -> None:
    content = bytes.fromhex(KAFKAS_SNAPSHOT)
    levels = {
        record.name: record.level for record in decode_snapshot(Path("x"), content) if isinstance(record, FeatureLevel)
    }
    assert levels == {
        "metadata.version": 27,
        "eligible.leader.replicas.version": 1,
        "group.version": 1,
        "transaction.version": 2,
    }


def test_a_disk_that_refuses_a_snapshot_leaves_the_log_as_it_was(tmp_path: Path) -> None:
    disk = ForgetfulDisk(tmp_path)
    logs = manager(tmp_path, disk)
    log = opened(logs)
    image = play(log, MetadataImage(), range(3), 10**9)
    disk.fail_next("sync", tmp_path.name)
    with pytest.raises(StorageError, match="checkpoint"):
        log.snapshot(image, 1)
    assert log.load().image == image
    logs.close()


@pytest.mark.parametrize("seed", range(20))
def test_a_flipped_byte_is_found_at_the_start(tmp_path: Path, seed: int) -> None:
    logs = manager(tmp_path)
    log = opened(logs)
    for number in range(3):
        write(log, topic(number))
    logs.close()
    (file,) = (tmp_path / "__cluster_metadata-0").glob("*.log")
    content = bytearray(file.read_bytes())
    offset_and_size = 12  # a batch's own offset and size are outside its CRC; they must make sense to the log instead
    position = random.Random(seed).randrange(offset_and_size + 4, len(content) // 3)
    content[position] ^= 0x40
    file.write_bytes(content)
    with pytest.raises((BrokerStartError, BrokerError)):
        again = manager(tmp_path)
        try:
            opened(again).load()
        finally:
            again.close()


def test_records_that_contradict_each_other_stop_the_broker_with_one_line(tmp_path: Path) -> None:
    logs = manager(tmp_path)
    log = opened(logs)
    write(log, [RemoveTopic(uuid.UUID(int=9))])
    with pytest.raises(BrokerStartError, match="the metadata log is damaged at record 0") as caught:
        log.load()
    assert "\n" not in str(caught.value)
    logs.close()


@pytest.mark.expects_log("was not closed cleanly", "cannot close the log", "Input/output error")
def test_a_disk_that_cannot_be_read_is_no_damage_of_the_log(tmp_path: Path) -> None:
    disk = FailingDisk()
    logs = manager(tmp_path, disk)
    log = opened(logs)
    write(log, topic(0))
    disk.fail(tmp_path)
    with pytest.raises(BrokerStartError, match="__cluster_metadata-0 cannot be read: Input/output error"):
        log.load()
    logs.close()


@pytest.mark.expects_log("the partition is offline for writes", "was not closed cleanly")
@pytest.mark.parametrize("doing", ["write", "sync"])
def test_an_append_that_the_disk_refuses_is_an_error(tmp_path: Path, doing: str) -> None:
    disk = ForgetfulDisk(tmp_path)
    logs = manager(tmp_path, disk)
    log = opened(logs)
    write(log, topic(0))
    disk.fail_next(doing)
    with pytest.raises(StorageError):
        write(log, topic(1))
    logs.close()


def test_an_empty_log_is_an_empty_image(tmp_path: Path) -> None:
    logs = manager(tmp_path)
    assert opened(logs).load().image == MetadataImage()
    logs.close()


def test_a_transaction_that_has_not_ended_is_left_out(tmp_path: Path) -> None:
    logs = manager(tmp_path)
    log = opened(logs)
    write(log, [FeatureLevel("kept", 1)])
    write(log, [BeginTransaction(), FeatureLevel("later", 1)])
    image = log.load().image
    assert (set(image.features), image.offset, log.in_transaction) == ({"kept"}, 0, True)
    write(log, [EndTransaction()])
    assert set(log.load(image).image.features) == {"kept", "later"}
    assert not log.in_transaction
    logs.close()


def test_only_committed_records_are_loaded(tmp_path: Path) -> None:
    logs = manager(tmp_path)
    log = opened(logs)
    write(log, topic(0))
    first = log.load(up_to=3).image
    write(log, topic(1))
    assert log.load(up_to=3).image == first == log.load(first, 3).image
    delta = log.load(first, 6)
    assert [each.name for each in delta.created] == ["t1"]
    logs.close()


def test_the_newest_voters_of_the_log_count_and_those_before_again_when_it_is_truncated(tmp_path: Path) -> None:
    log = opened(manager(tmp_path))
    log.follow_voters(1, uuid.UUID(int=1_001))
    told: list[object] = []
    log.on_voters = told.append
    one, two = (f"{node}@localhost:909{node}:{encode_uuid(uuid.UUID(int=1_000 + node))}" for node in (1, 2))
    first, grown = parse_voters(one, "CONTROLLER"), parse_voters(f"{one},{two}", "CONTROLLER")
    log.append_batches([bytes(control_batch(first.records(), NOW_MS, leader_epoch=1))])
    assert (log.voters, log.voters_before, log.voters_offset) == ({1}, None, 1)
    assert log.append_voters(grown, 1) == 2
    assert (log.voters, log.voters_before, log.voters_offset) == ({1, 2}, {1}, 2)
    log.follow_voters(1, uuid.UUID(int=1_001))  # as after a restart
    assert (log.voters, log.voters_before, log.voters_offset) == ({1, 2}, {1}, 2)
    log.truncate(2)
    assert (log.voters, log.voters_before, log.voters_offset) == ({1}, None, 1)
    assert told == [first, grown, first]


def test_a_voter_of_the_nodes_id_with_another_folder_is_another_node(tmp_path: Path) -> None:
    log = opened(manager(tmp_path))
    log.follow_voters(1, uuid.UUID(int=7))
    voters = parse_voters(f"1@localhost:9091:{encode_uuid(uuid.UUID(int=1_001))}", "CONTROLLER")
    log.append_voters(voters, 1)
    assert log.voters is not None
    assert 1 not in log.voters
    assert len(log.voters) == 1
