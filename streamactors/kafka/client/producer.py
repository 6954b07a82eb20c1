"""The producer of streams: librdkafka's, with a thread of its own that serves the delivery reports.

`send` may be called from any thread, never waits, and raises BufferError while the queue is full. librdkafka calls the `report` of a
record with (None, message) when the broker has stored it, and with (error, message) when not. A dict's `setdefault` is a good report: then no
Python function runs per record. Listeners are called once per batch of reports.

One thread at a time serves the reports. A stage that sends one chunk after another serves them between its chunks (`serve`), because
another thread would wait for the interpreter lock at every report. The producer's thread serves them when no stage is busy, and sleeps
while no record is in flight.

Over 400 lines: sending, serving reports, the calls of a transaction and closing all guard the same librdkafka client."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from operator import length_hint
from typing import Any, Final, TypeVar
from weakref import WeakValueDictionary

from streamactors.actors.dispatching.dispatcher import Dispatcher, DispatcherStopped
from streamactors.clock import SECONDS_FROM, SECONDS_TO
from streamactors.kafka.client.bounded_call import bounded
from streamactors.kafka.client.connection import ClientConnection, ck
from streamactors.kafka.client.created_topics import CreatedTopics
from streamactors.kafka.client.diagnosis.delivery_errors import ClosedProducer
from streamactors.kafka.client.diagnosis.producer_errors import REFUSALS, ProducerErrors
from streamactors.kafka.client.diagnosis.refused_writes import with_reasons
from streamactors.kafka.client.producer_rest import ProducerRest
from streamactors.kafka.errors import ProducerFailed, RecordError
from streamactors.kafka.producer_record import ProducerRecord
from streamactors.kafka.settings import ProducerSettings
from streamactors.living import Living

_log = logging.getLogger("streamactors.kafka")

POLL_S = 0.1
"""How long one poll waits for reports; closing a producer waits for no more than one poll."""

BUSY_S = 0.005
"""A stage that has served reports twice within this time is busy and will serve them again."""

RETRIES = 5
"""How often a transactional call with a retriable error is made; each attempt has the whole timeout."""

T = TypeVar("T")
Report = Callable[[Any, Any], Any]


@dataclass(slots=True, weakref_slot=True)
class ProducerCounts:
    """What the producers of one broker and transactional id have done, in this process. Counted per call, not per record, where a call has many."""

    sent: int = 0
    failed: int = 0
    commits: int = 0
    aborts: int = 0


COUNTS: Final[WeakValueDictionary[tuple[str, str], ProducerCounts]] = WeakValueDictionary()
"""By bootstrap servers and transactional id, "" for none; as long as a producer has them."""
_counts_lock = threading.Lock()
PRODUCERS: Final[Living[StreamProducer]] = Living()
"""The producers of this process."""


class StreamProducer:
    """librdkafka's producer, with a thread that serves delivery reports. Connects at the first `start`. `errors_only`: only records that were not delivered are reported."""

    def __init__(self, settings: ProducerSettings, *, errors_only: bool = False) -> None:
        self.settings = settings
        self._connection = ClientConnection(settings)
        properties = with_reasons(settings.client_properties())
        if errors_only:
            properties["delivery.report.only.error"] = True
        self._client: Any = self._connection.make(ck.Producer, properties)
        self.produce: Callable[..., None] = self._client.produce
        """librdkafka's own: (topic, value, key, partition or -1, report); raises its errors. For loops; else `send`."""
        # after the client, which may refuse its settings: a dispatcher has descriptors until it is stopped
        self._dispatcher = Dispatcher(f"producer of {settings.bootstrap_servers}")
        self._listeners: tuple[Callable[[], None], ...] = ()
        self._lock = threading.Lock()
        self._created = CreatedTopics(settings.bootstrap_servers, self.later, self._topics)
        self._errors = ProducerErrors(
            self._connection,
            settings.transactional_id,
            self._hear,
            self._topics,
            (
                lambda: self._client.begin_transaction(),
                lambda: self._client.commit_transaction(0),
                lambda: self._client.abort_transaction(0),
            ),
        )
        with _counts_lock:
            self.counts = COUNTS.setdefault(
                (settings.bootstrap_servers, settings.transactional_id or ""), ProducerCounts()
            )
        PRODUCERS.add(self)
        self._polling = False
        self._served_at = self._busy_until = 0.0
        self._polls = threading.Lock()
        self._started: Future[None] | None = None
        self._closed = False
        self.rest = ProducerRest(self._dispatcher.name, lambda: self._polling)

    # ── life ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def start(self, *, again: bool = False) -> Future[None]:
        """Connect, and begin transactions if the settings have a transactional id; fails with NoBroker or KafkaError. `again`: try
        again if an earlier call failed."""
        with self._lock:
            started = self._started
            if started is None or (again and started.done() and started.exception() is not None):
                started = self._started = self.call(self._connect)
            return started

    def _topics(self) -> Any:
        return self._client.list_topics(timeout=1).topics

    def _connect(self) -> None:
        self._created.start(self._connection.known_topics(self._client))
        if self.settings.transactional_id is not None:
            try:
                self._client.init_transactions()
            except ck.KafkaException as error:
                raise self._errors.failed(error) from None

    def call(self, fn: Callable[..., T], *arguments: Any) -> Future[T]:
        """Run `fn` on the producer's thread, after earlier calls; return a future of its result."""
        future: Future[T] = Future()

        def run() -> None:
            try:
                result = fn(*arguments)
            except BaseException as error:  # noqa: BLE001  # goes to whoever waits
                future.set_exception(error)
            else:
                future.set_result(result)

        try:
            self._dispatcher.execute(self.rest.counted(run))
        except DispatcherStopped:
            future.set_exception(ProducerFailed(f"the producer of {self.settings.bootstrap_servers} is closed"))
        return future

    def later(self, delay_ms: float, fn: Callable[[], None]) -> Any:
        """Run `fn` on the producer's thread after `delay_ms`; return a timer with cancel()."""
        return self._dispatcher.call_later(delay_ms, fn)

    def close(self, *, drop: bool = False) -> Future[None]:
        """Send the queued records within close_timeout_ms (with `drop`: drop them), and end the thread. Idempotent."""
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
                with contextlib.suppress(ProducerFailed):  # no caller waits for these records
                    self._callbacks("poll", 0)
            else:
                left = self._callbacks("flush", self.settings.close_timeout_ms / 1_000)
                if left:
                    _log.warning(
                        "%s: closed with %d records that nobody acknowledged in %d ms",
                        self.settings.bootstrap_servers,
                        left,
                        self.settings.close_timeout_ms,
                    )
            self._created.look()
            self._tell()
        finally:
            self._dispatcher.stop()
            # librdkafka's client ends with the last reference to it. The error of a stream keeps the frames that it came through, as long as the
            # user keeps the error: they may know this object, and never the client or one of its methods.
            self._client = self.produce = ClosedProducer(self.settings.bootstrap_servers)
            self.rest.end()

    # ── sending ───────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def outstanding(self) -> int:
        """Number of records in flight or not reported yet."""
        return len(self._client)

    def send(self, record: ProducerRecord, report: Report) -> None:
        """Queue a record with its report. Raises BufferError while the queue is full, RecordError for a record that cannot be sent."""
        self._send(record, report)
        self.counts.sent += 1

    def not_delivered(self, record: ProducerRecord, error: Any) -> BaseException:
        """Return the error of a record whose report has an error."""
        self.counts.failed += 1
        return self._errors.not_delivered(record, error)

    def _refused(self, record: Any, error: Exception) -> BaseException:
        self.counts.failed += 1
        return self._errors.refusal(record, error)

    def _send(self, record: ProducerRecord, report: Report) -> None:
        topic, value, key, partition, timestamp, headers = record
        self._created.sent(topic)
        partition = -1 if partition is None else partition
        try:
            if timestamp is None and headers is None:
                self.produce(topic, value, key, partition, report)
            elif timestamp is not None and timestamp < 0:
                raise RecordError(
                    f"topic {topic}: a record with the timestamp {timestamp} cannot be sent; it is ms since 1970, None for now"
                )
            else:
                self._connection.look_at_time(topic, timestamp)
                if timestamp is not None:
                    timestamp = timestamp or 1  # 0 is now to librdkafka
                self.produce(
                    topic, value, key, partition, report, timestamp=timestamp or 0, headers=list(headers or ())
                )
        except REFUSALS as error:
            raise self._refused(record, error) from None

    def produce_all(
        self, records: Sequence[Any], reports: Iterable[Report], refused: Callable[[int, BaseException], None]
    ) -> int:
        """Queue records, each with its report, and return how many; fewer than `records` when the queue is full.

        A record that cannot be sent counts as queued: its index and its error go to `refused`."""
        send, produce = self._send, self.produce
        for record in (records[0], records[-1]) if records else ():
            self._created.sent(getattr(record, "topic", None))
        rest = iter(records)
        for record, report in zip(rest, reports, strict=False):  # strict would look one ahead
            try:
                if type(record) is ProducerRecord:
                    topic, value, key, partition, timestamp, headers = record
                    if not headers:
                        partition = -1 if partition is None else partition
                        if timestamp is None:
                            produce(topic, value, key, partition, report)
                            continue
                        if timestamp >= SECONDS_TO or 0 < timestamp < SECONDS_FROM:  # else it may be in seconds
                            produce(topic, value, key, partition, report, None, timestamp)
                            continue
                send(record, report)
            except BufferError:
                taken = len(records) - length_hint(rest) - 1
                self.counts.sent += taken
                return taken
            except Exception as error:  # noqa: BLE001  # the report of this record
                refused(len(records) - length_hint(rest) - 1, self._refused(record, error))
        self.counts.sent += len(records)
        return len(records)

    def _hear(self) -> None:
        """Serve librdkafka's callbacks, unless another thread does."""
        if self._polls.acquire(timeout=POLL_S):
            try:
                with contextlib.suppress(ProducerFailed):
                    self._callbacks("poll", 0)
            finally:
                self._polls.release()

    def send_all(self, records: Iterable[ProducerRecord], report: Report) -> None:
        """Queue records that share a report; wait while the queue is full. On the producer's thread."""
        produce, topic_before = self.produce, None
        records = list(records)
        self.counts.sent += len(records)
        try:
            for record in records:
                topic, value, key, partition, timestamp, headers = record
                if topic is not topic_before:
                    self._created.sent(topic)
                    topic_before = topic
                plain = timestamp is None and not headers
                while True:
                    try:
                        if plain:
                            produce(topic, value, key, -1 if partition is None else partition, report)
                        else:
                            self._send(record, report)
                    except BufferError:
                        self.poll(POLL_S)
                    except REFUSALS as error:
                        raise self._refused(record, error) from None
                    else:
                        break
        finally:
            del produce  # see _close: an error keeps this frame
        self.wake()

    def as_sent(self, records: Sequence[ProducerRecord]) -> Sequence[ProducerRecord]:
        """Return records of the last `produce_all` as they were sent, to be sent again by `send_all`."""
        return records

    def flush(self) -> None:
        """Wait until every record was acknowledged or has failed. On the producer's thread."""
        left = 1
        while left:
            with self._polls:
                left = self._callbacks("flush", POLL_S)
                self._connection.records_wait(self._client)
            self._tell()

    def listen(self, listener: Callable[[], None]) -> None:
        """Call `listener` on the producer's thread after each batch of reports."""
        with self._lock:
            self._listeners = (*self._listeners, listener)

    def forget(self, listener: Callable[[], None]) -> None:
        """End `listen`."""
        with self._lock:
            self._listeners = tuple(known for known in self._listeners if known != listener)

    def wake(self) -> None:
        """Have the producer's thread serve the reports of the records in flight."""
        if not self._polling:
            self._polling = True
            with contextlib.suppress(DispatcherStopped):  # closing has served what there was
                self._dispatcher.execute(self._serve)

    def serve(self, listener: Callable[[], None]) -> bool:
        """Serve the waiting reports on this thread, and call all other listeners: for a stage that has just sent a chunk.

        Returns True if there were any."""
        served = 0
        now = time.monotonic()
        if now - self._served_at < BUSY_S:
            self._busy_until = now + BUSY_S
        self._served_at = now
        if self._polls.acquire(blocking=False):  # else the producer's thread is at it
            try:
                served = self._callbacks("poll", 0)
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
        try:
            self.poll(POLL_S)
        except ProducerFailed as error:
            _log.info("%s", error)  # the next record or commit fails of it; reports of earlier records may still come
        if not len(self._client):  # no local name for the client: an error that this frame has met may keep the frame
            # sent -> seen polling -> this: what was sent is counted by now, so look once more after saying so
            self._polling = False
            if not len(self._client) or self._polling:
                return
            self._polling = True
        with contextlib.suppress(DispatcherStopped):
            # by `execute`, a thousand polls would come before the next timer
            self._dispatcher.call_later(0, self._serve)

    def _callbacks(self, serve: str, timeout_s: float) -> int:
        """Have librdkafka's client call back, in its method `serve`. Raises ProducerFailed for a fatal error, which the client raises once, in any
        such call."""
        try:
            served: int = getattr(self._client, serve)(timeout_s)
        except ck.KafkaException as error:
            self.call(self._tell)  # the call may have served reports before it raised
            if error.args[0].fatal():
                self._connection.fatal = error.args[0]
                if self._errors.writes_nothing:  # the records are purged; their reports are next
                    return self._callbacks(serve, timeout_s)
            raise self._errors.failed(error) from None
        if self._connection.fatal is not None and len(self._client):
            # librdkafka purged its queue once, after the fatal error. A record that was sent at that moment would stay until message.timeout.ms
            self._client.purge(in_flight=False, blocking=False)
        return served

    def poll(self, timeout_s: float) -> None:
        """Serve the reports that come until one has come, for at most `timeout_s`. Raises ProducerFailed for a fatal error."""
        with self._polls:
            served = self._callbacks("poll", timeout_s)
            self._connection.records_wait(self._client)
        if served:
            self._tell()

    def _tell(self, but: Callable[[], None] | None = None) -> None:
        for listener in self._listeners:
            if listener != but:
                listener()

    # ── transactions, on the producer's thread ────────────────────────────────────────────────────────────────────

    def begin(self) -> None:
        """Begin a transaction."""
        self._transactional(lambda: self._client.begin_transaction())

    def send_offsets(self, offsets: Mapping[Any, int], group: Any, timeout_s: float, metadata: str = "") -> None:
        """Add positions (topic partition -> position) of a consumer's group to the transaction. Raises ProducerFailed."""
        more = (metadata,) if metadata else ()
        told = [ck.TopicPartition(*key, offset, *more) for key, offset in offsets.items()]
        who = f"transactional id {self.settings.transactional_id}"
        self._transactional(
            lambda: bounded(lambda: self._client.send_offsets_to_transaction(told, group, timeout_s), timeout_s, who)
        )

    def commit(self, timeout_s: float) -> None:
        """Send what is queued, and commit. Raises ProducerFailed."""
        self._transactional(lambda: self._client.commit_transaction(timeout_s))
        self.counts.commits += 1
        self._tell()

    def abort(self, timeout_s: float) -> None:
        """Abort the transaction. Raises ProducerFailed."""
        self._transactional(lambda: self._client.abort_transaction(timeout_s))
        self.counts.aborts += 1
        self._tell()

    def why_broken(self) -> ProducerFailed | None:
        """Return the error that leaves nothing but an abort to the open transaction; None if there is none. On the producer's thread.

        A record that is sent then is refused without the reason (_STATE). Another beginning is refused with it."""
        try:
            self._client.begin_transaction()
        except ck.KafkaException as error:
            return None if error.args[0].code() == ck.KafkaError._STATE else self._errors.failed(error)
        return None

    def _transactional(self, call: Callable[[], Any]) -> None:
        for attempt in range(RETRIES):
            try:
                with self._polls:
                    call()
            except ck.KafkaException as error:
                with contextlib.suppress(ProducerFailed):
                    self.poll(0)  # the log says why the broker refuses records
                if not error.args[0].retriable() or attempt == RETRIES - 1:
                    raise self._errors.failed(error, hear=True) from None
            else:
                return
