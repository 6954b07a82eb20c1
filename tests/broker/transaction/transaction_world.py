"""Transactional ids under a virtual clock, over partitions that are simulated by the log's own producer state.

Writes of the coordinator wait in `writes`, markers wait in `markers` until the test delivers them; a crash forgets both and
reads the coordinator's log again, through its record format, under a new coordinator epoch."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, replace
from typing import Any

from streamactors.broker.errors import BrokerError, ErrorCode
from streamactors.broker.log.producers.producer_state import BatchMetadata, ProducerState
from streamactors.broker.transaction.transaction import BUMPS_EPOCH, TopicPartition, Transaction
from streamactors.broker.transaction.transaction_events import (
    AddPartitions,
    EndTransaction,
    Event,
    Forget,
    InitAnswer,
    InitProducerId,
    MarkersWritten,
    NeedProducerId,
    SendMarkers,
    TransactionAnswer,
    TransactionLoaded,
    VerifyPartitions,
    Write,
)
from streamactors.broker.transaction.transaction_record import decode_transaction_value, encode_transaction_value
from streamactors.broker.transaction.transaction_state import step

E = ErrorCode
P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


class DataPartition:
    """One partition that transactions write to."""

    def __init__(self) -> None:
        self.producers = ProducerState()
        self.records: list[tuple[int, object]] = []  # (offset, value) of data
        self.markers: list[tuple[int, int, int, bool]] = []  # (offset, producer id, epoch, committed)
        self.open: dict[int, list[object]] = {}  # values of each producer's open transaction
        self.committed: list[object] = []
        self.aborted: list[object] = []
        self.first_open: dict[int, int] = {}
        self.end = 0

    def write(self, producer_id: int, epoch: int, sequence: int, value: object) -> None:
        """Append one transactional record. Raises BrokerError."""
        self.producers.check(producer_id, epoch, sequence, sequence, True)
        self.producers.append(producer_id, epoch, BatchMetadata(sequence, sequence, self.end, self.end, 0), True, 0)
        self.records.append((self.end, value))
        self.open.setdefault(producer_id, []).append(value)
        self.first_open.setdefault(producer_id, self.end)
        self.end += 1

    def mark(self, producer_id: int, epoch: int, coordinator_epoch: int, committed: bool, version: int) -> ErrorCode:
        if version >= BUMPS_EPOCH and self.producers.marker_is_stale(producer_id, epoch):
            return E.INVALID_PRODUCER_EPOCH
        try:
            self.producers.check_marker(producer_id, epoch, coordinator_epoch)
        except BrokerError as error:
            return error.code
        self.producers.append_marker(producer_id, epoch, coordinator_epoch, committed, self.end, 0, 0)
        self.markers.append((self.end, producer_id, epoch, committed))
        self.end += 1
        self.producers.high_watermark_moved(self.end)
        self.first_open.pop(producer_id, None)
        (self.committed if committed else self.aborted).extend(self.open.pop(producer_id, []))
        return E.NONE

    @property
    def last_stable_offset(self) -> int:
        first = self.producers.first_unstable()
        return self.end if first is None else first


@dataclass
class World:
    now_ms: int = 1_000
    version: int = 0  # the cluster's transaction.version, and the protocol of requests without one of their own
    auto: bool = True  # the log answers and markers arrive by themselves
    ids: dict[str, Transaction] = field(default_factory=dict)
    answers: dict[object, Any] = field(default_factory=dict)
    writes: list[tuple[str, Write]] = field(default_factory=list)
    markers: list[tuple[str, int, SendMarkers, TopicPartition]] = field(default_factory=list)
    log: dict[str, bytes | None] = field(default_factory=dict)
    partitions: dict[TopicPartition, DataPartition] = field(default_factory=dict)
    coordinator_epoch: int = 0
    decisions: list[tuple[str, int, int, bool]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._count = itertools.count(1)
        self._producer_ids = itertools.count(1_000)
        self._owed: dict[tuple[str, int, int], set[TopicPartition]] = {}

    # -- the coordinator -----------------------------------------------------------------------------------------------

    def step(self, transactional_id: str, event: Event) -> None:
        txn, effects = step(self.ids[transactional_id], event, self.now_ms)
        self.ids[transactional_id] = txn
        for effect in effects:
            match effect:
                case TransactionAnswer(reply_to, response):
                    assert reply_to not in self.answers, f"{reply_to} answered twice"
                    self.answers[reply_to] = response
                case Write():
                    self.writes.append((transactional_id, effect))
                case SendMarkers(producer_id, epoch, commit, partitions, _):
                    self.decisions.append((transactional_id, producer_id, epoch, commit))
                    self._owed[transactional_id, producer_id, epoch] = set(partitions)
                    for partition in sorted(partitions):
                        self.markers.append((transactional_id, self.coordinator_epoch, effect, partition))
                    self._check_marked(transactional_id, producer_id, epoch)
                case NeedProducerId(again):
                    self.step(transactional_id, replace(again, spare_producer_id=next(self._producer_ids)))
                case Forget():
                    del self.ids[transactional_id]
        if self.auto:
            self.settle()

    def written(self, error: ErrorCode = E.NONE) -> None:
        transactional_id, write = self.writes.pop(0)
        if error is E.NONE:
            dead = write.transaction.state.name == "DEAD"
            self.log[transactional_id] = (
                None if dead else encode_transaction_value(write.transaction, max(self.version, 1))
            )
        if transactional_id in self.ids:
            self.step(transactional_id, replace(write.then, error=error))

    def deliver_marker(self, at: int = 0) -> ErrorCode:
        transactional_id, coordinator_epoch, send, partition = self.markers.pop(at)
        error = self.partition(partition).mark(
            send.producer_id, send.producer_epoch, coordinator_epoch, send.commit, send.transaction_version
        )
        key = (transactional_id, send.producer_id, send.producer_epoch)
        if coordinator_epoch == self.coordinator_epoch:
            self._owed.get(key, set()).discard(partition)
            self._check_marked(*key)
        return error

    def _check_marked(self, transactional_id: str, producer_id: int, epoch: int) -> None:
        key = (transactional_id, producer_id, epoch)
        if self._owed.get(key) == set():
            del self._owed[key]
            if transactional_id in self.ids:
                self.step(transactional_id, MarkersWritten(producer_id, epoch))

    def settle(self) -> None:
        while self.writes or self.markers:
            if self.writes:
                self.written()
            else:
                self.deliver_marker()

    def crash(self) -> None:
        """Another coordinator takes over; what the old one had sent may still arrive, under its old epoch."""
        self.coordinator_epoch += 1
        self.writes.clear()
        self._owed.clear()
        self.ids = {i: decode_transaction_value(i, v) for i, v in self.log.items() if v is not None}
        for transactional_id in list(self.ids):
            self.step(transactional_id, TransactionLoaded())

    def partition(self, name: TopicPartition) -> DataPartition:
        return self.partitions.setdefault(name, DataPartition())

    # -- requests ------------------------------------------------------------------------------------------------------

    def token(self, name: str) -> str:
        return f"{name}-{next(self._count)}"

    def init(self, transactional_id: str = "tx", *, timeout_ms: int = 60_000, claim: tuple[int, int] = (-1, -1)) -> str:
        token = self.token("init")
        if transactional_id not in self.ids:
            self.ids[transactional_id] = Transaction(transactional_id, next(self._producer_ids))
        self.step(transactional_id, InitProducerId(token, timeout_ms, *claim, cluster_version=self.version))
        return token

    def add(
        self,
        producer: tuple[int, int],
        *partitions: TopicPartition,
        transactional_id: str = "tx",
        version: int | None = None,
    ) -> str:
        token = self.token("add")
        version = self.version if version is None else version
        self.step(transactional_id, AddPartitions(token, *producer, frozenset(partitions), client_version=version))
        return token

    def verify(self, producer: tuple[int, int], *partitions: TopicPartition, transactional_id: str = "tx") -> dict:
        token = self.token("verify")
        self.step(transactional_id, VerifyPartitions(token, *producer, frozenset(partitions)))
        return dict(self.answers[token].errors)

    def end(
        self, producer: tuple[int, int], commit: bool, transactional_id: str = "tx", *, version: int | None = None
    ) -> str:
        token = self.token("end")
        version = self.version if version is None else version
        self.step(transactional_id, EndTransaction(token, *producer, commit, client_version=version))
        return token

    def next_producer(self, token: str) -> tuple[int, int]:
        """Return the producer id and epoch in the answer to an end."""
        answer = self.answers[token]
        assert answer.error is E.NONE
        return answer.producer_id, answer.producer_epoch

    def error(self, token: str) -> ErrorCode:
        error = self.answers[token].error
        assert isinstance(error, ErrorCode)
        return error

    def producer(self, transactional_id: str = "tx", **options: Any) -> tuple[int, int]:
        answer = self.answers[self.init(transactional_id, **options)]
        assert isinstance(answer, InitAnswer)
        assert answer.error is E.NONE
        return answer.producer_id, answer.producer_epoch
