"""Asks the broker when a record was appended, for the table of hops: its timestamp is the producer's time.

The broker of this package knows the times of its newest batches from the first question on. Any other refuses the question and is not asked again.

Owner: a ConsumerLink. Any thread asks; the questions are asked one after the other on a thread with a client of its own, which begin with the first
one and end with `close`."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable
from typing import Final

from streamactors.kafka.client.connection import ck
from streamactors.kafka.client.consumer import StreamConsumer
from streamactors.kafka.errors import KafkaError
from streamactors.kafka.settings import ConsumerSettings
from streamactors.kafka.subscriptions import TopicPartition

ASKS_APPEND_TIME: Final = -(2**62)
"""`broker/apis/api02_list_offsets.py` answers."""
EVERY_S: Final = 1.0

_log = logging.getLogger("streamactors.kafka")
_Answer = Callable[["int | None"], None]


class AppendTimes:
    """Asks for one record a second at most."""

    def __init__(self, settings: ConsumerSettings) -> None:
        self._settings = ConsumerSettings(settings.bootstrap_servers, None, properties=settings.security())
        self._questions: queue.SimpleQueue[tuple[TopicPartition, int, _Answer] | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._next_s = 0.0
        self._busy = self._over = False
        self.answers = False
        """Whether the broker has answered a question. Before, nothing should wait for an answer."""

    def ask(self, key: TopicPartition, offset: int, then: _Answer) -> bool:
        """Call `then` with the wall clock's ms of a record's append, None if it is not known; on another thread. Returns False, and never calls it,
        if another question was asked within a second or is open, or the broker does not answer such questions."""
        now_s = time.monotonic()
        with self._lock:
            if self._busy or self._over or now_s < self._next_s:
                return False
            self._busy, self._next_s = True, now_s + EVERY_S
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="append times", daemon=True)
                self._thread.start()
            self._questions.put((key, offset, then))
        return True

    def close(self) -> None:
        """Ask no more. An open question gets its answer, or None."""
        with self._lock:
            self._over = True
            self._questions.put(None)

    def _run(self) -> None:
        client = StreamConsumer(self._settings)
        try:
            while (question := self._questions.get()) is not None:
                key, offset, then = question
                appended_ms = self._asked(client, key, offset)
                with self._lock:
                    self._busy = False
                then(appended_ms)
                if self._over:
                    return
        finally:
            client.close()

    def _asked(self, client: StreamConsumer, key: TopicPartition, offset: int) -> int | None:
        try:
            found = client.offsets_at({key: ASKS_APPEND_TIME - offset})[key]
        except KafkaError as error:
            cause = error.__context__
            if isinstance(cause, ck.KafkaException) and cause.args[0].code() == ck.KafkaError.UNSUPPORTED_VERSION:
                self._over = True
            else:
                _log.debug("%s: the time of the append of offset %d is not known: %s", key, offset, error)
            return None
        self.answers = True
        return found if found >= 0 else None
