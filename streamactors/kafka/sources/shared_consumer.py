"""SharedConsumer: one consumer for many sources, each of which reads partitions of its own.

Its actor starts with the first source that runs and ends with `stop()`. A source joins with its partitions, and leaves when its run has ended.

    source A (topic-0) ──┐                                    ┌── its feed, its records, its marks
    source B (topic-1) ──┼── one consumer actor, one client ──┤
    source C (other-0) ──┘                                    └── ...

Owner: the user."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

from streamactors.actors.futures import StreamFuture
from streamactors.dsl.source import Source
from streamactors.engine.island.run import Run
from streamactors.errors import BuildError
from streamactors.kafka.committable import CommittableMessage, Convert, committable
from streamactors.kafka.control import Control
from streamactors.kafka.errors import ConsumerFailed
from streamactors.kafka.reading.consumer_actor import ConsumerActor
from streamactors.kafka.reading.feed import Feed
from streamactors.kafka.reading.joining import FeedEnded, Join, Leave
from streamactors.kafka.reading.messages import Commits, HoldBack, StageEnded, Start
from streamactors.kafka.reading.offset_tracker import OffsetTracker
from streamactors.kafka.reading.shared import ReadingSource
from streamactors.kafka.reading.snapshot import snapshot_without_consumer
from streamactors.kafka.record import ConsumerRecord
from streamactors.kafka.settings import ConsumerSettings
from streamactors.kafka.sources.consumer_link import ConsumerLink
from streamactors.kafka.subscriptions import ManualSubscription, Subscription, TopicPartition

if TYPE_CHECKING:
    from streamactors.kafka.reading.rebalances import FeedOf

Item = TypeVar("Item", bound=tuple[Any, ...])
Build = Callable[[str, Any, Commits, "Convert | None", Callable[[], ConsumerLink]], Source[Any, Control]]
"""Returns a source: its name, its subscription, who commits, what converts its records, what makes its link."""


class SharedConsumer:
    """See the module. Any thread; a context manager, which stops at its end. Made by `Consumer.shared(settings)`.

    Each source reads given partitions (`Subscriptions.assignment(…)` and the like), which no other source of this consumer reads at that
    time. Its control shows the state of the whole consumer."""

    def __init__(self, settings: ConsumerSettings, build: Build) -> None:
        self.settings = settings
        self._build = build
        self.is_shutdown: StreamFuture[None] = StreamFuture("shared consumer")
        """Done when the consumer is closed; fails with its error."""
        self.tracker = OffsetTracker() if settings.group_id else None
        self._actor: ConsumerActor | None = None
        self._tell: Callable[[Any], None] | None = None
        self._owners: dict[TopicPartition, _SharedLink] = {}
        self._held_back: dict[_SharedLink, frozenset[TopicPartition]] = {}
        self._stopping = False
        self._lock = threading.Lock()

    def __enter__(self) -> SharedConsumer:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop().result(self.settings.close_timeout_ms / 1_000 + 5)

    # ── its sources ───────────────────────────────────────────────────────────────────────────────────────────────

    def source(self, subscription: Subscription) -> Source[ConsumerRecord, Control]:
        """As `Consumer.source`: an offset is committed when its record is done at every sink of the run. The settings need a group."""
        return self._source("SharedConsumer.source", subscription, Commits.MARKS)

    def plain_source(self, subscription: Subscription) -> Source[ConsumerRecord, Control]:
        """As `Consumer.plain_source`: records, and no commits."""
        return self._source("SharedConsumer.plain_source", subscription, Commits.NOBODY)

    def committable_source(self, subscription: Subscription) -> Source[CommittableMessage, Control]:
        """As `Consumer.committable_source`: records with their offsets in hand. The settings need a group."""
        return self._source("SharedConsumer.committable_source", subscription, Commits.OFFSETS, committable)

    def _source(
        self, name: str, subscription: Any, commits: Commits, convert: Convert | None = None
    ) -> Source[Any, Control]:
        if not isinstance(subscription, ManualSubscription):
            raise BuildError(
                f"{name} expects partitions (Subscriptions.assignment(…)), got {subscription!r}: a group gives each member's partitions to "
                "one consumer, so a source of topics has a consumer of its own, Consumer.source"
            )
        return self._build(name, subscription, commits, convert, lambda: _SharedLink(self, commits))

    # ── its end ───────────────────────────────────────────────────────────────────────────────────────────────────

    def stop(self) -> StreamFuture[None]:
        """Complete all sources, commit what is done and close the consumer; return `is_shutdown`."""
        with self._lock:
            stopping, self._stopping = self._stopping, True
            tell, links = self._tell, set(self._owners.values())
        for link in links:
            link.complete()
        if tell is None:
            self.is_shutdown.try_complete(None)
        elif not stopping:
            tell(StageEnded(self))
        return self.is_shutdown

    # ── what links ask; any thread ────────────────────────────────────────────────────────────────────────────────

    def join(self, link: _SharedLink, subscription: ManualSubscription, run: Run) -> Callable[[Any], None]:
        """Read the partitions of a link from now on; return where its messages go."""
        with self._lock:
            if self._stopping:
                raise ConsumerFailed("the shared consumer is stopped; make another one for this source")
            for key in subscription.partitions:
                if key in self._owners:
                    raise ConsumerFailed(f"{key} is read by another source of this shared consumer already")
            self._owners.update(dict.fromkeys(subscription.partitions, link))
            if self._tell is None:
                self._tell = self._spawned(run)
            return self._tell

    def _spawned(self, run: Run) -> Callable[[Any], None]:
        system = run.system
        actor = ConsumerActor(
            self.settings,
            ManualSubscription(()),
            _Router(self._owners, self._fail),
            self.tracker,
            self,
            commits=Commits.MARKS,
            until_end=False,
            call_later=system.timers.call_later,
            now_ms=system.clock.now_ms,
            feed_of=lambda key, epoch: self._owners[key].feed_of(key, epoch),
        )
        tell: Callable[[Any], None] = system.spawn(
            actor, f"shared consumer {self.settings.group_id or ''}".strip()
        ).tell
        tell(Start())
        return tell

    def left(self, link: _SharedLink) -> None:
        """A link's partitions are read no longer."""
        with self._lock:
            for key in [key for key, owner in self._owners.items() if owner is link]:
                del self._owners[key]

    def hold_back(self, link: _SharedLink, keys: frozenset[TopicPartition]) -> HoldBack:
        """Return the message for what all sources hold back, when one of them wants something else held back."""
        with self._lock:
            self._held_back[link] = keys
            return HoldBack(frozenset().union(*self._held_back.values()))

    # ── what the actor says ───────────────────────────────────────────────────────────────────────────────────────

    def closed(self, _last: dict[str, Any]) -> None:
        """The consumer is closed; a source that still runs gets no record any more."""
        with self._lock:
            stopping, self._stopping = self._stopping, True
        if not stopping:
            self._fail(
                ConsumerFailed("the shared consumer is closed: the actor system of its first source has shut down")
            )

    def _fail(self, error: BaseException) -> None:
        with self._lock:
            self._stopping = True
            links = set(self._owners.values())
        for link in links:
            link.fail(error)


