"""What goes wrong inside a broker's process: a full disk, a wall clock that jumps, and bugs that a history must show."""

from __future__ import annotations

import errno
import os
import signal
import time
from collections.abc import Callable
from typing import Any

FULL_S = 2.0
JUMP_MS = 3_600_000


def install(bug: str) -> None:
    """Follow the signals from now on, and plant a bug of `BUGS`; the empty text plants none."""
    _disk()
    _clock()
    if bug:
        BUGS[bug]()


def _disk() -> None:
    from streamactors.broker.log.disk import LogFile

    genuine = LogFile.write_at
    full_until = 0.0

    def write_at(self: LogFile, data: Any, position: int) -> None:
        if time.monotonic() < full_until:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path))
        genuine(self, data, position)

    def fill(*_: object) -> None:
        nonlocal full_until
        full_until = time.monotonic() + FULL_S

    LogFile.write_at = write_at  # type: ignore[method-assign]
    signal.signal(signal.SIGUSR1, fill)


def _clock() -> None:
    from streamactors.clock import SystemClock

    genuine = SystemClock.wall_ms
    ahead_ms = 0

    def jump(*_: object) -> None:
        nonlocal ahead_ms
        ahead_ms = 0 if ahead_ms else JUMP_MS

    SystemClock.wall_ms = lambda self: genuine(self) + ahead_ms  # type: ignore[method-assign]
    signal.signal(signal.SIGUSR2, jump)


# ── bugs ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _leader_alone() -> None:
    """The high watermark is the leader's log end: followers are not waited for."""
    from streamactors.broker.replication.leader_state import LeaderState

    LeaderState.high_watermark = lambda self, limit, **_: limit  # type: ignore[method-assign]


def _any_member() -> None:
    """The high watermark is what the quickest follower has, not the slowest."""
    from streamactors.broker.replication.leader_state import LeaderState

    def high_watermark(self: LeaderState, limit: int, **_: Any) -> int:
        return min(limit, max((each.end_offset for each in self.remotes.values()), default=limit))

    LeaderState.high_watermark = high_watermark  # type: ignore[method-assign]


def _shrinks_at_once() -> None:
    """A member that the leader wants out of the ISR is not waited for, although the controller may still elect it."""
    from streamactors.broker.replication.leader_state import LeaderState

    def maximal_isr(self: LeaderState) -> frozenset[int]:
        return frozenset((self.me,)) if self.proposed is None else frozenset(self.proposed.isr)

    LeaderState.maximal_isr = property(maximal_isr)  # type: ignore[assignment]


def _sees_no_divergence() -> None:
    """A leader does not compare epochs, so a follower keeps what the new leader never had."""
    from streamactors.broker.replication import follower_reads, reading

    reading.divergence = lambda *_: None  # type: ignore[assignment]
    follower_reads.divergence = lambda *_: None  # type: ignore[assignment]


def _answers_before_commit() -> None:
    """acks=all is answered when the leader has the record."""
    from streamactors.broker.replication.hosted_partition import HostedPartition

    HostedPartition.settled = lambda *_: True  # type: ignore[method-assign]


def _takes_repeats() -> None:
    """A batch that a producer repeats is appended once more."""
    from streamactors.broker.log.producers.producer_state import ProducerState

    ProducerState.check = lambda *_: None  # type: ignore[method-assign]


def _elects_anybody() -> None:
    """The controller elects replicas outside of the ISR."""
    from streamactors.broker.controller import duties

    duties._unclean = lambda facts: lambda topic: True  # type: ignore[assignment]


def _joins_early() -> None:
    """A follower is taken into the ISR before it has everything."""
    from streamactors.broker.replication.leader_state import LeaderState

    def growth(self: LeaderState, replica: int, high_watermark: int, eligible: Any) -> Any:
        wanted = self.proposed is None and replica not in self.isr and replica in self.remotes
        return self._proposal({*self.isr, replica}) if wanted else None

    LeaderState.growth = growth  # type: ignore[method-assign]
    _any_member()


def _forgets_aborts() -> None:
    """Readers are not told which transactions were aborted."""
    from streamactors.broker.log.partition.log_read import LogReader

    LogReader.aborted_transactions = lambda *_: []  # type: ignore[method-assign]


def _counts_earlier_fetches() -> None:
    """A new leader takes its followers to have everything, as if they had fetched in an earlier epoch: the high watermark is of an old epoch."""
    from streamactors.broker.replication.leader_state import LeaderState

    genuine = LeaderState.__init__

    def begin(self: LeaderState, *arguments: Any, start_offset: int, **rest: Any) -> None:
        genuine(self, *arguments, start_offset=start_offset, **rest)
        for remote in self.remotes.values():
            remote.end_offset = start_offset

    LeaderState.__init__ = begin  # type: ignore[method-assign]


def _keeps_epochs() -> None:
    """A truncated log keeps the leader epochs of the records that are gone."""
    from streamactors.broker.log.partition.leader_epochs import LeaderEpochs

    LeaderEpochs.truncate_to = lambda *_: False  # type: ignore[method-assign]


def _forgets_votes() -> None:
    """A controller answers a vote before it is on the disk, and a killed one has forgotten it."""
    from streamactors.broker.controller.metadata_log import MetadataLog

    MetadataLog.write_election = lambda *_: None  # type: ignore[method-assign]


BUGS: dict[str, Callable[[], None]] = {
    each.__name__.strip("_").replace("_", "-"): each
    for each in (
        _leader_alone,
        _any_member,
        _shrinks_at_once,
        _sees_no_divergence,
        _answers_before_commit,
        _takes_repeats,
        _elects_anybody,
        _joins_early,
        _forgets_aborts,
        _counts_earlier_fetches,
        _keeps_epochs,
        _forgets_votes,
    )
}
"""The bugs that can be planted, by name."""
