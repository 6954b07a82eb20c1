"""Named topics that were deleted while a consumer group (KIP-848) read them: the broker is asked, on a separate thread.

In a classic group the partitions stay assigned, and librdkafka's statistics say that they are unknown. A consumer group takes them away as in
any rebalance, and its member would wait without end. Owner: the consumer of a stream."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from typing import Final

from streamactors.kafka.client.admin import Admin
from streamactors.kafka.errors import KafkaError, TopicNotFound
from streamactors.kafka.settings import ConsumerSettings

ASKED_AFTER_S: Final = (0.0, 1.0, 5.0)
"""A broker that is asked may hear of the deletion later than the group's coordinator."""


class DeletedTopics:
    """Asks for one set of topics at a time; `take` returns those that do not exist."""

    def __init__(self, settings: ConsumerSettings) -> None:
        self._settings = settings
        self._asked: set[str] = set()
        self._wanted = settings.group_protocol == "consumer"
        self._found: set[str] = set()
        self._over = threading.Event()

    def ask(self, topics: Iterable[str]) -> None:
        """Begin to look up whether these topics, of which the group has taken all partitions away, still exist. Returns at once."""
        names = set(topics) - self._asked
        if self._wanted and names and not self._over.is_set():
            self._asked |= names
            who = f"taken away: {', '.join(sorted(names))}"
            threading.Thread(target=self._look, args=(names,), name=who, daemon=True).start()

    def take(self) -> set[str]:
        """Return topics that do not exist, once."""
        found, self._found = self._found, set()
        return found

    def close(self) -> None:
        """Ask no more."""
        self._over.set()

    def _look(self, names: set[str]) -> None:
        began_s = time.monotonic()
        try:
            for after_s in ASKED_AFTER_S:
                if self._over.wait(max(0.0, began_s + after_s - time.monotonic())):
                    return
                try:
                    with Admin(self._settings) as admin:
                        gone = {name for name in sorted(names) if not _exists(admin, name)}
                except KafkaError:
                    continue  # the broker is away
                if gone:
                    self._found |= gone
                    return
        finally:
            self._asked -= names


def _exists(admin: Admin, name: str) -> bool:
    try:
        return bool(admin.partitions_of(name))
    except TopicNotFound:
        return False