class _Router:
    """The reading source of a shared consumer: it gives each source what is said of its partitions. On the consumer's thread."""

    def __init__(self, owners: dict[TopicPartition, _SharedLink], fail: Callable[[BaseException], None]) -> None:
        self._owners = owners
        self.on_failed = fail

    def post(self, handler: Callable[[Any], None], argument: Any) -> None:
        handler(argument)

    def on_assigned(self, keys: list[tuple[TopicPartition, int]]) -> None:
        self._give(keys, lambda source: source.on_assigned)

    def on_positions(self, places: list[tuple[TopicPartition, int, int]]) -> None:
        self._give(places, lambda source: source.on_positions)

    def on_revoking(self, keys: list[TopicPartition]) -> None:
        by_source = self._by_source((key,) for key in keys)
        for source, mine in by_source.items():
            source.post(source.on_revoking, [key for (key,) in mine])

    def on_revoked(self, keys: list[tuple[TopicPartition, int]]) -> None:
        self._give(keys, lambda source: source.on_revoked)

    def on_idle(self, silent: list[tuple[TopicPartition, int, float]]) -> None:
        self._give(silent, lambda source: source.on_idle)

    def on_end(self, ends: list[tuple[TopicPartition, int, int]]) -> None:
        self._give(ends, lambda source: source.on_end)

    def _give(self, items: list[Item], handler: Callable[[ReadingSource], Callable[[list[Item]], None]]) -> None:
        for source, mine in self._by_source(items).items():
            source.post(handler(source), mine)

    def _by_source(self, items: Iterable[Item]) -> dict[ReadingSource, list[Item]]:
        found: dict[ReadingSource, list[Item]] = defaultdict(list)
        for item in items:
            link = self._owners.get(item[0])
            if link is not None and link.source is not None:
                found[link.source].append(item)
        return found


