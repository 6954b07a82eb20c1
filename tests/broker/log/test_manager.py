"""The data folder as a whole: locking, whose it is, what comes back of it, shutting down."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from streamactors.broker.errors import BrokerStartError, StorageError
from streamactors.broker.log.checkpoint_text import HIGH_WATERMARKS, LOG_STARTS, RECOVERY_POINTS
from streamactors.broker.log.config import LogConfig
from streamactors.broker.log.folders.folder_names import parse_folder
from streamactors.broker.log.folders.meta_properties import decode_properties
from streamactors.broker.log.manager import LogManager
from streamactors.broker.log.partition.partition_log import PartitionLog
from tests.broker.failing_folder import FailingDisk
from tests.broker.log.conftest import NOW_MS
from tests.broker.log.data_folder import append, crash
from tests.broker.log.forgetful_disk import ForgetfulDisk
from tests.own_process import own_process

TOPIC_ID = uuid.UUID("12345678-1234-5678-1234-567812345678")


def test_a_new_folder_gets_an_identity_and_keeps_it(start: Callable[..., LogManager]) -> None:
    logs = start(node_id=3)
    properties = logs.properties
    assert (properties.node_id, logs.was_clean) == (3, True)
    assert len(properties.cluster_id) == 22
    logs.close()
    again = start(node_id=9)
    assert again.properties == properties
    text = (logs.folder / "meta.properties").read_text()
    assert {"version=1", "node.id=3", f"cluster.id={properties.cluster_id}"} <= set(text.splitlines())


SMALL_FILES = ("partition.metadata", "leader-epoch-checkpoint")


def twins(logs: LogManager) -> tuple[PartitionLog, PartitionLog]:
    """Two logs of a topic, made together as a new topic's are."""
    one = logs.create("t", 0, TOPIC_ID, LogConfig())
    one.assign_leader_epoch(0)
    other = logs.create("t", 1, TOPIC_ID, LogConfig(), one)
    other.assign_leader_epoch(0, one)
    return one, other


def test_new_partitions_share_equal_files_until_one_changes(start: Callable[..., LogManager]) -> None:
    # A thousand partitions are a thousand folders and segments; without this they were two thousand files more.
    logs = start()
    one, other = twins(logs)
    for name in SMALL_FILES:
        assert (one.directory / name).samefile(other.directory / name)
    before = (one.directory / "leader-epoch-checkpoint").read_bytes()
    other.assign_leader_epoch(7)
    assert (one.directory / "leader-epoch-checkpoint").read_bytes() == before
    append(one, 3)
    logs.delete("t", 1)
    logs.remove_deleted()
    crash(logs)
    back = start().get("t", 0)
    assert back is not None
    assert (back.topic_id, back.latest_epoch, back.end_offset) == (TOPIC_ID, 0, 3)


