"""SharedConsumer: one consumer for many sources, each of which reads partitions of its own.

Its actor starts with the first source that runs and ends with `stop()`. A source joins with its partitions, and leaves when its run has ended.

    source A (topic-0) ──┐                                    ┌── its feed, its records, its marks
    source B (topic-1) ──┼── one consumer actor, one client ──┤
    source C (other-0) ──┘                                    └── ...

Owner: the user."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from streamactors.actors.futures import StreamFuture
from streamactors.dsl.source import Source
from streamactors.errors import BuildError
from streamactors.kafka.committable import CommittableMessage, Convert, committable
from streamactors.kafka.controls.control import Control
from streamactors.kafka.reading.messages import Commits
from streamactors.kafka.record import ConsumerRecord
from streamactors.kafka.settings import ConsumerSettings
from streamactors.kafka.sources.consumer_link import ConsumerLink
from streamactors.kafka.sources.shared.shared_actor import SharedActor
from streamactors.kafka.sources.shared.shared_link import SharedLink
from streamactors.kafka.subscriptions import ManualSubscription, Subscription

Build = Callable[[str, Any, Commits, "Convert | None", Callable[[], ConsumerLink]], Source[Any, Control]]
"""Returns a source: its name, its subscription, who commits, what converts its records, what makes its link."""


class SharedConsumer:
    """One consumer for many sources. Any thread; a context manager, which stops at its end. Made by `Consumer.shared(settings)`.

    Each source reads given partitions (`Subscriptions.assignment(…)` and the like), which no other source of this consumer reads at that
    time. Its control shows the state of the whole consumer."""

    def __init__(self, settings: ConsumerSettings, build: Build) -> None:
        self.settings = settings
        self._build = build
        self._actor = SharedActor(settings)

    @property
    def is_shutdown(self) -> StreamFuture[None]:
        """Done when the consumer is closed; fails with its error."""
        return self._actor.is_shutdown

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
        return self._build(name, subscription, commits, convert, lambda: SharedLink(self._actor, commits))

    # ── its end ───────────────────────────────────────────────────────────────────────────────────────────────────

    def stop(self) -> StreamFuture[None]:
        """Complete all sources, commit what is done and close the consumer; return `is_shutdown`."""
        self._actor.stop()
        return self.is_shutdown
