"""Upkeep of a topic between two halves of a run: what is done is deleted, and its end is known when nobody writes any more.

Owner: the run; a thread of its own, because the broker's answers are waited for. Two rules:

* What the reading group has committed of a repartition topic is deleted every 30 s (Kafka Streams' repartition.purge.interval.ms), for
  the topic keeps what it gets. A topic of the user's (`through_topic`) is left alone.
* Several instances write the topic, and each reads partitions that all of them write. Its end is therefore known only when the
  group of the input has committed every partition's end, which it does in the transaction that wrote the rows."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from streamactors.kafka.client import REQUEST_TIMEOUT_MS, ck, ck_admin
from streamactors.kafka.settings import ConsumerSettings
from streamactors.kafka.subscriptions import TopicPartition

_log = logging.getLogger("streamactors.kafka")

PURGE_INTERVAL_MS: Final = 30_000
END_CHECK_MS: Final = 100
TOLD_EVERY_S: Final = 30.0

EndsOfGroups = Mapping[str, Mapping[TopicPartition, int]]
"""The ends of the inputs, by the group that reads them."""


class TopicUpkeep:
    """`reading`: settings of the group that reads `topic`; `purged`: how many of its partitions what is done is deleted of."""

    def __init__(self, reading: ConsumerSettings, topic: str, *, purged: int) -> None:
        self._admin = ck_admin.AdminClient({"log_level": 2, **reading.address()})
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
        """End soon; any thread, any number of times."""
        self._over = True
        self._wake.set()

    def when_written(self, ends: EndsOfGroups, then: Callable[[], None]) -> None:
        """Call `then` when the writing groups have committed these ends of their inputs: nothing more will be written."""
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
            except Exception as error:  # noqa: BLE001  # a broker that is away: tried again
                _log.warning("%s: upkeep of the topic failed, tried again: %s", self._topic, error)
            pause_s = END_CHECK_MS / 1_000 if self._awaited else next_purge - time.monotonic()
            if not self._over:
                self._wake.wait(max(0.0, pause_s))
        del self._admin  # on this thread: closing it waits

    def _purge(self) -> None:
        """Delete what the reading group has done. What cannot be deleted now is so the next time."""
        done = {key: offset for key, offset in self._committed(self._group, self._keys).items() if offset > 0}
        fresh = {key: offset for key, offset in done.items() if offset > self._purged.get(key, 0)}
        if not fresh:
            return
        wanted = [ck.TopicPartition(*key, offset) for key, offset in fresh.items()]
        for partition, future in self._admin.delete_records(wanted, request_timeout=REQUEST_TIMEOUT_MS / 1_000).items():
            future.result(REQUEST_TIMEOUT_MS / 1_000)
            key = TopicPartition(partition.topic, partition.partition)
            self._purged[key] = fresh[key]

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
                "%s: its end is known when other instances of %s have read their input: %s; is one of them to be started again?",
                self._topic,
                ", ".join(ends),
                ", ".join(missing),
            )

    def _not_read(self, group: str, ends: Mapping[TopicPartition, int]) -> list[str]:
        at = self._committed(group, ends)
        return [f"{key} at {at.get(key, 0)} of {end}" for key, end in ends.items() if at.get(key, 0) < end]

    def _committed(self, group: str, keys: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        wanted = [ck.TopicPartition(*key) for key in keys]
        if not wanted:
            return {}
        request: Any = [ck.ConsumerGroupTopicPartitions(group, wanted)]
        answers = self._admin.list_consumer_group_offsets(request, request_timeout=REQUEST_TIMEOUT_MS / 1_000)
        found = answers[group].result(REQUEST_TIMEOUT_MS / 1_000).topic_partitions
        return {TopicPartition(p.topic, p.partition): p.offset for p in found if p.offset >= 0 and p.error is None}