class _SharedLink(ConsumerLink):
    """A source's side of a shared consumer."""

    def __init__(self, shared: SharedConsumer, commits: Commits) -> None:
        super().__init__(commits)
        self._shared = shared
        self.tracker = None if commits is Commits.NOBODY else shared.tracker
        self.source: ReadingSource | None = None
        self.feed_of: FeedOf = _no_feed
        self._partitions: tuple[TopicPartition, ...] = ()
        self._stop: Callable[[], None] = lambda: None

    def start(
        self,
        run: Run,
        settings: ConsumerSettings,
        subscription: Subscription,
        source: ReadingSource,
        stop: Callable[[], None],
        **how: Any,
    ) -> None:
        if how["commits"] is Commits.TRANSACTION or how["wanted"] is not None:
            raise BuildError(
                "a sink of this run owns the positions; the source of a shared consumer cannot give them away: use Consumer.source"
            )
        assert isinstance(subscription, ManualSubscription)
        self.source, self.feed_of, self._stop, self._partitions = source, how["feed_of"], stop, subscription.partitions
        to_actor = self._shared.join(self, subscription, run)
        self.tell = lambda message: self._told(message, to_actor)
        self._begin(run, settings, stop)
        reply: StreamFuture[None] = StreamFuture("join")
        reply.add_done_callback(self._joined)
        self.tell(Join(subscription.partitions, subscription.offsets, subscription.times_ms, reply))

    def _told(self, message: Any, to_actor: Callable[[Any], None]) -> None:
        if isinstance(message, StageEnded):
            message = FeedEnded(message.feed)
        elif isinstance(message, HoldBack):
            message = self._shared.hold_back(self, message.keys)
        to_actor(message)

    def _joined(self, reply: Any) -> None:
        error = reply.exception()
        if error is not None:
            self._shared.left(self)
            self._partitions = ()
            self.fail(error)

    def _over(self) -> None:
        """The run has ended: no further record becomes done."""
        reply: StreamFuture[None] = StreamFuture("leave")
        reply.add_done_callback(self._left)
        self.tell(HoldBack(frozenset()))
        self.tell(Leave(self._partitions, reply))

    def _left(self, reply: Any) -> None:
        shared = self._shared
        shared.left(self)
        self.control.closed(snapshot_without_consumer())
        error = reply.exception() or (shared.is_shutdown.exception() if shared.is_shutdown.done() else None)
        if error is None:
            self.control.is_shutdown.try_complete(None)
        else:
            self.control.is_shutdown.try_fail(error)

    def complete(self) -> None:
        """Complete the source; any thread."""
        self._stop()

    def fail(self, error: BaseException) -> None:
        """Fail the source; any thread."""
        if self.source is not None:
            self.source.post(self.source.on_failed, error)


def _no_feed(key: TopicPartition, _epoch: int) -> Feed:
    raise AssertionError(f"{key} was assigned before its source has joined")
