"""Where assigned partitions begin: an offset, the committed one, or where auto.offset.reset says.

Owner: the fetcher. As librdkafka, it asks the coordinator three times for committed offsets and then reports the error, without another try."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from streamactors.broker.errors import ErrorCode
from streamactors.kafka.client.connection import ck
from streamactors.simulation.client.errors import answered
from streamactors.simulation.client.link import Link
from streamactors.simulation.client.reading.reading import Reading
from streamactors.simulation.cluster.apis.data import EARLIEST, LATEST, ListedOffset, ListOffset, list_offset
from streamactors.simulation.cluster.apis.groups import FetchCommitted, committed_offset, offset_fetch

RETRY_MS: Final = 100.0
_TRIES: Final = 3
_EARLIEST_NAMES: Final = ("smallest", "earliest", "beginning")
_ERROR_NAMES: Final = ("error",)


class Beginnings:
    """Finds the first offset of partitions."""

    def __init__(
        self,
        link: Link,
        group_id: str,
        reset: str,
        committed_only: bool,
        found: Callable[[Reading, int], None],
        failed: Callable[[Reading, int, str | None], None],
    ) -> None:
        """`found(reading, offset)` and `failed(reading, code, text)` report the outcome for a partition."""
        self._link = link
        self._group_id = group_id
        self._reset = reset
        self._committed_only = committed_only
        self._found = found
        self._failed = failed

    def look_up(self, readings: Sequence[Reading]) -> None:
        """Find where these partitions begin."""
        stored = [each for each in readings if each.start in (ck.OFFSET_STORED, ck.OFFSET_INVALID)]
        for reading in readings:
            if reading.start >= 0:
                self._found(reading, reading.start)
            elif reading.start == ck.OFFSET_BEGINNING:
                self._by_time(reading, EARLIEST)
            elif reading.start == ck.OFFSET_END:
                self._by_time(reading, LATEST)
        if stored:
            self._ask_committed(stored, [each.version for each in stored], _TRIES)

    def reset(self, reading: Reading, why: str) -> None:
        """Begin where auto.offset.reset says."""
        if self._reset in _ERROR_NAMES:
            self._failed(reading, ck.KafkaError._AUTO_OFFSET_RESET, f"no previously committed offset available: {why}")
        else:
            self._by_time(reading, EARLIEST if self._reset in _EARLIEST_NAMES else LATEST)

    def _by_time(self, reading: Reading, time: int) -> None:
        version, link = reading.version, self._link

        def then(error: ErrorCode | None, listed: ListedOffset | None) -> None:
            if reading.version != version:
                return
            if error is ErrorCode.NONE and listed is not None:
                self._found(reading, listed.offset)
            elif error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                self._failed(reading, int(error), None)
            else:
                link.later(RETRY_MS, again, "offsets again")

        def again() -> None:
            if reading.version == version:
                link.ask(
                    list_offset, link.cluster.leader_of(*reading.key),
                    ListOffset(reading.key, time, self._committed_only and time == LATEST), then,
                )  # fmt: skip

        again()

    def _ask_committed(self, readings: list[Reading], versions: list[int], tries: int) -> None:
        link = self._link

        def then(error: ErrorCode | None, found: Any) -> None:
            left = [r for r, version in zip(readings, versions, strict=True) if r.version == version]
            if error is ErrorCode.NONE:
                by_key = {(each.topic, each.partition): committed_offset(each) for each in found}
                for reading in left:
                    offset = by_key.get(reading.key, -1)
                    if offset >= 0:
                        self._found(reading, offset)
                    else:
                        self.reset(reading, "no committed offset")
            elif error is ErrorCode.UNSTABLE_OFFSET_COMMIT or error is None or tries > 1:
                left_tries = tries if error in (ErrorCode.UNSTABLE_OFFSET_COMMIT, None) else tries - 1
                marks = [each.version for each in left]
                link.later(RETRY_MS, lambda: self._ask_committed(left, marks, left_tries), "committed again")
            else:
                for reading in left:
                    self._failed(reading, answered(error), None)

        keys = tuple(each.key for each in readings)
        coordinator = link.cluster.group_coordinator(self._group_id)
        link.ask(offset_fetch, coordinator, FetchCommitted(self._group_id, keys), then)
