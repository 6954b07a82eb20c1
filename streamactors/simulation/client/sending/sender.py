"""Sends a producer's records in batches, and sends again what got no answer.

Owner: the producer. An idempotent producer numbers its records, so that the cluster drops what comes twice and refuses what would leave a gap; it has up
to five batches of a partition on their way. Without idempotence a repeated batch is stored twice, and may overtake another, as with librdkafka."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from streamactors.broker.errors import ErrorCode
from streamactors.kafka.client.connection import ck
from streamactors.simulation.client.errors import answered, kafka_error
from streamactors.simulation.client.link import Link
from streamactors.simulation.client.properties import ClientProperties
from streamactors.simulation.client.sending.identity import Identity
from streamactors.simulation.client.sending.reports import Reports
from streamactors.simulation.client.sending.waiting import NOWHERE, Key, Sent, Waiting
from streamactors.simulation.cluster.apis.data import Produce, Produced, produce
from streamactors.simulation.cluster.partitions.batch import NO_PRODUCER, Batch

_IDEMPOTENT_IN_FLIGHT: Final = 5
_TIMEOUT_CHECK_MS: Final = 500.0
_AGAIN: Final = frozenset(
    {
        None,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.CONCURRENT_TRANSACTIONS,
    }
)


class Sender:
    """The partitions that one producer writes to."""

    def __init__(self, link: Link, properties: ClientProperties, identity: Identity | None, reports: Reports) -> None:
        """`identity` is that of an idempotent producer, None for another."""
        self.queues: dict[Key, Waiting] = {}
        self.outstanding = 0
        """Records that are queued or on their way."""
        self.gives_up = False
        """Whether nothing is sent again: the transaction is being aborted."""
        self.may_send: Callable[[Key], bool] = lambda _: True
        """Whether a partition may be written to: a transaction must have it first."""
        self.not_delivered: Callable[[ErrorCode | None, Any], None] = lambda _, __: None
        """Called with the broker's error and that of the report when records are given up."""
        self._link = link
        self._identity = identity
        self._reports = reports
        self._acks = properties.acks()
        self._linger_ms = properties.number("linger.ms", 5)
        self._most_records = properties.count("batch.num.messages", 10_000)
        self._most_bytes = properties.count("batch.size", 1_000_000)
        self._backoff_ms = properties.number("retry.backoff.ms", 100)
        self._timeout_ms = properties.number("message.timeout.ms", 300_000)
        in_flight = properties.count("max.in.flight", 1_000_000)
        self._in_flight = min(in_flight, _IDEMPOTENT_IN_FLIGHT) if identity is not None else in_flight
        self._transactional_id = properties.text("transactional.id") or None
        self._lingers = self._watches = False
        if identity is not None:
            identity.renewed = self._renewed

    # --- collecting ---

    def queue(self, key: Key) -> Waiting:
        """Return the queue of a partition."""
        found = self.queues.get(key)
        if found is None:
            found = self.queues[key] = Waiting(key)
        return found

    def added(self, queue: Waiting) -> None:
        """A record was added to a queue that was empty, or that is full now: it is sent after linger.ms, or at once."""
        if len(queue.rows) >= self._most_records or queue.size >= self._most_bytes:
            self._send(queue)
            return
        queue.began_ms = self._link.world.now_ms()
        self.may_send(queue.key)  # a transaction adds the partition at once
        if not self._lingers:
            self._lingers = True
            self._link.later(self._linger_ms, self._lingered, "linger")
        if not self._watches:
            self._watches = True
            self._link.later(_TIMEOUT_CHECK_MS, self._check_timeouts, "message timeouts")

    def _lingered(self) -> None:
        self._lingers = False
        self.send_all()

    def send_all(self) -> None:
        """Send what is queued, without waiting for more."""
        for queue in self.queues.values():
            self._send(queue)

    # --- sending ---

    def _send(self, queue: Waiting) -> None:
        if not queue.rows and not queue.in_flight:
            return  # a transaction must not add a partition that it does not write to
        if not self.may_send(queue.key) or (self._identity is not None and not self._identity.ready()):
            return
        leader = self._link.cluster.leader_of(*queue.key)
        if any(sent.broker not in (leader, NOWHERE) for sent in queue.in_flight):
            return  # what an old leader was sent has no answer yet, and must not be overtaken
        for sent in queue.in_flight:
            if sent.waits:
                self._transmit(sent)
        while queue.rows and len(queue.in_flight) < self._in_flight:
            self._transmit(self._cut(queue))

    def _cut(self, queue: Waiting) -> Sent:
        rows, reports, size = queue.cut(self._most_records)
        identity = self._identity
        if identity is None:
            batch = Batch(rows, size=size)
        else:
            batch = Batch(
                rows, producer_id=identity.producer_id, producer_epoch=identity.producer_epoch,
                first_sequence=queue.next_sequence, transactional=self._transactional_id is not None, size=size,
            )  # fmt: skip
            queue.next_sequence = (queue.next_sequence + len(rows)) & 0x7FFFFFFF
        sent = Sent(queue.key, batch, reports, queue.began_ms + self._timeout_ms)
        queue.in_flight.append(sent)
        return sent

    def _transmit(self, sent: Sent) -> None:
        link = self._link
        sent.waits, sent.tried, sent.broker = False, True, link.cluster.leader_of(*sent.key)
        asked = Produce(sent.key, sent.batch, self._acks, self._transactional_id)
        link.ask(produce, sent.broker, asked, lambda e, a: self._answered(sent, e, a))

    def _answered(self, sent: Sent, error: ErrorCode | None, answer: Produced | None) -> None:
        queue = self.queues[sent.key]
        sent.broker = NOWHERE
        if sent.settled:
            return
        if error is ErrorCode.NONE and answer is not None:
            self._settle(queue, sent)
            self._reports.delivered(sent.key, sent.batch.rows, sent.reports, answer.base_offset, answer.append_ms)
            self._send(queue)
        elif error in _AGAIN or self._waits_for_another(queue, sent, error):
            if self.gives_up:
                self._give_up(queue, sent, None, kafka_error(ck.KafkaError._PURGE_INFLIGHT))
            elif self._link.world.now_ms() >= sent.deadline_ms:
                self._give_up(queue, sent, None, kafka_error(ck.KafkaError._MSG_TIMED_OUT))
            else:
                sent.waits = True
                self._link.later(self._backoff_ms, lambda: self._send(queue), "send again")
        else:
            self._give_up(queue, sent, error, kafka_error(answered(error)))

    def _waits_for_another(self, queue: Waiting, sent: Sent, error: ErrorCode | None) -> bool:
        """Whether a batch was refused because one before it has not arrived yet."""
        return error is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and queue.in_flight[0] is not sent

    def _settle(self, queue: Waiting, sent: Sent) -> None:
        sent.settled, sent.waits = True, False
        # A settled batch counts until those before it are: the cluster remembers the last five, and must know a repeated one.
        while queue.in_flight and queue.in_flight[0].settled:
            queue.in_flight.popleft()
        self.outstanding -= len(sent.batch.rows)

    def _give_up(self, queue: Waiting, sent: Sent, code: ErrorCode | None, error: Any) -> None:
        self._settle(queue, sent)
        self._reports.failed(sent.key, sent.batch.rows, sent.reports, error)
        if self._identity is not None and sent.batch.producer_id != NO_PRODUCER:
            self._identity.has_gap()
        self.not_delivered(code, error)
        self.renew()
        self._send(queue)

    # --- the identity of an idempotent producer ---

    def renew(self) -> None:
        """After a gap: get another producer id as soon as nothing is on its way."""
        if self._identity is not None:
            self._identity.renew(idle=not any(queue.in_flight for queue in self.queues.values()))

    def _renewed(self) -> None:
        for queue in self.queues.values():
            queue.next_sequence = 0
        self.send_all()

    # --- giving up ---

    def _check_timeouts(self) -> None:
        now_ms = self._link.world.now_ms()
        for queue in self.queues.values():
            for sent in [each for each in queue.in_flight if each.waits and now_ms >= each.deadline_ms]:
                self._give_up(queue, sent, None, kafka_error(ck.KafkaError._MSG_TIMED_OUT))
            if queue.rows and now_ms >= queue.began_ms + self._timeout_ms:
                self._fail_queued(queue, kafka_error(ck.KafkaError._MSG_TIMED_OUT))
        self._watches = self.outstanding > 0
        if self._watches:
            self._link.later(_TIMEOUT_CHECK_MS, self._check_timeouts, "message timeouts")

    def _fail_queued(self, queue: Waiting, error: Any) -> None:
        rows, reports, _ = queue.cut(len(queue.rows))
        self.outstanding -= len(rows)
        self._reports.failed(queue.key, rows, reports, error)
        self.not_delivered(None, error)

    def is_idle(self) -> bool:
        """Whether no batch is on its way."""
        return all(sent.waits or sent.settled for queue in self.queues.values() for sent in queue.in_flight)

    def purge(self, in_queue: bool, in_flight: bool) -> None:
        """Drop records; their reports say so."""
        for queue in self.queues.values():
            if in_flight:
                for sent in [each for each in queue.in_flight if not each.settled]:
                    self._settle(queue, sent)
                    code = ck.KafkaError._PURGE_INFLIGHT if sent.tried else ck.KafkaError._PURGE_QUEUE
                    self._reports.failed(sent.key, sent.batch.rows, sent.reports, kafka_error(code))
                    if self._identity is not None:
                        self._identity.has_gap()
            if in_queue and queue.rows:
                rows, reports, _ = queue.cut(len(queue.rows))
                self.outstanding -= len(rows)
                self._reports.failed(queue.key, rows, reports, kafka_error(ck.KafkaError._PURGE_QUEUE))
        self.renew()

    def partitions(self) -> Iterable[Key]:
        """Return the partitions with records that wait or are on their way."""
        return [key for key, queue in self.queues.items() if queue.rows or queue.in_flight]
