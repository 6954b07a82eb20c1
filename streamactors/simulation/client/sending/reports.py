"""Delivery reports that wait for a poll.

Owner: the producer. A record counts as outstanding until its report was served."""

from __future__ import annotations

from collections import deque
from typing import Any, NamedTuple

from streamactors.kafka.client.connection import ck
from streamactors.simulation.cluster.partitions.batch import Row

_Message: Any = ck.Message
_CREATED = ck.TIMESTAMP_CREATE_TIME
_APPENDED = ck.TIMESTAMP_LOG_APPEND_TIME


class _Outcome(NamedTuple):
    topic: str
    partition: int
    rows: list[Row]
    reports: list[Any]
    error: Any
    base_offset: int
    append_ms: int


class Reports:
    """The outcomes of batches, in the order in which they came."""

    def __init__(self, errors_only: bool) -> None:
        self._errors_only = errors_only
        self._outcomes: deque[_Outcome] = deque()
        self.waiting = 0

    def __bool__(self) -> bool:
        return bool(self._outcomes)

    def delivered(self, key: tuple[str, int], rows: Any, reports: list[Any], base: int, append_ms: int) -> None:
        """These records are stored. `append_ms` -1: with their own times."""
        self.waiting += len(rows)
        self._outcomes.append(_Outcome(*key, rows, reports, None, base, append_ms))

    def failed(self, key: tuple[str, int], rows: Any, reports: list[Any], error: Any) -> None:
        """These records were not delivered."""
        self.waiting += len(rows)
        self._outcomes.append(_Outcome(*key, rows, reports, error, ck.OFFSET_INVALID, -1))

    def serve(self) -> int:
        """Call the reports; return the number of records that they were of. A report that raises ends the call."""
        served = 0
        while self._outcomes:
            outcome = self._outcomes.popleft()
            served += len(outcome.rows)
            self.waiting -= len(outcome.rows)
            if outcome.error is None and self._errors_only:
                continue
            self._call(outcome)
        return served

    def _call(self, outcome: _Outcome) -> None:
        topic, partition, rows, reports, error, base, append_ms = outcome
        kind = _CREATED if append_ms < 0 else _APPENDED
        for offset, ((key, value, time, headers), report) in enumerate(zip(rows, reports, strict=True), base):
            if report is None:
                continue
            at = offset if error is None else base
            stamp = (kind, time if append_ms < 0 else append_ms)
            report(error, _Message(topic, partition, at, key, value, headers and list(headers), error, stamp))
