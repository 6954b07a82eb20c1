"""The records of one partition that a producer has not sent yet, and the batches that are on their way.

Owner: the sender."""

from __future__ import annotations

from collections import deque
from typing import Any, Final

from streamactors.simulation.cluster.partitions.batch import Batch, Row

Key = tuple[str, int]
NOWHERE: Final = -2


class Sent:
    """A batch and its reports. `tried`: the cluster may have it. `settled`: its outcome is known."""

    __slots__ = ("batch", "broker", "deadline_ms", "key", "reports", "settled", "tried", "waits")

    def __init__(self, key: Key, batch: Batch, reports: list[Any], deadline_ms: float) -> None:
        self.key = key
        self.batch = batch
        self.reports = reports
        self.deadline_ms = deadline_ms
        self.tried = False
        self.settled = False
        self.broker = NOWHERE
        """Where it is on its way to."""
        self.waits = True
        """Whether it waits to be sent, for the first time or again."""


class Waiting:
    """One partition."""

    __slots__ = ("began_ms", "in_flight", "key", "next_sequence", "reports", "rows", "size")

    def __init__(self, key: Key) -> None:
        self.key = key
        self.rows: list[Row] = []
        self.reports: list[Any] = []
        self.size = 0
        self.began_ms = 0.0
        """When the first of `rows` came."""
        self.in_flight: deque[Sent] = deque()
        self.next_sequence = 0

    def cut(self, most: int) -> tuple[list[Row], list[Any], int]:
        """Take up to `most` records; return them with their reports and their size."""
        if len(self.rows) <= most:
            taken = (self.rows, self.reports, self.size)
            self.rows, self.reports, self.size = [], [], 0
            return taken
        rows, reports = self.rows[:most], self.reports[:most]
        share = self.size * most // len(self.rows)
        self.rows, self.reports = self.rows[most:], self.reports[most:]
        self.size -= share
        return rows, reports, share
