"""Creates topics that requests of clients need: one attempt at a time for each topic, a pause after a failure, and one warning.

Clients ask again several times a second. When the controller refuses a topic, such as one with more replicas than there are brokers, each of these
requests would be another CreateTopics request.

Owner: the node, on the data plane. A failure is forgotten when brokers come or go."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final

from streamactors.broker.controller.command import AutoCreate, TopicCreated
from streamactors.broker.errors import ErrorCode

if TYPE_CHECKING:
    from streamactors.broker.node import Node

_log = logging.getLogger("streamactors.broker.controller")

FIRST_PAUSE_MS: Final = 500.0
LONGEST_PAUSE_MS: Final = 10_000.0
MOST_FAILURES: Final = 1_000

Outcomes = Mapping[str, TopicCreated]
Reply = Callable[[Outcomes], object]


@dataclass(slots=True)
class _Failure:
    outcome: TopicCreated
    brokers: tuple[int, ...]
    pause_ms: float
    until_ms: float


@dataclass(slots=True, eq=False)
class _Waiting:
    """One request: the topics without an outcome, and the outcomes of the others."""

    left: set[str]
    reply: Reply
    found: dict[str, TopicCreated] = field(default_factory=dict)

    def settle(self, name: str, created: TopicCreated) -> None:
        self.found[name] = created
        self.left.discard(name)
        if not self.left:
            self.reply(self.found)


class AutoCreation:
    """The topics that are being created, and the failures of the last attempts."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._under_way: dict[str, list[_Waiting]] = {}
        self._failures: dict[str, _Failure] = {}

    def create(
        self, names: Iterable[str], reply: Reply = lambda _: None, configs: tuple[tuple[str, str | None], ...] = ()
    ) -> None:
        """Create missing topics, with settings of their own; `reply` gets the outcome of each. In the pause after a failure it gets that failure at once."""
        wanted = dict.fromkeys(names)
        waiting = _Waiting(set(wanted), reply)
        asked, refused = [], []
        for name in wanted:
            if name in self._under_way:
                self._under_way[name].append(waiting)
            elif self._pauses(name):
                refused.append(name)
            else:
                self._under_way[name] = [waiting]
                asked.append(name)
        for name in refused:
            waiting.settle(name, self._failures[name].outcome)
        if asked:
            self._node.active_controller.submit(AutoCreate(tuple(asked), configs), partial(self._ended, asked))

    def _pauses(self, name: str) -> bool:
        failure = self._failures.get(name)
        return (
            failure is not None and self._brokers() == failure.brokers and self._node.clock.now_ms() < failure.until_ms
        )

    def _brokers(self) -> tuple[int, ...]:
        return tuple(self._node.metadata.image.live_brokers())

    def _ended(self, asked: Iterable[str], outcomes: Outcomes) -> None:
        for name in asked:
            created = outcomes[name]
            if created.outcome.code is ErrorCode.NONE:
                self._failures.pop(name, None)
            else:
                self._note(name, created)
            for waiting in self._under_way.pop(name):
                waiting.settle(name, created)

    def _note(self, name: str, created: TopicCreated) -> None:
        code, message = created.outcome
        before = self._failures.pop(name, None)
        if before is None or before.outcome.outcome != created.outcome:
            _log.warning(
                "topic %s, which clients need, cannot be created: %s; it is tried again after pauses of up to %g s",
                name,
                message or code.name,
                LONGEST_PAUSE_MS / 1_000,
            )
        pause_ms = FIRST_PAUSE_MS if before is None else min(2 * before.pause_ms, LONGEST_PAUSE_MS)
        self._failures[name] = _Failure(created, self._brokers(), pause_ms, self._node.clock.now_ms() + pause_ms)
        if len(self._failures) > MOST_FAILURES:
            del self._failures[next(iter(self._failures))]
