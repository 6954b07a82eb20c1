"""ConsumerContext: what the parts of one consumer actor share: `polling`, `rebalances`, `bounded_read`, `commits`, `ending`. Used on its thread."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from streamactors.actors.futures import StreamFuture
from streamactors.kafka.client.consumer import StreamConsumer
from streamactors.kafka.reading.consumer_state import ConsumerState
from streamactors.kafka.reading.messages import Commits
from streamactors.kafka.reading.offset_tracker import OffsetTracker
from streamactors.kafka.settings import ConsumerSettings
from streamactors.kafka.subscriptions import TopicPartition

Assignments = list[tuple[TopicPartition, int]]
"""Partitions, each with the epoch of its assignment."""


class ReadingSource(Protocol):
    """The logic of a source, as its consumer actor sees it: everything but `post` runs on the source's island."""

    def post(self, handler: Callable[[Any], None], argument: Any) -> None:
        """Have a handler run on the island of the source; any thread."""

    def on_assigned(self, keys: Assignments) -> None: ...
    def on_positions(self, places: list[tuple[TopicPartition, int, int]]) -> None: ...
    def on_revoking(self, keys: list[TopicPartition]) -> None: ...
    def on_revoked(self, keys: Assignments) -> None: ...
    def on_idle(self, silent: list[tuple[TopicPartition, int, float]]) -> None: ...
    def on_end(self, ends: list[tuple[TopicPartition, int, int]]) -> None: ...
    def on_failed(self, error: BaseException) -> None: ...


class ReadingControl(Protocol):
    """The user's control of the source, as the consumer actor sees it. Any thread."""

    is_shutdown: StreamFuture[None]
    started: StreamFuture[None]

    def closed(self, last: dict[str, Any]) -> None:
        """Keep the last snapshot; called before `is_shutdown` ends."""


@dataclass(slots=True)
class ConsumerContext:
    """Settings, client, state and callbacks of one consumer actor."""

    settings: ConsumerSettings
    commits: Commits
    source: ReadingSource
    tracker: OffsetTracker | None
    state: ConsumerState
    call_later: Callable[[float, Callable[[], None]], Any]
    """Calls a function after a number of ms, on another thread; returns a timer that can be cancelled."""
    now_ms: Callable[[], float]
    tell: Callable[[Any], None]
    """Sends a message to the actor itself, after those in its mailbox; any thread."""
    until_end: bool
    apart: bool
    """Every assignment has a feed of its own."""
    client: StreamConsumer | None = None
    """None before the start and after the end."""
    stopping: bool = False
    """The stream has ended; what is in flight may still become done."""
    stop_by: float = math.inf
    """When the consumer closes although records are in flight (ms of `now_ms`); known once `stopping`."""
