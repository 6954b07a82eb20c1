"""Reading partitions of a real cluster from offsets to offsets, without a group."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from streamactors.kafka.client.consumer import StreamConsumer
from streamactors.kafka.errors import NoBroker
from streamactors.kafka.settings import ClientSettings
from streamactors.kafka.subscriptions import TopicPartition
from streamactors.simulation.capture.capsule import CapturedRecord

_LIMIT: Final = 5_000
_WAIT_S: Final = 0.2
SILENCE_S: Final = 30.0


def read_ranges(
    settings: ClientSettings,
    ranges: Mapping[TopicPartition, tuple[int, int]],
    take: Callable[[TopicPartition, CapturedRecord], object],
    *,
    committed_only: bool,
) -> None:
    """Give each record of these ranges of offsets to `take`, in the order of each partition. Raises KafkaError."""
    ends = {key: end for key, (begin, end) in ranges.items() if begin < end}
    if not ends:
        return
    isolation = "read_committed" if committed_only else "read_uncommitted"
    reading = settings.as_consumer().with_auto_offset_reset("earliest").with_property("fetch.wait.max.ms", 100)
    client = StreamConsumer(reading.with_property("isolation.level", isolation))
    try:
        client.assign({key: ranges[key][0] for key in ends})
        heard = time.monotonic()
        while ends:
            found = client.read(_LIMIT, _WAIT_S)
            for run in found.runs:
                end = ends.get(run.key, 0)
                for message in run.records:
                    if message.offset() < end:
                        take(run.key, _captured(run.key, message))
                if run.end >= end:
                    ends.pop(run.key, None)
            for key, position in found.ends:
                if position >= ends.get(key, position):  # the last offsets may be those of transactions' ends
                    ends.pop(key, None)
            if found.runs or found.ends:
                heard = time.monotonic()
            elif time.monotonic() - heard > SILENCE_S:
                raise NoBroker(
                    f"{', '.join(map(str, list(ends)[:3]))}: nothing came from {settings.bootstrap_servers} for {SILENCE_S:g} s"
                )
    finally:
        client.close()


def _captured(key: TopicPartition, message: Any) -> CapturedRecord:
    kind, timestamp = message.timestamp()
    return CapturedRecord(
        key.topic, key.partition, message.offset(), timestamp if kind else -1,
        message.key(), message.value(), tuple(message.headers() or ()),
    )  # fmt: skip
