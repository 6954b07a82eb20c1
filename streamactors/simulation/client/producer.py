"""A producer of a simulated cluster, with the methods of confluent-kafka's Producer that the connector calls.

Owner: one task; delivery reports run inside `poll` and `flush`. Habits of librdkafka that are kept here: `produce` never waits and raises BufferError at
a full queue; a record counts (`len`) until its report was served; `flush` does not linger; a purged record is reported with _PURGE_QUEUE, or
_PURGE_INFLIGHT if the cluster may have it; a record that is not stored in message.timeout.ms is reported with _MSG_TIMED_OUT."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from streamactors.kafka.client.connection import ck
from streamactors.simulation.client.base import FOREVER, SimClient, limit_ms
from streamactors.simulation.client.errors import failure
from streamactors.simulation.client.sending.identity import Identity
from streamactors.simulation.client.sending.partitioner import Partitioner
from streamactors.simulation.client.sending.reports import Reports
from streamactors.simulation.client.sending.sender import Sender
from streamactors.simulation.client.sending.transaction import Transaction
from streamactors.simulation.client.sending.unknown_topics import UnknownTopics

if TYPE_CHECKING:
    from streamactors.simulation.cluster.cluster import SimulatedCluster
    from streamactors.simulation.world.face import World


class SimProducer(SimClient):
    """A producer."""

    kind = "producer"

    def __init__(self, world: World, cluster: SimulatedCluster, properties: Mapping[str, Any]) -> None:
        """Raises KafkaException (_INVALID_ARG) for properties that are not possible."""
        super().__init__(world, cluster, properties)
        given = self.properties
        transactional_id = given.text("transactional.id")
        idempotent = bool(transactional_id) or given.flag("enable.idempotence", False)
        if idempotent and given.acks() != -1:
            text = "Failed to create producer: `acks` must be set to `all` when `enable.idempotence` is true"
            raise failure(ck.KafkaError._INVALID_ARG, text)
        self._reports = Reports(given.flag("delivery.report.only.error", False))
        self._identity = Identity(self.link, transactional=bool(transactional_id)) if idempotent else None
        self._sender = Sender(self.link, given, self._identity, self._reports)
        self._queues = self._sender.queues
        self._counts = cluster.topics.counts
        self._barred: Callable[[], None] | None = None
        """Raises if no record may be sent now; None: any may."""
        self._most = given.count("queue.buffering.max.messages", 100_000)
        self._most_bytes = given.count("message.max.bytes", 1_000_000)
        self._batch_records = given.count("batch.num.messages", 10_000)
        self._batch_bytes = given.count("batch.size", 1_000_000)
        self._partitioner = Partitioner(
            given.text("partitioner", "consistent_random"), given.number("sticky.partitioning.linger.ms", 10),
            world.dice, world.now_ms,
        )  # fmt: skip
        self._transaction: Transaction | None = None
        if transactional_id and self._identity is not None:
            self._transaction = Transaction(self, self._identity, self._sender, self._ended)
            self._barred = self._transaction.require_open
        self._unknown = UnknownTopics(self.link, given, self._reports, self._assigned)

    # --- sending ---

    def produce(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        partition: int = -1,
        callback: Any = None,
        on_delivery: Any = None,
        timestamp: int = 0,
        headers: Any = None,
    ) -> None:
        """Queue a record. Raises BufferError at a full queue, KafkaException for a record that cannot be sent."""
        if self._sender.outstanding + self._unknown.count + self._reports.waiting >= self._most:
            raise BufferError("Local: Queue full")
        if self._barred is not None:
            self._barred()
        size = 12
        if value is not None:
            if type(value) is not bytes:
                value = _bytes(value, "value")
            size += len(value)
        if key is not None:
            if type(key) is not bytes:
                key = _bytes(key, "key")
            size += len(key)
        told = None
        if headers:
            told = _headers(headers)
            size += sum(len(name) + len(text or b"") + 2 for name, text in told)
        if size > self._most_bytes:
            raise failure(ck.KafkaError.MSG_SIZE_TOO_LARGE)
        row = (key, value, timestamp or self.world.wall_ms(), told)
        report = callback if on_delivery is None else on_delivery
        count = self._counts.get(topic, 0)
        if not count:
            self._unknown.add(topic, partition, row, report, size)
            return
        if partition < 0:
            partition = self._partitioner.choose(topic, key, count)
        elif partition >= count:
            raise failure(ck.KafkaError._UNKNOWN_PARTITION)
        self._put((topic, partition), row, report, size)

    def _put(self, where: tuple[str, int], row: Any, report: Any, size: int) -> None:
        queue = self._queues.get(where)
        if queue is None:
            queue = self._sender.queue(where)
        rows = queue.rows
        rows.append(row)
        queue.reports.append(report)
        queue.size += size
        self._sender.outstanding += 1
        if len(rows) == 1 or len(rows) >= self._batch_records or queue.size >= self._batch_bytes:
            self._sender.added(queue)

    def _assigned(self, topic: str, partition: int, row: Any, report: Any, size: int) -> None:
        """A record's topic has become known."""
        count = self._counts.get(topic, 0)
        if partition >= count:
            error = failure(ck.KafkaError._UNKNOWN_PARTITION).args[0]
            self._reports.failed((topic, partition), [row], [report], error)
            return
        if partition < 0:
            partition = self._partitioner.choose(topic, row[0], count)
        self._put((topic, partition), row, report, size)

    def __len__(self) -> int:
        return self._sender.outstanding + self._unknown.count + self._reports.waiting

    # --- reports ---

    def poll(self, timeout: float = 0) -> int:
        """Serve callbacks; wait for the first one. Returns how many there were."""
        served = self._serve()
        if served or timeout == 0:
            return served
        self.world.wait(self._has_work, limit_ms(timeout))
        return self._serve()

    def _has_work(self) -> bool:
        return bool(self._reports) or bool(self.events)

    def _serve(self) -> int:
        return self.serve_events() + (self._reports.serve() if self._reports else 0)

    def flush(self, timeout: float = FOREVER) -> int:
        """Send at once, and serve reports until none is left or the time is over. Returns the number of records without a report."""
        limit = limit_ms(timeout)
        until_ms = None if limit is None else self.world.now_ms() + limit
        while True:
            self._sender.send_all()
            self._serve()
            left_ms = None if until_ms is None else until_ms - self.world.now_ms()
            if not len(self) or (left_ms is not None and left_ms <= 0):
                return len(self)
            if not self.world.wait(self._has_work, left_ms):
                return len(self)

    def purge(self, in_queue: bool = True, in_flight: bool = True, blocking: bool = True) -> None:
        """Drop records; the next poll reports them."""
        self._sender.purge(in_queue, in_flight)
        if in_queue:
            self._unknown.purge()

    # --- transactions ---

    def _transactional(self) -> Transaction:
        if self._transaction is None:
            raise failure(
                ck.KafkaError._NOT_CONFIGURED, "The Transactional API requires transactional.id to be configured"
            )
        return self._transaction

    def init_transactions(self, timeout: float = FOREVER) -> None:
        """Fence earlier producers of this transactional id. Raises KafkaException."""
        self._transactional().init(timeout)

    def begin_transaction(self) -> None:
        """Begin a transaction. Raises KafkaException."""
        self._transactional().begin()

    def send_offsets_to_transaction(
        self, positions: Sequence[Any], group_metadata: Any, timeout: float = FOREVER
    ) -> None:
        """Commit a consumer's positions with the transaction. Raises KafkaException."""
        self._transactional().send_offsets(positions, group_metadata, timeout)

    def commit_transaction(self, timeout: float = FOREVER) -> None:
        """Send what is queued, and commit. Raises KafkaException."""
        self._transactional().commit(timeout, self.flush)

    def abort_transaction(self, timeout: float = FOREVER) -> None:
        """Drop what is queued, and abort. Raises KafkaException."""
        self._transactional().abort(timeout, self.flush)

    def _ended(self, error: Any) -> None:
        """The producer is fenced: its records are dropped, and the next call that serves reports raises the error."""
        self._sender.purge(True, True)
        self.raise_later(error)

    # --- the end ---

    def close(self, timeout: float = FOREVER) -> bool:
        """Flush, and end. Returns True."""
        self.flush(timeout)
        self.link.closed = True
        return True

    def __del__(self) -> None:
        link = getattr(self, "link", None)
        if link is not None:
            link.closed = True


def _bytes(given: Any, what: str) -> bytes:
    if isinstance(given, str):
        return given.encode()
    if isinstance(given, bytes | bytearray | memoryview):
        return bytes(given)
    raise TypeError(f"a record's {what} must be bytes or str, not {type(given).__name__}")


def _headers(given: Any) -> Sequence[tuple[str, bytes | None]]:
    pairs = given.items() if isinstance(given, Mapping) else given
    return tuple((name, None if text is None else _bytes(text, "header")) for name, text in pairs)
