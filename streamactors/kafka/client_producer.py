"""The producer of streams: librdkafka's, with a thread of its own that serves the delivery reports.

`send` may be called from any thread, never waits, and raises BufferError while the queue is full. What became of a record is told to the
`report` that was given with it: (None, message) when the broker has it, (error, message) when not. A dict's `setdefault` makes a good one:
no Python function runs per record then. Whoever waits is told once per batch of reports.

Reports are served by one thread at a time: a stage that sends chunk upon chunk serves them between its chunks (`serve`), since a thread
beside it would have to wait for the interpreter's lock for every single report; the producer's thread serves them when no stage is busy,
and rests while nothing is on its way."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from typing import Any, TypeVar

from streamactors.actors.dispatcher import Dispatcher, DispatcherStopped
from streamactors.kafka.client import ck
from streamactors.kafka.errors import KafkaError, ProducerFailed, RecordError
from streamactors.kafka.preflight import known_topics
from streamactors.kafka.producer_record import ProducerRecord
from streamactors.kafka.settings import ProducerSettings

_log = logging.getLogger("streamactors.kafka")

POLL_S = 0.1
"""How long one poll may wait for reports; a closing producer is held up by no more."""

BUSY_S = 0.005
"""A stage that has served reports twice within this time is busy and will do it again."""

T = TypeVar("T")
Report = Callable[[Any, Any], Any]


class StreamProducer:
    """See the module. Made cheaply; connects at the first `start`. `errors_only`: what is delivered is not reported."""

    def __init__(self, settings: ProducerSettings, *, errors_only: bool = False) -> None:
        self.settings = settings
        self._complaint = ""
        self._dispatcher = Dispatcher(f"producer of {settings.bootstrap_servers}")
        self._listeners: tuple[Callable[[], None], ...] = ()
        self._lock = threading.Lock()
        self._polling = False
        self._served_at = self._busy_until = 0.0
        self._polls = threading.Lock()
        self._started: Future[None] | None = None
        self._closed = False
        properties = settings.client_properties()
        properties.setdefault("client.id", "streamactors")
        if errors_only:
            properties["delivery.report.only.error"] = True
        properties["error_cb"] = self._on_error
        properties["logger"] = logging.getLogger("streamactors.kafka.librdkafka")
        try:
            self._client: Any = ck.Producer(properties)
        except ck.KafkaException as error:
            raise KafkaError(f"producer settings: {error.args[0].str().strip()}") from None
        except (TypeError, ValueError) as error:
            raise KafkaError(f"producer settings: {error}") from None
        self.produce: Callable[..., None] = self._client.produce
        """librdkafka's own: (topic, value, key, partition or -1, report); raises its errors. For loops; else `send`."""

    def _on_error(self, error: Any) -> None:
        self._complaint = error.str()
        _log.info("%s: %s", self.settings.bootstrap_servers, error.str())

    # ── life ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def start(self) -> Future[None]:
        """Connect, and begin transactions if the settings have a transactional id; fails with NoBroker or KafkaError."""
        with self._lock:
            if self._started is None:
                self._started = self.call(self._connect)
            return self._started

    def _connect(self) -> None:
        known_topics(self._client, self.settings, lambda: self._complaint)
        if self.settings.transactional_id is not None:
            try:
                self._client.init_transactions()
            except ck.KafkaException as error:
                raise producer_failed(error, f"transactional id {self.settings.transactional_id}") from None

    def call(self, fn: Callable[..., T], *arguments: Any) -> Future[T]:
        """Run `fn` on the producer's thread, after what was given before; return a future of its result."""
        future: Future[T] = Future()

        def run() -> None:
            try:
                result = fn(*arguments)
            except BaseException as error:  # noqa: BLE001  # goes to whoever waits
                future.set_exception(error)
            else:
                future.set_result(result)

        try:
            self._dispatcher.execute(run)
        except DispatcherStopped:
            future.set_exception(ProducerFailed(f"the producer of {self.settings.bootstrap_servers} is closed"))
        return future

    def later(self, delay_ms: float, fn: Callable[[], None]) -> Any:
        """Run `fn` on the producer's thread after a while; returns a timer with cancel()."""
        return self._dispatcher.call_later(delay_ms, fn)

    def close(self, *, drop: bool = False) -> Future[None]:
        """Send what is queued (with `drop`: forget it), within close_timeout_ms, and end the thread. Idempotent."""
        with self._lock:
            if self._closed:
                done: Future[None] = Future()
                done.set_result(None)
                return done
            self._closed = True
        return self.call(self._close, drop)

    def _close(self, drop: bool) -> None:
        try:
            if drop:
                self._client.purge(blocking=False)
                self._client.poll(0)
            else:
                left = self._client.flush(self.settings.close_timeout_ms / 1_000)
                if left:
                    _log.warning(
                        "%s: closed with %d records that nobody acknowledged in %d ms",
                        self.settings.bootstrap_servers,
                        left,
                        self.settings.close_timeout_ms,
                    )
            self._tell()
        finally:
            self._dispatcher.stop()
            # librdkafka's client ends with the last reference to it; the traceback of an error may keep this object for long
            self._client = self.produce = _Closed(self.settings.bootstrap_servers)

    # ── sending ───────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def outstanding(self) -> int:
        """How many records are on their way or not reported yet."""
        return len(self._client)

    def send(self, record: ProducerRecord, report: Report) -> None:
        """Queue a record; its outcome goes to `report`. Raises BufferError while the queue is full, RecordError for what cannot be sent."""
        topic, value, key, partition, timestamp, headers = record
        if partition is None:
            partition = -1
        try:
            if timestamp is None and headers is None:
                self.produce(topic, value, key, partition, report)
            elif timestamp is not None and timestamp < 0:
                raise RecordError(
                    f"topic {topic}: a record with the timestamp {timestamp} cannot be sent; it is ms since 1970, None for now"
                )
            else:
                self.produce(
                    topic, value, key, partition, report, timestamp=timestamp or 0, headers=list(headers or ())
                )
        except ck.KafkaException as error:
            if (
                error.args[0].code() == ck.KafkaError._FATAL
            ):  # the reason was told before: another producer took over, mostly
                raise ProducerFailed(f"{self._who}: {self._complaint or error.args[0].str()}") from None
            size = len(value or b"") + len(key or b"")
            raise RecordError(
                f"topic {topic}: a record of {size} bytes cannot be sent: {error.args[0].str()} ({error.args[0].name()})"
            ) from None
        except (TypeError, ValueError, OverflowError) as error:
            raise RecordError(
                f"topic {topic}: a record with a value of {type(value).__name__} and a key of {type(key).__name__} cannot be "
                f"sent: {error}; values and keys are bytes, str or None, headers pairs of a name and a value"
            ) from None

    def send_all(self, records: Iterable[ProducerRecord], report: Report) -> None:
        """Queue records that share a report, waiting while the queue is full; on the producer's thread."""
        for record in records:
            while True:
                try:
                    self.send(record, report)
                except BufferError:
                    self._poll(POLL_S)
                else:
                    break
        self.wake()

    def flush(self) -> None:
        """Wait until everything sent was acknowledged or given up; on the producer's thread."""
        left = 1
        while left:
            with self._polls:
                left = self._client.flush(POLL_S)
            self._tell()

    @property
    def _who(self) -> str:
        return f"transactional id {self.settings.transactional_id or 'none'}"

    def listen(self, listener: Callable[[], None]) -> None:
        """Have `listener` called, on the producer's thread, after each batch of reports."""
        with self._lock:
            self._listeners = (*self._listeners, listener)

    def forget(self, listener: Callable[[], None]) -> None:
        """End `listen`."""
        with self._lock:
            self._listeners = tuple(known for known in self._listeners if known != listener)

    def wake(self) -> None:
        """See to it that reports of what was sent are served."""
        if not self._polling:
            self._polling = True
            try:
                self._dispatcher.execute(self._serve)
            except DispatcherStopped:
                pass  # closing has served what there was

    def serve(self, listener: Callable[[], None]) -> bool:
        """Serve the reports that are there, here and now, and tell all but this listener: for a stage that has just sent a chunk.

        Returns whether there were any."""
        served = 0
        now = time.monotonic()
        if now - self._served_at < BUSY_S:
            self._busy_until = now + BUSY_S
        self._served_at = now
        if self._polls.acquire(blocking=False):  # else the producer's thread is at it
            try:
                served = self._client.poll(0)
            finally:
                self._polls.release()
            if served and len(self._listeners) > 1:
                self._tell(listener)
        return served > 0

    def _serve(self) -> None:
        busy_s = self._busy_until - time.monotonic()
        if busy_s > 0:
            self._dispatcher.call_later(busy_s * 1_000, self._serve)
            return
        self._poll(POLL_S)
        client = self._client
        if not len(client):
            # sent -> seen polling -> this: what was sent is counted by now, so look once more after saying so
            self._polling = False
            if not len(client) or self._polling:
                return
            self._polling = True
        try:
            self._dispatcher.execute(self._serve)
        except DispatcherStopped:
            pass

    def _poll(self, timeout_s: float) -> None:
        with self._polls:
            served = self._client.poll(timeout_s)
        if served:
            self._tell()

    def _tell(self, but: Callable[[], None] | None = None) -> None:
        for listener in self._listeners:
            if listener != but:
                listener()

    # ── transactions, on the producer's thread ────────────────────────────────────────────────────────────────────

    def begin(self) -> None:
        """Begin a transaction."""
        self._transactional(self._client.begin_transaction)

    def send_offsets(self, offsets: Mapping[Any, int], group: Any, timeout_s: float) -> None:
        """Add positions (topic partition -> position) of a consumer's group to the transaction. Raises ProducerFailed."""
        told = [ck.TopicPartition(*key, offset) for key, offset in offsets.items()]
        self._transactional(lambda: self._client.send_offsets_to_transaction(told, group, timeout_s))

    def commit(self, timeout_s: float) -> None:
        """Send what is queued, and commit. Raises ProducerFailed."""
        self._transactional(lambda: self._client.commit_transaction(timeout_s))
        self._tell()

    def abort(self, timeout_s: float) -> None:
        """Abort the transaction. Raises ProducerFailed."""
        self._transactional(lambda: self._client.abort_transaction(timeout_s))
        self._tell()

    def _transactional(self, call: Callable[[], Any]) -> None:
        for attempt in range(RETRIES):
            try:
                with self._polls:
                    call()
            except ck.KafkaException as error:
                if not error.args[0].retriable() or attempt == RETRIES - 1:
                    raise producer_failed(error, f"transactional id {self.settings.transactional_id}") from None
            else:
                return