def test_a_file_system_without_hard_links_has_a_file_for_each(
    start: Callable[..., LogManager], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> None:
        raise PermissionError("no hard links here")

    monkeypatch.setattr(os, "link", refuse)
    one, other = twins(start())
    for name in SMALL_FILES:
        assert (one.directory / name).read_bytes() == (other.directory / name).read_bytes()
        assert not (one.directory / name).samefile(other.directory / name)


def test_logs_come_back_with_their_ids_offsets_and_marks(start: Callable[..., LogManager]) -> None:
    logs = start()
    assert logs.get("a-b", 1) is None
    log = logs.create("a-b", 1, TOPIC_ID, LogConfig())
    append(log, 5)
    log.trim.delete_records(2, NOW_MS)
    logs.close()
    assert json.loads((logs.folder / ".kafka_cleanshutdown").read_text()) == {"version": 0, "brokerEpoch": -1}
    assert (logs.folder / RECOVERY_POINTS).read_text() == "0\n1\na-b 1 5\n"
    assert (logs.folder / HIGH_WATERMARKS).read_text() == "0\n1\na-b 1 5\n"
    assert (logs.folder / LOG_STARTS).read_text() == "0\n1\na-b 1 2\n"
    again = start()
    assert again.was_clean
    assert not (logs.folder / ".kafka_cleanshutdown").exists()
    back = again.get("a-b", 1)
    assert back is not None
    assert back.topic_id == TOPIC_ID
    assert (back.log_start_offset, back.high_watermark, back.end_offset, back.recovery_point) == (2, 5, 5, 5)
    assert (back.directory / "partition.metadata").read_text() == "version: 0\ntopic_id: EjRWeBI0VngSNFZ4EjRWeA\n"


@pytest.mark.parametrize("restarts", [False, True])
def test_a_topic_keeps_its_records_over_a_crash_though_one_of_its_name_had_deleted_more(
    start: Callable[..., LogManager], restarts: bool
) -> None:
    # The log start of a topic was written down -> the topic was deleted, and one of its name was created -> the broker was killed before it wrote
    # the log starts again -> the log of the new topic ended before its supposed start, and was emptied.
    logs = start()
    log = logs.create("t", 0, TOPIC_ID, LogConfig())
    append(log, 9)
    log.trim.delete_records(7, NOW_MS)
    if restarts:
        logs.close()
        logs = start()
    else:
        logs.tick(NOW_MS)
        logs.tick(NOW_MS + 60_000)
    assert (logs.folder / LOG_STARTS).read_text() == "0\n1\nt 0 7\n"
    logs.delete("t", 0)
    append(logs.create("t", 0, uuid.uuid4(), LogConfig()), 3)
    crash(logs)
    back = start().get("t", 0)
    assert back is not None
    assert (back.log_start_offset, back.high_watermark, back.end_offset) == (0, 0, 3)


@pytest.mark.expects_log("damaged at offset")
def test_a_crash_is_noticed_and_recovered_from(start: Callable[..., LogManager]) -> None:
    logs = start()
    append(logs.create("t", 0, TOPIC_ID, LogConfig()), 5)
    path = logs.folder / "t-0" / f"{0:020d}.log"
    crash(logs)
    path.write_bytes(path.read_bytes()[:-1])
    again = start()
    assert not again.was_clean
    log = again.get("t", 0)
    assert log is not None
    assert (log.end_offset, log.recovery_point) == (4, 4)


@pytest.mark.expects_exit_code(1)
def test_a_folder_in_use_is_refused_within_a_process_and_between_processes(
    start: Callable[..., LogManager], tmp_path: Path
) -> None:
    logs = start()
    with pytest.raises(BrokerStartError, match="is in use by another broker; stop it, or choose another with --data"):
        start(logs.folder)
    program = (
        "import sys; from pathlib import Path; from streamactors.broker.log.folders.data_folder import DataFolder;"
        "from streamactors.broker.log.disk import Disk; DataFolder(Disk(), Path(sys.argv[1])).open(1, None)"
    )
    other = subprocess.run(
        [sys.executable, "-c", program, str(logs.folder)], capture_output=True, text=True, check=False
    )
    assert "BrokerStartError" in other.stderr
    assert "is in use by another broker" in other.stderr
    logs.close()
    start(logs.folder)


def test_a_foreign_folder_is_refused_and_left_as_it_is(start: Callable[..., LogManager], tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "letter.txt").write_text("dear")
    with pytest.raises(
        BrokerStartError, match=r"is not the data folder of a broker: it has letter.txt, but no meta\.properties"
    ):
        start(tmp_path / "home")
    assert (tmp_path / "home" / "letter.txt").read_text() == "dear"
    assert not (tmp_path / "home" / "meta.properties").exists()


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "version is missing"),
        (b"version=2\nnode.id=1\ncluster.id=x\n", "version is 2"),
        (b"version=1\nnode.id=1\n", r"cluster\.id is missing"),
        (b"version=1\nnode.id=x\ncluster.id=y\n", r"node\.id is x"),
        (b"version=1\nnode.id=1\ncluster.id=y\ndirectory.id=short\n", "not an id: 'short'"),
    ],
)
def test_a_damaged_identity_is_refused_by_name(
    start: Callable[..., LogManager], tmp_path: Path, content: bytes, complaint: str
) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "meta.properties").write_bytes(content)
    with pytest.raises(BrokerStartError, match=rf"meta\.properties is damaged: {complaint}"):
        start()
    (tmp_path / "data" / "meta.properties").unlink()
    start()


