"""Passes each event of a partition to the source that reads this partition through a shared consumer.

Owner: the shared consumer's actor, on whose thread everything here runs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

from streamactors.kafka.reading.consumer_context import ReadingSource
from streamactors.kafka.subscriptions import TopicPartition

if TYPE_CHECKING:
    from streamactors.kafka.sources.shared.shared_link import SharedLink

Item = TypeVar("Item", bound=tuple[Any, ...])


class SharedRouter:
    """The reading source of a shared consumer; see the module."""

    def __init__(self, owners: dict[TopicPartition, SharedLink], fail: Callable[[BaseException], None]) -> None:
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
