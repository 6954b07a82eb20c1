"""Logs for tests: small segments, a pool that is closed, a clock that is a number."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from streamactors.broker.log.config import LogConfig
from streamactors.broker.log.disk import Disk
from streamactors.broker.log.manager import LogManager
from streamactors.broker.log.partition.log_loader import Checkpoints
from streamactors.broker.log.partition.partition_log import PartitionLog
from tests.broker.log.forgetful_disk import ForgetfulDisk
from tests.broker.log.manual_pool import NOW_MS, ManualPool
from tests.broker.log.quick_disk import QuickDisk

MakeLog = Callable[..., PartitionLog]


class Time:
    """The clock of the data folders that `start` opens; set back by it."""

    now_ms = NOW_MS


@pytest.fixture
def pool() -> ManualPool:
    return ManualPool()


@pytest.fixture
def disk(tmp_path: Path) -> ForgetfulDisk:
    return ForgetfulDisk(tmp_path)


@pytest.fixture
def make_log(tmp_path: Path, pool: ManualPool) -> Iterator[Callable[..., PartitionLog]]:
    made: list[PartitionLog] = []

    def make(disk: Disk | None = None, *, topic: str = "orders", **settings: Any) -> PartitionLog:
        log = PartitionLog.create(
            disk or QuickDisk(),
            tmp_path / f"{topic}-0",
            topic,
            0,
            None,
            LogConfig(**{"index_interval_bytes": 200, **settings}),
            pool=pool,
            now_ms=NOW_MS,
        )
        made.append(log)
        return log

    yield make
    for log in made:
        log.abandon()


@pytest.fixture
def reopen(pool: ManualPool) -> Iterator[Callable[..., PartitionLog]]:
    opened: list[PartitionLog] = []

    def reopen(log: PartitionLog, checkpoints: Checkpoints | None = None, disk: Disk | None = None) -> PartitionLog:
        """Open the log's folder again, as after a crash unless the checkpoints say otherwise."""
        log.abandon()
        again = PartitionLog.open(
            disk or log.disk,
            log.directory,
            log.topic,
            log.partition,
            log.config,
            checkpoints or Checkpoints(),
            pool=pool,
            now_ms=NOW_MS,
        )
        again.update_config(log.config)
        opened.append(again)
        return again

    yield reopen
    for log in opened:
        log.abandon()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., LogManager]]:
    """Open a data folder under the clock `Time`; closed at the end."""
    started: list[LogManager] = []

    def start(folder: Path | None = None, **options: Any) -> LogManager:
        logs = LogManager(
            folder or tmp_path / "data",
            default_config=LogConfig(),
            clock_ms=lambda: Time.now_ms,
            **{"flush_pool": ManualPool(), **options},
        )
        logs.open()
        started.append(logs)
        return logs

    Time.now_ms = NOW_MS
    yield start
    for logs in started:
        logs.close()


@pytest.fixture
def compacted(make_log: MakeLog) -> PartitionLog:
    return make_log(cleanup_policy=("compact",), segment_bytes=10_000)