def test_the_folder_of_another_cluster_is_refused(start: Callable[..., LogManager]) -> None:
    logs = start(cluster_id="one")
    logs.close()
    with pytest.raises(BrokerStartError, match="belongs to cluster one, not to two"):
        start(cluster_id="two")


def test_a_folder_of_a_newer_version_is_refused_and_left_as_it_is(
    start: Callable[..., LogManager], tmp_path: Path
) -> None:
    start().close()
    path = tmp_path / "data" / "meta.properties"
    content = path.read_bytes()
    assert b"streamactors.format=1\n" in content
    newer = content.replace(b"format=1", b"format=2")
    path.write_bytes(newer)
    with pytest.raises(
        BrokerStartError,
        match="was written by a newer streamactors: it has format 2, and this version reads formats up to 1",
    ):
        start()
    assert path.read_bytes() == newer
    path.write_bytes(content)
    assert start().properties.own


def test_an_identity_as_apache_kafka_writes_it_is_read() -> None:
    data = b"#\n#Sat Nov 21 10:00:00 UTC 2026\nnode.id=1\nversion=1\ndirectory.id=AAECAwQFBgcICQoLDA0ODw\ncluster.id=MkU3OEVBNTcwNTJENDM2Qg\n"
    properties = decode_properties(data)
    assert properties.cluster_id == "MkU3OEVBNTcwNTJENDM2Qg"
    assert properties.directory_id == uuid.UUID(bytes=bytes(range(16)))
    assert not properties.own


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written_is_refused(start: Callable[..., LogManager], tmp_path: Path) -> None:
    (tmp_path / "data").mkdir(mode=0o500)
    with pytest.raises(BrokerStartError, match=r"cannot use the data folder .*Permission denied"):
        start()


@pytest.mark.expects_log("the partition is offline for writes")
def test_a_disk_that_fails_at_the_start_is_one_line(start: Callable[..., LogManager], tmp_path: Path) -> None:
    logs = start()
    append(logs.create("t", 0, TOPIC_ID, LogConfig()))
    crash(logs)
    disk = ForgetfulDisk(tmp_path)
    disk.fail_next("sync")
    with pytest.raises(BrokerStartError, match="t-0: cannot flush to disk: Input/output error"):
        start(disk=disk)
    start()


@pytest.mark.expects_log("is damaged")
def test_damaged_checkpoints_are_found_out_again(start: Callable[..., LogManager]) -> None:
    logs = start()
    append(logs.create("t", 0, TOPIC_ID, LogConfig()), 3)
    logs.close()
    for name in (RECOVERY_POINTS, HIGH_WATERMARKS, LOG_STARTS):
        (logs.folder / name).write_bytes(b"0\n9\nt 0")
    log = start().get("t", 0)
    assert log is not None
    assert log.end_offset == 3


@own_process
def test_closing_leaves_no_thread_no_descriptor_and_no_lock(tmp_path: Path) -> None:
    # Only what belongs to this folder is counted: garbage of other tests may close their descriptors at any time.
    def descriptors() -> list[str]:
        links = []
        for fd in os.listdir("/proc/self/fd"):
            with suppress(OSError):  # closed by another thread since
                links.append(os.readlink(f"/proc/self/fd/{fd}"))
        return [link for link in links if link.startswith(str(tmp_path))]

    threads = set(threading.enumerate())
    for _ in range(3):
        logs = LogManager(tmp_path / "data", default_config=LogConfig(), clock_ms=lambda: NOW_MS)
        logs.open()
        for topic in ("a", "b"):
            log = logs.get(topic, 0) or logs.create(topic, 0, TOPIC_ID, LogConfig(flush_messages=1))
            append(log, 3)
            log.flusher.request_soon()
        logs.delete("a", 0)
        logs.close()
        logs.close()
    assert descriptors() == []
    assert set(threading.enumerate()) <= threads
    assert not [name for name in os.listdir(tmp_path / "data") if name.endswith("-delete")]


