"""Substream: one part of a stream that group_by, split_when or split_after cut out. Owner: the stage's logic."""

from __future__ import annotations

from typing import Any

from streamactors.engine.island.connection import Connection


class Substream:
    """The connections into and out of its flow, and the elements that wait: fresh ones until they are handed over, then pending ones until
    the flow has demand."""

    __slots__ = ("_at", "closed", "cuts", "ending", "fresh", "into", "key", "out", "pending", "pulled", "tokens")

    def __init__(self, key: Any) -> None:
        self.key = key
        self.into: Connection | None = None  # None: its flow has not started
        self.out: Connection | None = None
        self.fresh: list[Any] = []
        self.pending: list[Any] = []
        self._at = 0  # pending elements before it have been taken
        self.pulled = False  # its flow has asked once, so that no demand means back-pressure
        self.ending = False  # no further element comes: completed after what waits
        self.closed = False  # its flow has cancelled
        self.cuts: list[list[int]] = []  # see SubstreamMarks: [pending elements before it, token]
        self.tokens: list[int] = []  # see SubstreamMarks: of the marks that have not come out of its flow

    @property
    def waiting(self) -> int:
        """The number of pending elements."""
        return len(self.pending) - self._at

    def freshen(self) -> int:
        """Make the fresh elements pending; return their number."""
        fresh, self.fresh = self.fresh, []
        if self.pending:
            self.pending += fresh
        else:
            self.pending = fresh
        return len(fresh)

    def take(self, n: int) -> list[Any]:
        """Remove and return the first `n` pending elements, at least one."""
        pending, at = self.pending, self._at
        if n == len(pending) - at:
            self.pending, self._at = [], 0
            return pending[at:] if at else pending
        self._at = at + n
        return pending[at : at + n]

    def put_back(self, elements: list[Any], cuts: list[list[int]]) -> None:
        """Make elements that had been handed over the first ones that are pending, with the cuts between them."""
        for cut in self.cuts:
            cut[0] += len(elements)
        self.cuts[:0] = cuts
        if elements:
            self.pending, self._at = elements + self.pending[self._at :], 0

    def inherit(self, other: Substream) -> None:
        """Take over the pending elements of another, which has none then."""
        self.pending, self._at = other.pending, other._at
        other.pending, other._at = [], 0

    def drop(self) -> int:
        """Drop all elements that wait; return the number of the pending ones."""
        n = self.waiting
        self.fresh, self.pending, self._at, self.cuts = [], [], 0, []
        return n


class Full(Exception):
    """No substream may be opened now: the element waits."""
