"""SendProducer: write records outside of a stream, each with a future."""

from __future__ import annotations

import threading
from collections import deque
from concurrent.futures import Future
from contextvars import Context, copy_context
from typing import Any

from streamactors.actors.futures import StreamFuture
from streamactors.actors.waits import refuse_here
from streamactors.errors import BuildError
from streamactors.kafka.client.traced_producer import producer_of
from streamactors.kafka.errors import ProducerFailed
from streamactors.kafka.producer_record import ProducerRecord, RecordMetadata, checked_record
from streamactors.kafka.serdes.serdes import writing_function
from streamactors.kafka.settings import ProducerSettings
from streamactors.kafka.writing.deliveries import Slot

Waiting = tuple[ProducerRecord, Slot, StreamFuture[RecordMetadata], Context]
"""A record, where its report goes, its future, and the context of the call: the span of the caller is current in it."""


class SendProducer:
    """A producer for single records. `send` never waits: while librdkafka's queue is full, records wait here in order. Thread-safe.

    A context manager: `with`, or in a coroutine `async with`. Its end sends the waiting records, as `close` and `await producer.aclose()` do."""

    def __init__(self, settings: ProducerSettings, *, key: Any = None, value: Any = None) -> None:
        if not isinstance(settings, ProducerSettings):
            raise BuildError(f"SendProducer expects ProducerSettings, got {type(settings).__name__}")
        self._write = writing_function("SendProducer", key, value) or checked_record
        self._client = producer_of(settings)
        self._lock = threading.Lock()
        self._unsent: deque[Waiting] = deque()
        self._sent: deque[Waiting] = deque()
        self._ready = False  # a broker has answered
        self._closed = False
        self._client.listen(self._on_reports)

    def send(self, record: ProducerRecord) -> StreamFuture[RecordMetadata]:
        """Write a record. The future gets its topic, partition and offset when the broker has stored it, RecordError when it was not
        delivered. It fails with NoBroker if none answers within preflight_timeout_ms; after an answer a broker may be gone for message.timeout.ms."""
        record = self._write(record)
        future: StreamFuture[RecordMetadata] = StreamFuture("send")
        with self._lock:
            if self._closed:
                future.try_fail(ProducerFailed("the SendProducer is closed"))
                return future
            self._unsent.append((record, {}, future, copy_context()))
            ready = self._ready
        if ready:
            self._move_on()
        else:
            self._client.start(again=True).add_done_callback(self._on_started)
        return future

    def _on_started(self, started: Future[None]) -> None:
        """A broker has answered, or none has: then the waiting records fail, and the next one asks again."""
        error = started.exception()
        if error is None:
            self._ready = True
            self._move_on()
            return
        with self._lock:
            failed = [] if self._ready else list(self._unsent)
            if failed:
                self._unsent.clear()
        for _, _, future, _ in failed:
            future.try_fail(error)

    def _move_on(self) -> None:
        failed: list[tuple[StreamFuture[RecordMetadata], BaseException]] = []
        with self._lock:
            while self._unsent:
                record, slot, future, context = self._unsent[0]
                try:
                    context.run(self._client.send, record, slot.setdefault)
                except BufferError:
                    break
                except Exception as raised:  # noqa: BLE001  # the future's
                    failed.append((future, raised))
                else:
                    self._sent.append((record, slot, future, context))
                self._unsent.popleft()
        for future, error in failed:
            future.try_fail(error)
        self._client.wake()

    def _on_reports(self) -> None:
        with self._lock:
            ended = [waiting for waiting in self._sent if waiting[1]]
            self._sent = deque(waiting for waiting in self._sent if not waiting[1])
        for record, slot, future, _ in ended:
            if None in slot:
                future.try_complete(RecordMetadata((slot[None],)))
            else:
                future.try_fail(self._client.not_delivered(record, next(iter(slot))))
        if self._unsent:
            self._move_on()

    def close(self) -> None:
        """Send the waiting records within close_timeout_ms, and disconnect. Then fail the futures that are not done. Idempotent.

        Blocks; a coroutine awaits `aclose`."""
        ended = self._begin_close()
        if not ended.done():
            refuse_here("SendProducer.close()", "await producer.aclose() instead")
        ended.result()
        self._end_close()

    async def aclose(self) -> None:
        """As `close`, without blocking the loop."""
        await self._begin_close()
        self._end_close()

    def _begin_close(self) -> StreamFuture[None]:
        with self._lock:
            self._closed = True
        ended: StreamFuture[None] = StreamFuture("SendProducer.close()")

        def closed(future: Future[None]) -> None:
            error = future.exception()
            if error is None:
                ended.try_complete(None)
            else:
                ended.try_fail(error)

        self._client.close().add_done_callback(closed)
        return ended

    def _end_close(self) -> None:
        self._on_reports()
        with self._lock:
            left = [*self._sent, *self._unsent]
            self._sent.clear()
            self._unsent.clear()
        for record, _, future, _ in left:
            future.try_fail(ProducerFailed(f"topic {record.topic}: not acknowledged when the producer was closed"))

    def __enter__(self) -> SendProducer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> SendProducer:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()
