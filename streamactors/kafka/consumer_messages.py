"""What is said to the consumer actor, by its stage, the run and the user's control; and who commits for a source."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any

from streamactors.actors.futures import StreamFuture
from streamactors.kafka.subscriptions import TopicPartition


class Commits(enum.Enum):
    """Who commits."""

    NOBODY = "nobody"
    MARKS = "marks"  # the consumer, what the sinks of the run have done
    OFFSETS = "offsets"  # the user, offset by offset or through a Committer
    BEFORE = "before"  # the consumer, before it delivers
    TRANSACTION = "transaction"  # the producer's transaction


@dataclass(frozen=True, slots=True)
class Start:
    """Connect, subscribe, begin to poll."""


@dataclass(frozen=True, slots=True)
class RequestRecords:
    """A stage can take n more records."""

    stage: Any
    n: int


@dataclass(frozen=True, slots=True)
class PausePartitions:
    """The user's pause."""

    keys: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class ResumePartitions:
    """The end of the user's pause."""

    keys: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class HoldBack:
    """Deliver nothing of these partitions, which are far ahead of others that are read together with them, and again of all others."""

    keys: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class StartAt:
    """Deliver a withheld partition, from an offset; None: from where it stands."""

    key: TopicPartition
    epoch: int
    offset: int | None


@dataclass(frozen=True, slots=True)
class StageEnded:
    """A stage takes no more records; what it was given may still be in flight, unless it or what is behind it has `failed`."""

    stage: Any
    failed: bool = False


@dataclass(frozen=True, slots=True)
class StopAtEnd:
    """Make the read a bounded one, up to where the partitions end now."""


@dataclass(frozen=True, slots=True)
class RunEnded:
    """Every stage of the run has stopped: nothing more will become done."""


@dataclass(frozen=True, slots=True)
class CommitNow:
    """Commit what is done; the future ends when the broker has it. Several are served together."""

    reply: StreamFuture[None]


@dataclass(frozen=True, slots=True)
class TakeSnapshot:
    """Answer with what `control.snapshot()` shows."""

    reply: StreamFuture[Any]