@pytest.mark.expects_log("the partition is offline for writes", "was not closed cleanly")
def test_a_log_that_went_offline_keeps_the_folder_from_being_called_clean(
    start: Callable[..., LogManager], tmp_path: Path
) -> None:
    disk = ForgetfulDisk(tmp_path)
    logs = start(disk=disk)
    log = logs.create("t", 0, TOPIC_ID, LogConfig())
    append(log)
    disk.fail_next("write")
    with pytest.raises(StorageError):
        append(log)
    logs.close()
    assert not (logs.folder / ".kafka_cleanshutdown").exists()
    again = start()
    assert not again.was_clean
    back = again.get("t", 0)
    assert back is not None
    assert back.end_offset == 1


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("orders-0", ("orders", 0)),
        ("a-b-12", ("a-b", 12)),
        ("-0", None),
        ("orders", None),
        ("orders-", None),
        ("orders-x", None),
        ("orders-0.abc-delete", None),
        ("orders--1", ("orders-", 1)),
        ("orders-\u0661", None),
    ],
)
def test_folder_names(name: str, key: tuple[str, int] | None) -> None:
    assert parse_folder(name) == key


@own_process
def test_a_thousand_idle_partitions_cost_no_descriptor(start: Callable[..., LogManager]) -> None:
    before = len(os.listdir("/proc/self/fd"))
    logs = start()
    for partition in range(1000):
        logs.create("t", partition, TOPIC_ID, LogConfig())
    assert len(os.listdir("/proc/self/fd")) <= before + 2
    assert len(logs.logs()) == 1000


@pytest.mark.expects_log("its partitions may refuse records")
def test_a_log_that_has_no_room_leaves_nothing_behind(tmp_path: Path) -> None:
    # The empty folder of the log stayed, and the next start, which had no room for its first segment, left the whole data folder out.
    disk = FailingDisk()
    folders = (tmp_path / "a", tmp_path / "b")

    def start() -> LogManager:
        logs = LogManager(
            folders[0], others=folders[1:], default_config=LogConfig(), clock_ms=lambda: NOW_MS, disk=disk
        )
        logs.open()
        return logs

    logs = start()
    logs.folders.preferred["t", 0] = folders[1]
    disk.without_room.add(folders[1])
    assert logs.create("t", 0, None, LogConfig()).directory.parent == folders[0]
    assert not (folders[1] / "t-0").exists()
    logs.close()
    again = start()
    assert len(again.folders.usable) == 2
    again.close()


@pytest.mark.expects_log("its partitions may refuse records")
def test_what_was_there_before_stays_when_a_log_has_no_room(tmp_path: Path) -> None:
    disk = FailingDisk()
    logs = LogManager(tmp_path / "a", default_config=LogConfig(), clock_ms=lambda: NOW_MS, disk=disk)
    logs.open()
    (tmp_path / "a" / "t-0").mkdir()
    (tmp_path / "a" / "t-0" / "note").touch()
    disk.without_room.add(tmp_path / "a")
    with pytest.raises(StorageError, match="No space left"):
        logs.create("t", 0, None, LogConfig())
    assert (tmp_path / "a" / "t-0" / "note").exists()
    logs.close()


@pytest.mark.expects_log("its partitions may refuse records", "was not closed cleanly")
def test_the_metadata_log_is_made_in_no_other_folder(tmp_path: Path) -> None:
    disk = FailingDisk()
    folders = (tmp_path / "a", tmp_path / "b")
    logs = LogManager(folders[0], others=folders[1:], default_config=LogConfig(), clock_ms=lambda: NOW_MS, disk=disk)
    logs.open()
    disk.fail(folders[0], errno.ENOSPC)
    with pytest.raises(StorageError, match="No space left"):
        logs.create("__cluster_metadata", 0, None, LogConfig())
    logs.close()
