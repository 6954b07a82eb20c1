"""What a broker does with the logs of its folders when the metadata changes."""

from __future__ import annotations

import errno
import uuid
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from streamactors.broker.config.broker_config import BrokerConfig
from streamactors.broker.log.config import LogConfig
from streamactors.broker.log.manager import LogManager
from streamactors.broker.metadata.delta import apply_records
from streamactors.broker.metadata.image import MetadataImage
from streamactors.broker.metadata.metadata_record import PartitionRecord, TopicRecord
from streamactors.broker.server.metadata_publisher import AGAIN_MS, MetadataPublisher
from tests.broker.log.appending import append
from tests.broker.log.conftest import NOW_MS
from tests.broker.log.short_disk import ShortDisk

OLD, NEW = uuid.UUID(int=1), uuid.UUID(int=2)


@pytest.mark.expects_log("its partitions may refuse records", "which the broker never deletes")
def test_a_topic_does_not_get_the_records_of_an_earlier_one_of_its_name_after_a_shortage(tmp_path: Path) -> None:
    # No space to prepare the folders of a change -> its partitions are made when it is applied -> the log of an earlier topic of the same name,
    # which the metadata does not know any more, became that of the new topic, with its records.
    disk = ShortDisk()
    logs = LogManager(tmp_path, default_config=LogConfig(), clock_ms=lambda: NOW_MS, disk=disk)
    logs.open()
    append(logs.create("t", 0, OLD, LogConfig()), b"of the earlier topic")
    applied: list[uuid.UUID | None] = []
    later: list[float] = []

    def apply(state: Any, config: LogConfig) -> None:
        log = logs.get("t", 0) or logs.create("t", 0, state.topic_id, config)
        applied.append(log.topic_id)

    node: Any = SimpleNamespace(
        node_id=1,
        config=BrokerConfig.of({}),
        logs=logs,
        data_plane=SimpleNamespace(call_later=lambda ms, then: later.append(ms)),
    )
    partitions: Any = SimpleNamespace(get=lambda topic, index: None, apply=apply)
    publisher = MetadataPublisher(node, partitions)
    partition = PartitionRecord(0, NEW, (1,), (1,), 1, 0, 0)
    delta = apply_records(MetadataImage(), [TopicRecord("t", NEW), partition], 1)
    disk.fail(errno.ENOSPC, only="-stray")
    publisher.apply(delta)
    assert (applied, later) == ([], [AGAIN_MS])
    disk.work()
    publisher.apply(delta)
    assert applied == [NEW]
    assert len(logs.strays) == 1
    logs.close()
