"""The first record at or after an offset of each partition: how old the oldest record is that a group has not read.

An offset alone does not say so: transaction markers and records that compaction has removed have offsets, too, and the records of an open transaction
cannot be read as committed ones. So committed records are read first; where an open transaction begins before one is found, its first record counts.

Owner: the thread that made it. One small fetch serves many partitions, and a partition that has answered is not fetched any more."""

from __future__ import annotations

import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Final, NamedTuple

from streamactors.kafka.client.consumer import StreamConsumer
from streamactors.kafka.client.runs import PollResult
from streamactors.kafka.settings import ConsumerSettings
from streamactors.kafka.subscriptions import TopicPartition

PARTITION_BYTES: Final = 64 << 10
"""The size of a fetch of one partition; a larger batch still comes, one in a fetch."""
FETCH_BYTES: Final = 4 << 20
_POLL_S: Final = 0.2
_RECORDS: Final = 1_000


class FirstRecord(NamedTuple):
    """A record's offset, and its timestamp in ms since 1970; None where the record has none."""

    offset: int
    timestamp_ms: int | None


Found = dict[TopicPartition, "FirstRecord | None"]
"""The first record of each partition; None where no record is left before the end."""


class FirstRecords:
    """Finds first records with two consumers that are made when they are needed and kept for the next question."""

    def __init__(self, settings: ConsumerSettings) -> None:
        self._settings = settings.with_group_id(None).with_auto_offset_reset("earliest")
        self._clients: dict[str, StreamConsumer] = {}

    def __enter__(self) -> FirstRecords:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Disconnect."""
        for client in self._clients.values():
            client.close()
        self._clients.clear()

    def find(self, begins: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int], timeout_s: float) -> Found:
        """Return the first record from `begins` to before `ends` of each partition. A partition that has not answered in time is left out.

        Raises ConsumerFailed if a topic must not be read."""
        give_up = time.monotonic() + timeout_s
        found, stopped = self._read("read_committed", begins, ends, give_up)
        if stopped:  # at the last stable offset: a transaction is open there
            opened, _ = self._read("read_uncommitted", stopped, ends, give_up)
            found |= opened
        return found

    def _read(
        self,
        isolation: str,
        begins: Mapping[TopicPartition, int],
        ends: Mapping[TopicPartition, int],
        give_up: float,
    ) -> tuple[Found, dict[TopicPartition, int]]:
        """Return what was found, and where partitions ended before their end."""
        found: Found = {key: None for key, begin in begins.items() if begin >= ends[key]}
        stopped: dict[TopicPartition, int] = {}
        missing = {key: begin for key, begin in begins.items() if key not in found}
        if not missing:
            return found, stopped
        client = self._client(isolation)
        client.assign(dict(missing))
        while missing and (left_s := give_up - time.monotonic()) > 0:
            batch = client.poll(_RECORDS, min(left_s, _POLL_S))
            answered = {key: answer for key, answer in _firsts(batch, missing, ends).items() if key in missing}
            for key, answer in answered.items():
                del missing[key]
                if isinstance(answer, int):
                    stopped[key] = answer
                else:
                    found[key] = answer
            if answered:
                client.assign_less(answered)
        if missing:
            client.assign_less(missing)
        return found, stopped

    def _client(self, isolation: str) -> StreamConsumer:
        if isolation not in self._clients:
            bounds: dict[str, Any] = {
                "isolation.level": isolation,
                "enable.partition.eof": True,
                "fetch.wait.max.ms": 100,
                "max.partition.fetch.bytes": PARTITION_BYTES,
                "fetch.max.bytes": FETCH_BYTES,
                "queued.min.messages": 1,
                "queued.max.messages.kbytes": FETCH_BYTES >> 10,
            }
            self._clients[isolation] = StreamConsumer(self._settings.with_properties(bounds))
        return self._clients[isolation]


def _firsts(
    batch: PollResult, begins: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
) -> dict[TopicPartition, FirstRecord | int | None]:
    """Return the first record of each partition in a batch, None where its end was reached, else the position where it stopped before the end."""
    answers: dict[TopicPartition, FirstRecord | int | None] = {}
    for key, records, _, _ in batch.runs:
        if key in answers or key not in ends:
            continue
        first = next((record for record in records if record.offset >= begins.get(key, 0)), None)
        if first is not None:
            answers[key] = FirstRecord(first.offset, first.timestamp) if first.offset < ends[key] else None
    for key, position in batch.ends:
        if key not in answers and key in ends:
            answers[key] = None if position >= ends[key] else position
    return answers
