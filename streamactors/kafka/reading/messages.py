"""The messages to the consumer actor, from its source, the run and the user's control; and who commits for a source."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any

from streamactors.actors.futures import StreamFuture
from streamactors.kafka.reading.feed import Feed
from streamactors.kafka.subscriptions import TopicPartition


class Commits(enum.Enum):
    """Who commits."""

    NOBODY = "nobody"
    MARKS = "marks"  # the consumer, what the sinks of the run have done
    OFFSETS = "offsets"  # the user, offset by offset or through a Committer
    BEFORE = "before"  # the consumer, before it delivers
    TRANSACTION = "transaction"  # the producer's transaction


@dataclass(frozen=True, slots=True)
class StartReading:
    """Connect, subscribe, begin to poll."""


@dataclass(frozen=True, slots=True)
class RequestRecords:
    """A feed can take n more records."""

    feed: Feed
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
    """Pause delivery from these partitions, which are far ahead of others that are read with them, and resume all others."""

    keys: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class StartAt:
    """Deliver a withheld assignment, from an offset; None: from the position it has."""

    key: TopicPartition
    epoch: int
    offset: int | None


@dataclass(frozen=True, slots=True)
class StageEnded:
    """A source takes no more records. Those in flight may still become done, unless the stream has `failed`. `drains`: the consumer waits for them
    until the run has ended, because a bounded read has delivered everything, or because the control drains. A bounded read inside a stage such as
    RestartSource does not: the next one needs its partitions.

    `feed`: the feed of the source. A partitioned source names itself: its feeds end with their assignments."""

    feed: Any
    failed: bool = False
    drains: bool = False


@dataclass(frozen=True, slots=True)
class StopAtEnd:
    """Make the read a bounded one, up to the present ends of the partitions."""


@dataclass(frozen=True, slots=True)
class RunEnded:
    """Every stage of the run has stopped: no further record becomes done."""


class CommitReply(StreamFuture[None]):
    """The future of a commit. Fails with CommitTimeout after `max_retries` tries in vain (None: when `commit_timeout_ms` is over), and with
    CommitFailed for what another try does not mend."""

    def __init__(self, max_retries: int | None = None) -> None:
        super().__init__("commit")
        self.max_retries = max_retries
        self.tries = 0
        """How often a commit was refused while this one waited for it."""


@dataclass(frozen=True, slots=True)
class CommitNow:
    """Commit what is done; `reply` ends when the broker has it. Requests that have gathered are served together."""

    reply: StreamFuture[None]


@dataclass(frozen=True, slots=True)
class TakeSnapshot:
    """Answer with what `control.snapshot()` shows. `final`: with what is known, without asking the broker."""

    reply: StreamFuture[Any]
    final: bool = False
