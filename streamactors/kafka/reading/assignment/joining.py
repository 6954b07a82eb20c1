"""How partitions come to a consumer that several sources share, and how they leave it.

    Join ──► assigned in addition ──► read ──► FeedEnded: no more demand ──► Leave: what is done is committed ──► unassigned

Owner: the consumer actor. A consumer of one source gets no such message."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from streamactors.actors.futures import StreamFuture
from streamactors.errors import StreamActorsError
from streamactors.kafka.reading.assignment.rebalances import Rebalances
from streamactors.kafka.reading.commits import COMMIT_RETRY_MS, ConsumerCommits, Outcome
from streamactors.kafka.reading.consumer_context import ConsumerContext
from streamactors.kafka.subscriptions import TopicPartition


@dataclass(frozen=True, slots=True)
class Join:
    """Read these partitions, too. Each begins at its offset in `offsets`, at the first record of its time in `times_ms` (ms since 1970), or else at
    the committed offset. `reply` fails if the broker does not have them; `started` is done when their positions are known."""

    partitions: tuple[TopicPartition, ...]
    offsets: Mapping[TopicPartition, int]
    times_ms: Mapping[TopicPartition, int]
    reply: StreamFuture[None]
    started: StreamFuture[None]


@dataclass(frozen=True, slots=True)
class FeedEnded:
    """A source takes no more records; the stream may still process those in flight."""

    feed: Any


@dataclass(frozen=True, slots=True)
class Leave:
    """Stop reading these partitions. `reply` completes when the offsets of their processed records are committed."""

    partitions: tuple[TopicPartition, ...]
    reply: StreamFuture[None]


class Joining:
    """Adds and removes the partitions of the sources that share a consumer. `poll_soon` has the consumer poll."""

    def __init__(
        self, context: ConsumerContext, rebalances: Rebalances, commits: ConsumerCommits, poll_soon: Callable[[], None]
    ) -> None:
        self._context = context
        self._rebalances = rebalances
        self._commits = commits
        self._poll_soon = poll_soon

    def on_join(self, message: Join) -> None:
        """Assign partitions in addition."""
        client, keys = self._context.client, message.partitions
        assert client is not None
        try:
            client.preflight({key.topic for key in keys}, keys)
            starts: dict[TopicPartition, int | None] = dict.fromkeys(keys)
            starts.update(message.offsets)
            if message.times_ms:
                starts.update(client.offsets_at(message.times_ms))
        except StreamActorsError as error:  # this source fails; the others read on
            message.reply.try_fail(error)
            return
        self._rebalances.on_assigned(list(keys))
        self._rebalances.starting.also(keys, message.started)
        client.assign_more(starts)
        message.reply.try_complete(None)
        self._poll_soon()

    def on_feed_ended(self, message: FeedEnded) -> None:
        """Deliver nothing more to a source."""
        self._context.state.feed_gone(message.feed)

    def on_leave(self, message: Leave) -> None:
        """Commit the offsets of processed records, and stop reading the partitions."""
        context, keys = self._context, list(message.partitions)
        assert context.client is not None
        if not keys:
            message.reply.try_complete(None)
        elif self._commits.in_flight:
            self._later(message)
        else:
            left = {} if context.tracker is None else context.tracker.to_commit(keys)
            self._commits.commit(left, lambda outcome: self._committed(message, outcome))

    def _later(self, message: Leave) -> None:
        self._context.call_later(COMMIT_RETRY_MS, lambda: self._context.tell(message))

    def _committed(self, message: Leave, outcome: Outcome) -> None:
        """The offsets of a source that leaves are committed, or are not."""
        client, keys = self._context.client, list(message.partitions)
        if outcome is False:
            self._later(message)
            return
        assert client is not None
        self._rebalances.on_revoked(keys, wait=False)
        client.assign_less(keys)
        if isinstance(outcome, BaseException):
            message.reply.try_fail(outcome)
        else:
            message.reply.try_complete(None)
