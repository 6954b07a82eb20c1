"""A disk that cannot be read: an error of the partition that is on it, and nobody else notices."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from streamactors import log_limit
from streamactors.broker.errors import ErrorCode
from streamactors.broker.log.disk import Disk, LogFile
from tests.broker.live_broker import LiveBroker, batch, fetch_body, produce_body
from tests.broker.wire import wait_until

BAD = "orders-0"


class FadingFile(LogFile):
    """A file whose reads fail once its partition's disk has faded."""

    __slots__ = ("_disk",)

    def __init__(self, path: Path, disk: FadingDisk) -> None:
        super().__init__(path, disk.open_files)
        self._disk = disk

    def read_at(self, size: int, position: int) -> bytes:
        if self._disk.faded and self.path.parent.name == BAD:
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(self.path))
        return super().read_at(size, position)


class FadingDisk(Disk):
    """Its reads of one partition fail from some time on."""

    faded = False

    def file(self, path: Path) -> LogFile:
        return FadingFile(path, self)


@pytest.fixture
def disk() -> FadingDisk:
    return FadingDisk()


@pytest.fixture
def live(tmp_path: Path, disk: FadingDisk) -> Iterator[LiveBroker]:
    with LiveBroker(tmp_path, disk=disk) as live:
        live.create_topic("orders", partitions=2)
        with live.client() as client:
            for partition in range(2):
                client.call(0, 9, produce_body(batch(b"a", b"b", b"c"), partition=partition))
        yield live


def of_both(body: dict[str, Any], name: str = "partition") -> dict[str, Any]:
    """The same request for both partitions."""
    topic = body["topics"][0]
    return {**body, "topics": [{**topic, "partitions": [{**topic["partitions"][0], name: at} for at in range(2)]}]}


@pytest.mark.expects_log("cannot read at offset")
def test_a_fetch_returns_the_readable_records(live: LiveBroker, disk: FadingDisk) -> None:
    disk.faded = True
    with live.client() as client:
        first, second = client.call(1, 12, of_both(fetch_body(1))).responses[0].partitions
        assert (first.error_code, first.records) == (ErrorCode.KAFKA_STORAGE_ERROR, b"")
        assert (second.error_code, bool(second.records)) == (0, True)


@pytest.mark.expects_log("cannot read at offset")
def test_a_fetch_that_waits_is_answered_when_the_disk_fails(live: LiveBroker, disk: FadingDisk) -> None:
    with live.client() as consumer, live.client() as producer:
        body = fetch_body(1, min_bytes=1 << 19, max_wait_ms=2**31 - 1)
        consumer.send(1, 12, of_both(body))
        wait_until(lambda: live.on_data_plane(lambda: live.node.fetch_purgatory.delayed) == 1)
        disk.faded = True
        producer.call(0, 9, produce_body(batch(b"d"), partition=1))
        first, second = consumer.receive()[1].responses[0].partitions
        assert first.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert (second.error_code, bool(second.records)) == (0, True)


@pytest.mark.expects_log("the search for timestamp")
def test_a_time_is_listed_where_it_can_be(live: LiveBroker, disk: FadingDisk) -> None:
    disk.faded = True
    asked = {"partition_index": 0, "timestamp": 5, "current_leader_epoch": -1}
    body = {"replica_id": -1, "isolation_level": 0, "topics": [{"name": "orders", "partitions": [asked]}]}
    with live.client() as client:
        first, second = client.call(2, 7, of_both(body, "partition_index")).topics[0].partitions
        assert (first.error_code, first.offset) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)
        assert (second.error_code, second.offset) == (0, 0)


def test_a_disk_that_clients_read_again_and_again_is_one_line_a_second(
    live: LiveBroker, disk: FadingDisk, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A consumer asks again as soon as it has the error: each of its requests was a line.
    monkeypatch.setattr(log_limit._of_process, "_now_s", lambda: 0.0)
    disk.faded = True
    with live.client() as client:
        for time_ms in (5, 6, 7):
            client.call(1, 12, fetch_body(1, topic="orders"))
            asked = {"partition_index": 0, "timestamp": time_ms, "current_leader_epoch": -1}
            client.call(
                2, 7, {"replica_id": -1, "isolation_level": 0, "topics": [{"name": "orders", "partitions": [asked]}]}
            )
    assert [line.partition(": ")[2].partition(": ")[0] for line in caplog.messages] == [
        "cannot read at offset 1",
        "the search for timestamp 5 failed",
    ]


@pytest.mark.expects_log("the partition is offline for writes", "was not closed cleanly")
def test_only_appends_that_need_an_unreadable_file_are_refused(tmp_path: Path, disk: FadingDisk) -> None:
    with LiveBroker(tmp_path, disk=disk) as live:
        live.create_topic("orders", partitions=2)
        with live.client() as client:
            for partition in range(2):
                client.call(0, 9, produce_body(batch(b"a"), partition=partition))
    with LiveBroker(tmp_path, disk=disk) as live:  # its first append looks at what is there
        disk.faded = True
        with live.client() as client:
            both = [{"index": at, "records": batch(b"b")} for at in range(2)]
            body = {"acks": -1, "timeout_ms": 30_000, "topic_data": [{"name": "orders", "partition_data": both}]}
            first, second = client.call(0, 9, body).responses[0].partition_responses
            assert (first.error_code, second.error_code) == (ErrorCode.KAFKA_STORAGE_ERROR, 0)
            assert second.base_offset == 1
        disk.faded = False
