"""The metadata log on disk: what was appended is there after any restart, and damage is found."""

from __future__ import annotations

import random
import uuid
from pathlib import Path

import pytest

from streamactors.broker.controller.delta import apply_records
from streamactors.broker.controller.image import MetadataImage
from streamactors.broker.controller.metadata_log import MetadataLog
from streamactors.broker.controller.metadata_record import Config, MetadataRecord, Partition, RemoveTopic, Topic
from streamactors.broker.errors import BrokerError, BrokerStartError, StorageError
from streamactors.broker.log.config import LogConfig
from streamactors.broker.log.files import Disk
from streamactors.broker.log.manager import LogManager
from tests.broker.log.forgetful_disk import ForgetfulDisk

NOW_MS = 1_700_000_000_000


def topic(number: int) -> list[MetadataRecord]:
    made = uuid.UUID(int=number + 1)
    return [Topic(f"t{number}", made), Partition(0, made, (1,), (1,), 1), Config(2, f"t{number}", "retention.ms", "1")]


def manager(folder: Path, disk: Disk | None = None) -> LogManager:
    opened = LogManager(folder, default_config=LogConfig(), clock_ms=lambda: NOW_MS, disk=disk)
    opened.open()
    return opened


def opened(logs: LogManager) -> MetadataLog:
    return MetadataLog.open(logs, lambda: NOW_MS)


def test_what_is_appended_is_what_is_loaded(tmp_path: Path) -> None:
    logs = manager(tmp_path)
    log = opened(logs)
    image = log.load().image
    for number in range(5):
        image = apply_records(image, topic(number), log.append(topic(number))).image
    removed: list[MetadataRecord] = [RemoveTopic(uuid.UUID(int=3))]
    image = apply_records(image, removed, log.append(removed)).image
    logs.close()
    again = manager(tmp_path)
    assert opened(again).load().image == image
    assert set(image.topics) == {"t0", "t1", "t3", "t4"}
    again.close()


def test_an_offset_counts_records_and_a_batch_is_one_change(tmp_path: Path) -> None:
    logs = manager(tmp_path)
    log = opened(logs)
    assert (log.append(topic(0)), log.append(topic(1)), log.end_offset) == (2, 5, 6)
    logs.close()


@pytest.mark.parametrize("seed", range(15))
def test_a_power_cut_takes_nothing_that_was_appended(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    disk = ForgetfulDisk(tmp_path)
    logs = manager(tmp_path, disk)
    log = opened(logs)
    count = rng.randrange(1, 6)
    for number in range(count):
        log.append(topic(number))
    disk.cut_power(rng)
    logs._data.unlock()  # the process is gone, and with it its lock
    again = manager(tmp_path, ForgetfulDisk(tmp_path))
    image = opened(again).load().image
    assert set(image.topics) == {f"t{number}" for number in range(count)}
    again.close()


@pytest.mark.parametrize("seed", range(20))
def test_a_flipped_byte_is_found_at_the_start(tmp_path: Path, seed: int) -> None:
    logs = manager(tmp_path)
    log = opened(logs)
    for number in range(3):
        log.append(topic(number))
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
    log.append([RemoveTopic(uuid.UUID(int=9))])
    with pytest.raises(BrokerStartError, match="the metadata log is damaged at record 0") as caught:
        log.load()
    assert "\n" not in str(caught.value)
    logs.close()


@pytest.mark.parametrize("doing", ["write", "sync"])
def test_an_append_that_the_disk_refuses_is_an_error(tmp_path: Path, doing: str) -> None:
    disk = ForgetfulDisk(tmp_path)
    logs = manager(tmp_path, disk)
    log = opened(logs)
    log.append(topic(0))
    disk.fail_next(doing)
    with pytest.raises(StorageError):
        log.append(topic(1))
    logs.close()


def test_an_empty_log_is_an_empty_image(tmp_path: Path) -> None:
    logs = manager(tmp_path)
    assert opened(logs).load().image == MetadataImage()
    logs.close()
