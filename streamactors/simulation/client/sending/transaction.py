"""The transactions of one producer: what has to happen before a record may be sent, and the calls that begin and end them.

Owner: the producer; its calls wait on the caller's task. As librdkafka: a record that was not delivered, or offsets of a member that is none any more,
leave the transaction nothing but an abort; a fenced producer is at its end. The abort gets the producer its next epoch if sequence numbers are missing."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from streamactors.broker.errors import ErrorCode
from streamactors.kafka.client.connection import ck
from streamactors.simulation.client.errors import answered, kafka_error
from streamactors.simulation.client.sending.identity import Identity
from streamactors.simulation.client.sending.sender import Sender
from streamactors.simulation.client.sending.waiting import Key
from streamactors.simulation.cluster.apis.transactions import (
    AddOffsets,
    AddToTransaction,
    CommitInTransaction,
    End,
    Init,
    Producer,
    add_offsets_to_txn,
    add_partitions_to_txn,
    end_txn,
    init_producer_id,
    txn_offset_commit,
)

if TYPE_CHECKING:
    from streamactors.simulation.client.base import SimClient
    from streamactors.simulation.client.link import Api

_BACKOFF_MS: Final = 50.0
_PASSING: Final = frozenset(
    {
        None,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)
_FENCED: Final = frozenset({ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH})
_BROKEN_STATE: Final = frozenset({ErrorCode.INVALID_TXN_STATE, ErrorCode.INVALID_PRODUCER_ID_MAPPING})


class Phase(Enum):
    """Where a transactional producer is."""

    NEW = "init_transactions has not succeeded"
    READY = "no transaction is open"
    OPEN = "a transaction is open"
    ABORTABLE = "the open transaction can only be aborted"
    FATAL = "the producer is fenced"


class Transaction:
    """The transactional side of a producer."""

    def __init__(self, client: SimClient, identity: Identity, sender: Sender, fatal: Callable[[Any], None]) -> None:
        """`fatal` is called with the error after which the producer does nothing any more."""
        self.phase = Phase.NEW
        self._client = client
        self._identity = identity
        self._sender = sender
        self._fatal = fatal
        self._id = client.properties.text("transactional.id")
        self._timeout_ms = client.properties.count("transaction.timeout.ms", 60_000)
        self._error: Any = None
        self._added: set[Key] = set()
        self._wanted: set[Key] = set()
        self._adding = False
        self._has_offsets = False
        sender.may_send = self._may_send
        sender.not_delivered = self._not_delivered

    # --- records ---

    def require_open(self) -> None:
        """Raise KafkaException (_STATE, or _FATAL of a fenced producer) unless records may be sent."""
        if self.phase is Phase.FATAL:
            raise ck.KafkaException(kafka_error(ck.KafkaError._FATAL))
        if self.phase is not Phase.OPEN:
            raise ck.KafkaException(kafka_error(ck.KafkaError._STATE))

    def _may_send(self, key: Key) -> bool:
        if self.phase is not Phase.OPEN:
            return False
        if key in self._added:
            return True
        self._wanted.add(key)
        self._add()
        return False

    def _add(self) -> None:
        if self._adding or not self._wanted or self.phase is not Phase.OPEN:
            return
        self._adding = True
        asked = frozenset(self._wanted)
        link, producer = self._client.link, self._producer()

        def then(error: ErrorCode | None, _answer: Any) -> None:
            self._adding = False
            if producer != self._producer() or self.phase is not Phase.OPEN:
                return
            if error is ErrorCode.NONE:
                self._added |= asked
                self._wanted -= asked
                self._sender.send_all()
                self._add()
            elif error in _PASSING:
                link.later(_BACKOFF_MS, self._add, "partitions of the transaction again")
            else:
                self._refused(error, "Failed to add partitions to transaction")

        link.ask(add_partitions_to_txn, self._coordinator(), AddToTransaction(producer, asked), then)

    def _not_delivered(self, code: ErrorCode | None, error: Any) -> None:
        if code in _FENCED and self.phase in (Phase.OPEN, Phase.ABORTABLE):
            self._refused(code, "ProduceRequest failed")
        elif self.phase is Phase.OPEN:
            self._abort_only(error.code(), f"message(s) failed delivery: {error.str()}")

    # --- errors ---

    def _abort_only(self, code: int, text: str) -> None:
        self.phase = Phase.ABORTABLE
        self._error = kafka_error(code, text, abort=True)

    def _refused(self, error: ErrorCode | None, what: str) -> None:
        """Note what an answer that no other try changes means for the producer."""
        code = ck.KafkaError._FENCED if error in _FENCED else answered(error)
        text = f"{what}: {ck.KafkaError(code).str()}"
        if error in _FENCED or error in _BROKEN_STATE:
            self._end(kafka_error(code, text, fatal=True))
        else:
            self._abort_only(code, text)

    def _end(self, error: Any) -> None:
        self.phase, self._error = Phase.FATAL, error
        self._fatal(error)

    def _require(self, *phases: Phase) -> None:
        if self.phase in phases:
            return
        if self.phase in (Phase.ABORTABLE, Phase.FATAL):
            raise ck.KafkaException(self._error)
        raise ck.KafkaException(kafka_error(ck.KafkaError._STATE, f"Operation not valid in state {self.phase.value}"))

    # --- calls ---

    def init(self, timeout_s: float) -> None:
        """Get an id and epoch, which fences every earlier producer of the same transactional id. Raises KafkaException."""
        self._require(Phase.NEW)
        limit_s = timeout_s if timeout_s >= 0 else 2 * self._timeout_ms / 1_000
        error, answer = self._ask(init_producer_id, Init(self._id, self._timeout_ms), limit_s)
        if error is not ErrorCode.NONE:
            text = f"Failed to initialize Producer ID: {ck.KafkaError(answered(error)).str()}"
            raise ck.KafkaException(kafka_error(answered(error), text, fatal=error in _FENCED))
        self._identity.given(*answer)
        self.phase = Phase.READY

    def begin(self) -> None:
        """Begin a transaction. Raises KafkaException."""
        self._require(Phase.READY)
        self.phase = Phase.OPEN
        self._added.clear()
        self._wanted.clear()
        self._has_offsets = False

    def send_offsets(self, offsets: Any, group: Any, timeout_s: float) -> None:
        """Commit offsets of a group with the transaction. Raises KafkaException."""
        self._require(Phase.OPEN)
        told = tuple(
            (each.topic, each.partition, each.offset, each.metadata or "") for each in offsets if each.offset >= 0
        )
        if not told:
            return
        producer = self._producer()
        until_ms = self._until_ms(timeout_s)
        error, _ = self._ask(add_offsets_to_txn, AddOffsets(producer, group.group_id), until_ms=until_ms)
        if error is ErrorCode.NONE:
            self._has_offsets = True
            asked = CommitInTransaction(
                producer, group.group_id, group.member_id, group.instance_id, group.generation, told
            )
            error, _ = self._ask(txn_offset_commit, asked, until_ms=until_ms, group_id=group.group_id)
        if error is not ErrorCode.NONE:
            self._refused(error, "Failed to add offsets to transaction")
            raise ck.KafkaException(self._error)

    def commit(self, timeout_s: float, flush: Callable[[float], int]) -> None:
        """Send what is queued, and commit. Raises KafkaException: an error to abort for, a fatal one, or _TIMED_OUT to try again."""
        self._require(Phase.OPEN)
        until_ms = self._until_ms(timeout_s)
        left = flush((until_ms - self._client.world.now_ms()) / 1_000)
        self._require(Phase.OPEN)
        if left:
            text = f"Failed to flush all outstanding messages within the API timeout: {left} message(s) remaining"
            raise ck.KafkaException(kafka_error(ck.KafkaError._TIMED_OUT, text, retriable=True))
        self._finish(True, until_ms)

    def abort(self, timeout_s: float, flush: Callable[[float], int]) -> None:
        """Drop what is queued, and abort. Raises KafkaException."""
        self._require(Phase.OPEN, Phase.ABORTABLE)
        until_ms = self._until_ms(timeout_s)
        if self.phase is Phase.OPEN:
            self._abort_only(ck.KafkaError._STATE, "the transaction is being aborted")
        # A batch that is on its way would become part of the next transaction if it arrived after the end of this one.
        sender, world = self._sender, self._client.world
        sender.purge(True, False)
        sender.gives_up = True
        world.wait(sender.is_idle, until_ms - world.now_ms())
        sender.gives_up = False
        sender.purge(True, True)
        flush(0)
        self._finish(False, until_ms)

    def _finish(self, commit: bool, until_ms: float) -> None:
        if self._added or self._wanted or self._has_offsets:
            error, _ = self._ask(end_txn, End(self._producer(), commit), until_ms=until_ms)
            never_begun = not commit and error is ErrorCode.INVALID_TXN_STATE and not self._added
            if error is not ErrorCode.NONE and not never_begun:
                self._refused(error, "Failed to end transaction")
                raise ck.KafkaException(self._error)
        if not commit and (self._identity.gap or self._error.code() in _NEEDS_EPOCH):
            self._bump(until_ms)
        self.phase, self._error = Phase.READY, None
        self._added.clear()
        self._wanted.clear()

    def _bump(self, until_ms: float) -> None:
        now = self._identity
        asked = Init(self._id, self._timeout_ms, now.producer_id, now.producer_epoch)
        error, answer = self._ask(init_producer_id, asked, until_ms=until_ms)
        if error is not ErrorCode.NONE:
            self._refused(error, "Failed to acquire transactional PID")
            raise ck.KafkaException(self._error)
        now.given(*answer)

    # --- asking ---

    def _producer(self) -> Producer:
        return Producer(self._id, self._identity.producer_id, self._identity.producer_epoch)

    def _coordinator(self) -> int:
        return self._client.cluster.transaction_coordinator(self._id)

    def _until_ms(self, timeout_s: float) -> float:
        limit_ms = self._timeout_ms if timeout_s < 0 else timeout_s * 1_000
        return self._client.world.now_ms() + limit_ms

    def _ask(
        self,
        api: Api,
        request: Any,
        timeout_s: float = -1,
        *,
        until_ms: float | None = None,
        group_id: str | None = None,
    ) -> tuple[ErrorCode | None, Any]:
        """Ask until the answer is final. Raises KafkaException (_TIMED_OUT, to be tried again)."""
        client = self._client
        until = self._until_ms(timeout_s) if until_ms is None else until_ms
        while True:
            broker = self._coordinator() if group_id is None else client.cluster.group_coordinator(group_id)
            left_ms = until - client.world.now_ms()
            error, answer = client.call(api, broker, request, max(left_ms, 1.0) / 1_000)
            if error not in _PASSING:
                return error, answer
            if client.world.now_ms() + _BACKOFF_MS >= until:
                raise ck.KafkaException(
                    kafka_error(ck.KafkaError._TIMED_OUT, f"{api.__name__}: no answer in time", retriable=True)
                )
            client.world.sleep(_BACKOFF_MS)


_NEEDS_EPOCH: Final = frozenset({int(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER), int(ErrorCode.TRANSACTION_ABORTABLE)})
