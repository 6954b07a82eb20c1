"""CreatedTopics: logs which topics the broker created because of a producer's records. Where the broker creates missing topics, a misspelt name
is no error.

Owner: a producer. Chunks are looked at by their first and last record, because a look at every record would cost too much."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterable
from typing import Any, Final

from streamactors.actors.dispatching.dispatcher import DispatcherStopped
from streamactors.kafka.client.connection import ck, did_you_mean

made_here: Final[set[str]] = set()
"""Topics that this process has created by name, such as changelogs, or has found at the broker before it wrote to them: another instance may have created them. The
broker's own creation is what is worth a warning."""
NEW_TOPIC_MS: Final = 1_000
"""How long after its first record the broker usually knows a topic that it creates. Each further look comes after twice the time."""
LOOKS: Final = 10
_log = logging.getLogger("streamactors.kafka")


class CreatedTopics:
    """Logs which topics a producer's records have created. `sent` is called by any thread, everything else by the producer's. `later(ms, fn)` calls `fn` on that thread;
    `existing()` asks the broker for its topics."""

    def __init__(
        self, servers: str, later: Callable[[float, Callable[[], None]], Any], existing: Callable[[], Iterable[str]]
    ) -> None:
        self._servers = servers
        self._later = later
        self._existing = existing
        self._known: frozenset[str] | None = None  # when the producer started
        self._told: set[str] = set()
        self._new: set[str] = set()

    def start(self, known: Iterable[str]) -> None:
        """The producer starts, and these topics exist."""
        self._known = frozenset(known)

    def sent(self, topic: object) -> None:
        """A record goes to this topic."""
        if self._known is None or topic in self._known or topic in self._told or not isinstance(topic, str):
            return
        self._told.add(topic)
        self._new.add(topic)
        self._look_later(0)

    def _look_later(self, looks: int) -> None:
        with contextlib.suppress(DispatcherStopped):  # the producer is closed, and refuses the record itself
            self._later(NEW_TOPIC_MS << looks, lambda: self.look(looks + 1))

    def look(self, looks: int = LOOKS) -> None:
        """Warn of the new topics that the broker has created by now. Look again later for others, unless this is the last look."""
        if not self._new:
            return
        try:
            existing = self._existing()
        except ck.KafkaException:
            existing = ()  # no broker answers; the producer's own errors say so
        found = self._new.intersection(existing)
        self._new -= found
        if self._new and looks < LOOKS:
            self._look_later(looks)
        for topic in sorted(found - made_here):
            meant = did_you_mean(topic, self._known or ()).removesuffix(" or ")
            _log.warning(
                "topic %s did not exist at %s when this producer started, and was created (auto.create.topics.enable)%s",
                topic,
                self._servers,
                f"; {meant}" if meant else "",
            )
