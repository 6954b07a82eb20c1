"""The consumer actor that many sources share, and which source reads which partition.

The actor starts with the first source that runs, in the actor system of that run, and ends with `stop()`.

Owner: the `SharedConsumer`. Links call from any thread; the actor reports its end on its own thread."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from streamactors.actors.futures import StreamFuture
from streamactors.clock import VirtualClock
from streamactors.engine.island.run import Run
from streamactors.kafka.errors import ConsumerFailed
from streamactors.kafka.reading.consumer_actor import ConsumerActor
from streamactors.kafka.reading.messages import Commits, HoldBack, RunEnded, StageEnded, StartReading
from streamactors.kafka.reading.offset_tracker import OffsetTracker
from streamactors.kafka.settings import ConsumerSettings
from streamactors.kafka.sources.shared.shared_router import SharedRouter
from streamactors.kafka.subscriptions import ManualSubscription, TopicPartition

if TYPE_CHECKING:
    from streamactors.kafka.sources.shared.shared_link import SharedLink


class SharedActor:
    """Owns the consumer actor that many sources share. `is_shutdown` is done when the consumer is closed; it fails with the consumer's error."""

    def __init__(self, settings: ConsumerSettings) -> None:
        self.settings = settings
        self.is_shutdown: StreamFuture[None] = StreamFuture("shared consumer")
        self.started: StreamFuture[None] = StreamFuture("shared consumer")
        self.tracker = OffsetTracker() if settings.group_id else None
        self.look: Callable[[], dict[str, Any]] | None = None
        """Returns the consumer's snapshot without asking the actor; None before the first source has started."""
        self._tell: Callable[[Any], None] | None = None
        self._owners: dict[TopicPartition, SharedLink] = {}
        self._held_back: dict[SharedLink, frozenset[TopicPartition]] = {}
        self._stopping = False
        self._lock = threading.Lock()

    def stop(self) -> None:
        """Complete all sources, commit what is done and close the consumer. Any thread; idempotent."""
        with self._lock:
            stopping, self._stopping = self._stopping, True
            tell, links = self._tell, set(self._owners.values())
        for link in links:
            link.complete()
        if tell is None:
            self.is_shutdown.try_complete(None)
        elif not stopping:
            tell(StageEnded(self))

    # ── what links ask; any thread ────────────────────────────────────────────────────────────────────────────────

    def join(self, link: SharedLink, keys: tuple[TopicPartition, ...], run: Run) -> Callable[[Any], None]:
        """Note that a link reads these partitions; return the function that sends its messages to the actor. Raises ConsumerFailed."""
        with self._lock:
            if self._stopping:
                raise ConsumerFailed("the shared consumer is stopped; make another one for this source")
            for key in keys:
                if key in self._owners:
                    raise ConsumerFailed(f"{key} is read by another source of this shared consumer already")
            if self._tell is None:
                self._tell = self._spawned(run)
            self._owners.update(dict.fromkeys(keys, link))
            return self._tell

    def _spawned(self, run: Run) -> Callable[[Any], None]:
        system = run.system
        actor = ConsumerActor(
            self.settings,
            ManualSubscription(()),
            SharedRouter(self._owners, self._fail),
            self.tracker,
            self,
            commits=Commits.MARKS,
            until_end=False,
            call_later=system.timers.call_later,
            now_ms=system.clock.now_ms,
            virtual=system.clock if isinstance(system.clock, VirtualClock) else None,
            feed_of=lambda key, epoch: self._owners[key].feed_of(key, epoch),
        )
        tell: Callable[[Any], None] = system.spawn(
            actor, f"shared consumer {self.settings.group_id or ''}".strip()
        ).tell
        self.look = actor.look
        tell(StartReading())
        self.is_shutdown.add_done_callback(
            lambda _: tell(RunEnded())
        )  # no run ends the actor, which has a thread of its own
        return tell

    def left(self, link: SharedLink) -> None:
        """Forget a link and its partitions."""
        with self._lock:
            self._held_back.pop(link, None)
            for key in [key for key, owner in self._owners.items() if owner is link]:
                del self._owners[key]

    def hold_back(self, link: SharedLink, keys: frozenset[TopicPartition]) -> None:
        """Note which partitions a link holds back, and tell the actor which ones all links hold back.

        Under the lock: of two messages that pass each other the older one would be the last, and a partition would stay held back."""
        with self._lock:
            self._held_back[link] = keys
            if self._tell is not None:
                self._tell(HoldBack(frozenset().union(*self._held_back.values())))

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
