"""The rules of a node that follows the metadata log without a vote, as one pure state machine.

Owner: `Observer`. `next_fetch` returns the next request; `answered` and `failed` return what to do with its outcome. At most one
request is under way. Source: KIP-595, KIP-630, KIP-853; Apache Kafka's KafkaRaftClient as an observer.

An observer asks any controller for the leader; error answers name the leader, too. Records above the high watermark are
stored, and applied later."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from streamactors.broker.errors import ErrorCode

Address = tuple[str, int]

FIRST_BACKOFF_MS: Final = 20.0
LAST_BACKOFF_MS: Final = 1_000.0
_LOOK_AGAIN: Final = frozenset(
    {
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.BROKER_NOT_AVAILABLE,
    }
)


@dataclass(frozen=True, slots=True)
class EndOfLog:
    """The end of the local log: its start, its end, and the epoch of its last record (0 if it is empty)."""

    start_offset: int
    end_offset: int
    last_epoch: int


@dataclass(frozen=True, slots=True)
class Fetch:
    """Ask a node for the log from `offset`."""

    address: Address
    leader_epoch: int
    offset: int
    last_epoch: int
    high_watermark: int


@dataclass(frozen=True, slots=True)
class Fetched:
    """The answer to a fetch. `diverging` and `snapshot` are (epoch, end offset), None without them."""

    error: ErrorCode
    leader_id: int
    leader_epoch: int
    endpoints: Mapping[int, Address] = field(default_factory=dict)
    high_watermark: int = -1
    records: bytes | memoryview = b""
    diverging: tuple[int, int] | None = None
    snapshot: tuple[int, int] | None = None


# --- what to do ---


@dataclass(frozen=True, slots=True)
class Append:
    """Append these batches, unchanged."""

    records: bytes | memoryview


@dataclass(frozen=True, slots=True)
class Truncate:
    """The log differs from the leader's: compare the epochs, and truncate to the end of the last common one.

    `epoch` and `end_offset` are the leader's: its greatest epoch that is at most the asked one, and where it ends."""

    epoch: int
    end_offset: int


@dataclass(frozen=True, slots=True)
class FetchSnapshot:
    """The leader has dropped the records that are asked for: read its snapshot, and continue after it."""

    address: Address
    leader_epoch: int
    epoch: int
    end_offset: int


@dataclass(frozen=True, slots=True)
class Commit:
    """Records before this offset are committed."""

    high_watermark: int


@dataclass(frozen=True, slots=True)
class LeaderChanged:
    """Another node leads, or none is known (None)."""

    leader_id: int
    epoch: int
    address: Address | None


@dataclass(frozen=True, slots=True)
class Wait:
    """Do not ask again before this time has passed."""

    delay_ms: float


@dataclass(frozen=True, slots=True)
class Refused:
    """The node belongs to another cluster, or does not let this one in."""

    error: ErrorCode


Effect = Append | Truncate | FetchSnapshot | Commit | LeaderChanged | Wait | Refused


class ObserverState:
    """What an observer knows of the quorum."""

    def __init__(self, bootstrap: Sequence[Address], epoch: int = 0) -> None:
        self.leader_id = -1
        self.epoch = epoch
        self.leader_address: Address | None = None
        self.high_watermark = -1
        self._bootstrap = tuple(bootstrap)
        self._turn = 0
        self._backoff_ms = 0.0

    def next_fetch(self, log: EndOfLog) -> Fetch:
        """Return what to ask next."""
        address = self.leader_address or self._bootstrap[self._turn % len(self._bootstrap)]
        last_epoch = max(log.last_epoch, 0) if log.end_offset else 0
        return Fetch(address, self.epoch, log.end_offset, last_epoch, self.high_watermark)

    def failed(self) -> list[Effect]:
        """The node did not answer: forget it, and ask the bootstrap servers who leads."""
        effects: list[Effect] = []
        if self.leader_address is not None:
            self.leader_id, self.leader_address = -1, None
            effects.append(LeaderChanged(-1, self.epoch, None))
        self._turn += 1
        effects.append(self._wait())
        return effects

    def answered(self, asked: Fetch, answer: Fetched, log: EndOfLog) -> list[Effect]:
        """Return what to do with an answer. `log` is the local log as it was when the request was sent."""
        if answer.error in (ErrorCode.INCONSISTENT_CLUSTER_ID, ErrorCode.CLUSTER_AUTHORIZATION_FAILED):
            return [Refused(answer.error)]
        effects = self._learn(answer)
        if answer.error is not ErrorCode.NONE:
            found = bool(effects) and self.leader_address is not None
            if answer.error not in _LOOK_AGAIN or self.leader_address is None:
                self._turn += 1
            if not found:
                effects.append(self._wait())
            return effects
        if answer.leader_epoch != asked.leader_epoch:
            return [*effects, self._wait()]  # an answer of another epoch says nothing about this one
        self._backoff_ms = 0.0
        if answer.snapshot is not None and answer.snapshot[1] >= 0:
            epoch, end_offset = answer.snapshot
            return [*effects, FetchSnapshot(asked.address, self.epoch, epoch, end_offset)]
        if answer.diverging is not None and answer.diverging[1] >= 0:
            return [*effects, Truncate(*answer.diverging)]
        if len(answer.records):
            effects.append(Append(answer.records))
        if answer.high_watermark > self.high_watermark:
            self.high_watermark = answer.high_watermark
            effects.append(Commit(answer.high_watermark))
        return effects

    def _learn(self, answer: Fetched) -> list[Effect]:
        """Take over what an answer says about the leader, unless it is older than what is known."""
        if answer.leader_epoch < self.epoch:
            return []
        address = answer.endpoints.get(answer.leader_id) if answer.leader_id >= 0 else None
        newer = answer.leader_epoch > self.epoch
        if not newer and (address is None or address == self.leader_address):
            return []
        self.epoch = answer.leader_epoch
        self.leader_id = answer.leader_id
        self.leader_address = address
        return [LeaderChanged(self.leader_id, self.epoch, address)]

    def _wait(self) -> Wait:
        self._backoff_ms = min(max(2 * self._backoff_ms, FIRST_BACKOFF_MS), LAST_BACKOFF_MS)
        return Wait(self._backoff_ms)