class _Closed:
    """Stands where the client of a closed producer was: nothing is on its way, and nothing can be sent."""

    def __init__(self, bootstrap_servers: str) -> None:
        self._servers = bootstrap_servers

    def __len__(self) -> int:
        return 0

    def poll(self, _: float) -> int:
        return 0

    flush = poll

    def __call__(self, *_: Any, **__: Any) -> None:
        raise ProducerFailed(f"the producer of {self._servers} is closed")


class StaleMembership(ProducerFailed):
    """The group has a new generation, of which the transaction's consumer does not know yet, or is no member any more."""


_STALE = (
    ck.KafkaError.ILLEGAL_GENERATION,
    ck.KafkaError.UNKNOWN_MEMBER_ID,
    ck.KafkaError.REBALANCE_IN_PROGRESS,
)
_PURGED = (ck.KafkaError._PURGE_QUEUE, ck.KafkaError._PURGE_INFLIGHT)

RETRIES = 5
"""How often a transactional call that librdkafka calls retriable is made; each waits its own timeout."""


def producer_failed(error: Any, who: str) -> ProducerFailed:
    """Return what an exception of librdkafka's producer means."""
    cause = error.args[0]
    kind = StaleMembership if cause.code() in _STALE else ProducerFailed
    return kind(f"{who}: {cause.str()} ({cause.name()})")


def is_purged(error: Any) -> bool:
    """True where a record was thrown away with its transaction: there is another cause."""
    return not isinstance(error, BaseException) and error.code() in _PURGED


def not_delivered(record: ProducerRecord, error: Any) -> BaseException:
    """Return the error of a record whose slot has `error`."""
    if isinstance(error, BaseException):
        return error
    where = record.topic if record.partition is None else f"{record.topic}-{record.partition}"
    size = len(record.value or b"") + len(record.key or b"")
    return RecordError(f"topic {where}: a record of {size} bytes was not delivered: {error.str()} ({error.name()})")
