"""A source's side of a shared consumer: it joins with its partitions, and leaves when its run has ended.

Owner: the logic of the source's stage, as with a consumer of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from streamactors.actors.futures import StreamFuture
from streamactors.engine.island.run import Run
from streamactors.errors import BuildError
from streamactors.kafka.reading.assignment.joining import FeedEnded, Join, Leave
from streamactors.kafka.reading.consumer_context import ReadingSource
from streamactors.kafka.reading.feed import Feed
from streamactors.kafka.reading.messages import Commits, HoldBack, StageEnded
from streamactors.kafka.reading.snapshot import snapshot_without_consumer
from streamactors.kafka.settings import ConsumerSettings
from streamactors.kafka.sources.consumer_link import ConsumerLink
from streamactors.kafka.sources.shared.shared_actor import SharedActor
from streamactors.kafka.subscriptions import ManualSubscription, Subscription, TopicPartition

if TYPE_CHECKING:
    from streamactors.kafka.reading.assignment.rebalances import FeedOf


class SharedLink(ConsumerLink):
    """A source's side of a shared consumer."""

    def __init__(self, shared: SharedActor, commits: Commits) -> None:
        super().__init__(commits)
        self._shared = shared
        self.tracker = None if commits is Commits.NOBODY else shared.tracker
        self.source: ReadingSource | None = None
        self.feed_of: FeedOf = _no_feed
        self._subscription = ManualSubscription(())

    def connected(
        self,
        run: Run,
        settings: ConsumerSettings,
        subscription: Subscription,
        source: ReadingSource,
        how: dict[str, Any],
    ) -> Callable[[Any], None]:
        """Read through the shared consumer, which starts with its first source."""
        if how["commits"] is Commits.TRANSACTION or how["wanted"] is not None:
            raise BuildError(
                "a sink of this run keeps the positions of its source, which a shared consumer does not support; use Consumer.source"
            )
        assert isinstance(subscription, ManualSubscription)
        self.source, self.feed_of, self._subscription = source, how["feed_of"], subscription
        to_actor = self._shared.join(self, subscription.partitions, run)
        self.control.look = self._shared.look
        return lambda message: self._told(message, to_actor)

    def first_message(self) -> Any:
        of = self._subscription
        reply: StreamFuture[None] = StreamFuture("join")
        reply.add_done_callback(self._joined)
        return Join(of.partitions, of.offsets, of.times_ms, reply, self.control.started)

    def _told(self, message: Any, to_actor: Callable[[Any], None]) -> None:
        if isinstance(message, StageEnded):
            message = FeedEnded(message.feed)
        elif isinstance(message, HoldBack):
            self._shared.hold_back(self, message.keys)
            return
        to_actor(message)

    def _joined(self, reply: Any) -> None:
        error = reply.exception()
        if error is not None:
            self._shared.left(self)
            self._subscription = ManualSubscription(())
            self.fail(error)

    def _over(self) -> None:
        """The run has ended: no further record becomes done."""
        reply: StreamFuture[None] = StreamFuture("leave")
        reply.add_done_callback(self._left)
        self.tell(HoldBack(frozenset()))
        self.tell(Leave(self._subscription.partitions, reply))

    def _left(self, reply: Any) -> None:
        shared = self._shared
        shared.left(self)
        self.control.closed(snapshot_without_consumer())
        error = reply.exception() or (shared.is_shutdown.exception() if shared.is_shutdown.done() else None)
        ended = self.control.is_shutdown
        self.when_closed(lambda: ended.try_complete(None) if error is None else ended.try_fail(error))

    def complete(self) -> None:
        """Complete the source; any thread."""
        self.stop()

    def fail(self, error: BaseException) -> None:
        """Fail the source; any thread."""
        if self.source is not None:
            self.source.post(self.source.on_failed, error)


def _no_feed(key: TopicPartition, _epoch: int) -> Feed:
    raise AssertionError(f"{key} was assigned before its source has joined")
