"""Upkeep of a topic between two halves of a run: deletes processed records, and finds out when the last row was written.

Owner: the run; on a thread of its own, because it waits for the broker's answers. Two rules:

* The records of a repartition topic that the reading group has committed are deleted every 30 s (Kafka Streams'
  repartition.purge.interval.ms), because the topic has no retention. Records of a user's topic (`through_topic`) are not deleted.
* Several instances write the topic, and each reads partitions that all of them write. So the topic's end is known only when the group
  of the input has committed the end of every input partition; it commits them in the transaction that writes the rows."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import Final

from streamactors.kafka.client.admin import Admin
from streamactors.kafka.settings import ConsumerSettings
from streamactors.kafka.subscriptions import TopicPartition

_log = logging.getLogger("streamactors.kafka")

PURGE_INTERVAL_MS: Final = 30_000
END_CHECK_MS: Final = 100
TOLD_EVERY_S: Final = 30.0

EndsOfGroups = Mapping[str, Mapping[TopicPartition, int]]
"""The end offsets of the inputs, by the group that reads them."""


class TopicUpkeep:
    """`reading`: settings of the group that reads `topic`; `purged`: the number of partitions whose processed records are deleted."""

    def __init__(self, reading: ConsumerSettings, topic: str, *, purged: int) -> None:
        self._admin = Admin(reading)
        self._topic = topic
        self._keys = [TopicPartition(topic, number) for number in range(purged)]
        self._group = reading.group_id or ""
        self._purged: dict[TopicPartition, int] = {}
        self._wake = threading.Event()
        self._over = False
        self._awaited: tuple[EndsOfGroups, Callable[[], None]] | None = None
        self._told = 0.0
        self._thread = threading.Thread(target=self._run, name=f"upkeep of {topic}", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread soon. Any thread; idempotent."""
        self._over = True
        self._wake.set()

    def when_written(self, ends: EndsOfGroups, then: Callable[[], None]) -> None:
        """Call `then` when the writing groups have committed these ends of their inputs: no further row will be written."""
        self._told = time.monotonic()
        self._awaited = ends, then
        self._wake.set()

    def _run(self) -> None:
        next_purge = time.monotonic()
        while not self._over:
            self._wake.clear()
            try:
                if time.monotonic() >= next_purge:
                    next_purge = time.monotonic() + PURGE_INTERVAL_MS / 1_000
                    self._purge()
                self._look_for_end()
            except Exception as error:  # noqa: BLE001  # the broker may be away: retry later
                if not self._over:
                    _log.warning("%s: upkeep of the topic failed and is retried: %s", self._topic, error)
            pause_s = END_CHECK_MS / 1_000 if self._awaited else next_purge - time.monotonic()
            if not self._over:
                self._wake.wait(max(0.0, pause_s))
        del self._admin  # on this thread: closing it waits

    def _purge(self) -> None:
        """Delete the records that the reading group has committed. After an error the next purge retries."""
        done = {key: offset for key, offset in self._admin.committed(self._group, self._keys).items() if offset > 0}
        fresh = {key: offset for key, offset in done.items() if offset > self._purged.get(key, 0)}
        if not fresh:
            return
        self._admin.delete_records(fresh)
        self._purged.update(fresh)

    def _look_for_end(self) -> None:
        if self._awaited is None:
            return
        ends, then = self._awaited
        missing = [text for group, of in ends.items() for text in self._not_read(group, of)]
        if not missing:
            self._awaited = None
            then()
        elif time.monotonic() - self._told > TOLD_EVERY_S:
            self._told = time.monotonic()
            _log.warning(
                "%s waits for its end: other instances of %s have not read all of their input: %s; has one of them stopped?",
                self._topic,
                ", ".join(ends),
                ", ".join(missing),
            )

    def _not_read(self, group: str, ends: Mapping[TopicPartition, int]) -> list[str]:
        at = self._admin.committed(group, ends)
        return [f"{key} at {at.get(key, 0)} of {end}" for key, end in ends.items() if at.get(key, 0) < end]
