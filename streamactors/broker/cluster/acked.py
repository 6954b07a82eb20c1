"""Reads topics back and compares them with what was acknowledged: nothing may be missing, nothing may be there twice.

Owner: `SeveralBrokers`. Reads from the leaders up to the high watermark, over sockets of its own."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

from streamactors.broker.cluster.view import View
from streamactors.broker.errors import BrokerError, ErrorCode
from streamactors.broker.records.batch import iter_batches
from streamactors.errors import StreamActorsError

FETCH: Final = (1, 12)
MAX_BYTES: Final = 8 << 20
LEADER_TIMEOUT_S: Final = 10.0
_LOOK_AGAIN_S: Final = 0.05
_SHOWN: Final = 10


class AckedRecordsDiffer(StreamActorsError, AssertionError):
    """Acknowledged records are missing, or there more than once."""


def check_acked(view: View, acked: Iterable[tuple[str, bytes]]) -> int:
    """Compare acknowledged records, as (topic, value) with distinct values, with the topics. Return their number.

    Raises AckedRecordsDiffer."""
    expected: dict[str, set[bytes]] = {}
    for topic, value in acked:
        expected.setdefault(topic, set()).add(value)
    for topic, values in expected.items():
        counts = Counter(values_of(view, topic))
        missing = sorted(value for value in values if not counts[value])
        doubled = sorted(value for value in values if counts[value] > 1)
        if missing or doubled:
            raise AckedRecordsDiffer(
                f"{topic}: of {len(values)} acknowledged records, {len(missing)} are missing {_some(missing)} and "
                f"{len(doubled)} are there more than once {_some(doubled)}"
            )
    return sum(map(len, expected.values()))


def values_of(view: View, topic: str) -> Iterator[bytes]:
    """Yield the values of all records of a topic. Raises BrokerError."""
    (found,) = view.metadata([topic]).topics
    for partition in found.partitions:
        yield from _values(view, topic, partition.partition_index)


def _leader(view: View, topic: str, index: int) -> str | None:
    (found,) = view.metadata([topic]).topics
    leaders = {partition.partition_index: partition.leader_id for partition in found.partitions}
    return view.brokers().get(leaders.get(index, -1))


def _values(view: View, topic: str, index: int) -> Iterator[bytes]:
    """Yield the values of a partition. While its leadership moves, the new leader is waited for."""
    offset = 0
    address = _leader(view, topic, index)
    give_up = time.monotonic() + LEADER_TIMEOUT_S
    while True:
        if address is None:
            if time.monotonic() > give_up:
                raise BrokerError(f"{topic}-{index} has no leader, so it cannot be read")
            time.sleep(_LOOK_AGAIN_S)
            address = _leader(view, topic, index)
            continue
        partition = {
            "partition": index,
            "current_leader_epoch": -1,
            "fetch_offset": offset,
            "last_fetched_epoch": -1,
            "log_start_offset": -1,
            "partition_max_bytes": MAX_BYTES,
        }
        body = {
            "replica_id": -1,
            "max_wait_ms": 0,
            "min_bytes": 0,
            "max_bytes": MAX_BYTES,
            "isolation_level": 0,
            "topics": [{"topic": topic, "partitions": [partition]}],
        }
        answer = view.ask(address, FETCH, body).responses[0].partitions[0]
        if answer.error_code == ErrorCode.OFFSET_OUT_OF_RANGE and answer.log_start_offset > offset:
            offset = answer.log_start_offset
            continue
        if answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER and time.monotonic() < give_up:
            address = None
            continue
        if answer.error_code:
            raise BrokerError(f"{topic}-{index} cannot be read at {offset}: {ErrorCode(answer.error_code).name}")
        before = offset
        for batch in iter_batches(bytes(answer.records or b"")):
            offset = batch.next_offset
            if not batch.is_control:
                yield from (bytes(each.value) for each in batch.records() if each.value is not None)
        if offset == before:
            return


def _some(values: list[bytes]) -> str:
    return str(values[:_SHOWN]) if values else ""
