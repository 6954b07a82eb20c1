"""A share partition on the broker that leads the partition: loads its state, stores changes, times locks out.

Owner: `SharePartitions`, on the data plane. The rules are in `share/partition/`; this class carries their changes to the share coordinator."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from streamactors.broker.errors import BrokerError, ErrorCode
from streamactors.broker.share.dead_letters.dead_letter import REJECTED, TOO_MANY_DELIVERIES, DeadLetter
from streamactors.broker.share.partition.acknowledging import Acknowledgement, acknowledge
from streamactors.broker.share.partition.releasing import next_lock_end_ms, release_expired, release_member
from streamactors.broker.share.partition.share_partition import Change, GivenUp, SharePartition
from streamactors.broker.share.state.share_asks import ReadState, StateAnswer, WriteState
from streamactors.broker.share.state.share_state import UNINITIALISED, ShareKey
from streamactors.log_limit import log_limited

if TYPE_CHECKING:
    from streamactors.actors.dispatching.timing_wheel import Timer
    from streamactors.broker.replication.hosted_partition import HostedPartition
    from streamactors.broker.share.fetching.share_partitions import SharePartitions

_log = logging.getLogger("streamactors.broker.share")


class Phase(Enum):
    """The life of a share partition on its leader."""

    LOADING = "loading"  # the share coordinator is asked for the state, or the first offset is looked for
    ACTIVE = "active"
    ENDED = "ended"  # fenced, failed, or another broker leads


class Outcome(NamedTuple):
    """The outcome of an operation."""

    error: ErrorCode = ErrorCode.NONE
    message: str | None = None


Then = Callable[[Outcome], object]
_FENCED: Final = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)
_TOLD: Final = {
    ErrorCode.NOT_COORDINATOR: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.GROUP_ID_NOT_FOUND: ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.FENCED_LEADER_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.FENCED_STATE_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
}


def _told(answer: StateAnswer) -> Outcome:
    """Return the error that a member gets when the share coordinator has answered with one."""
    if not answer.error:
        return Outcome()
    return Outcome(_TOLD.get(answer.error, ErrorCode.UNKNOWN_SERVER_ERROR), answer.message)


class LedSharePartition:
    """`records` is the state while the phase is ACTIVE. The key is that of the fetches which wait for it."""

    def __init__(self, owner: SharePartitions, key: ShareKey, partition: HostedPartition) -> None:
        self._owner = owner
        self.key: Final = key
        self.partition: Final = partition
        self.leader_epoch: Final = partition.leader_epoch
        self.phase = Phase.LOADING
        self.failure = Outcome()
        """Why the share partition has ended."""
        self.is_being_read = False
        """Whether a helper thread reads the log for a fetch. Other fetches of the group leave the share partition alone meanwhile."""
        self._records: SharePartition | None = None
        self._state_epoch = 0
        self._timer: Timer | None = None
        self._armed_for_ms = float("inf")

    @property
    def records(self) -> SharePartition:
        """The state of the records, with the group's present limits."""
        records = self._records
        assert records is not None, f"{self.key} is {self.phase.value}"
        records.limits = self._owner.config_of(self.key.group_id).limits
        return records

    @property
    def is_active(self) -> bool:
        return self.phase is Phase.ACTIVE

    # --- loading ---

    def load(self) -> None:
        """Take the share partition over from the share coordinator."""
        self._owner.ask(self.key, ReadState(self.leader_epoch), self._read)

    def _read(self, answer: StateAnswer) -> None:
        if self.phase is not Phase.LOADING:
            return
        if answer.error:
            self.end(_told(answer))
        elif answer.start_offset == UNINITIALISED:
            self._owner.first_offset(
                self.key.group_id, self.partition, lambda start, error: self._found(answer, start, error)
            )
        else:
            self._begin(answer, answer.start_offset)

    def _found(self, answer: StateAnswer, start: int, error: BaseException | None) -> None:
        if self.phase is not Phase.LOADING:
            return
        if error is not None:
            self.end(Outcome(ErrorCode.UNKNOWN_SERVER_ERROR, str(error)))
        else:
            self._begin(answer, start)

    def _begin(self, answer: StateAnswer, start: int) -> None:
        try:
            self._records = SharePartition(self._owner.config_of(self.key.group_id).limits, start, answer.batches)
        except BrokerError as error:
            _log.error("share partition %s: %s", self.key.coordinator_key, error)
            self.end(Outcome(error.code, str(error)))
            return
        self._state_epoch = answer.state_epoch
        self.phase = Phase.ACTIVE
        self._bury(self.records, self.records.given_up())
        self._owner.wake(self.key)

    def end(self, failure: Outcome) -> None:
        """Stop: another leader, or the next fetch, starts from the stored state."""
        if self.phase is Phase.ENDED:
            return
        self.phase = Phase.ENDED
        self.failure = failure
        if self._timer is not None:
            self._timer.cancel()
        self._owner.forget(self)
        self._owner.wake(self.key)

    # --- changes ---

    def acknowledge(self, member: str, acknowledgements: Sequence[Acknowledgement], then: Then) -> None:
        """Carry acknowledgements out; `then` gets the outcome when they are stored."""
        if not self.is_active:
            then(Outcome(ErrorCode.NOT_LEADER_OR_FOLLOWER))
            return
        records = self.records
        try:
            change = acknowledge(records, member, acknowledgements, self._owner.now_ms())
        except BrokerError as error:
            then(Outcome(error.code, str(error)))
            return
        self._store(records, change, then)
        self._owner.wake(self.key)

    def release(self, member: str, then: Then = lambda _: None) -> None:
        """Release everything that a member has acquired."""
        if not self.is_active:
            then(Outcome())
            return
        records = self.records
        self._store(records, release_member(records, member), then)

    def _store(self, records: SharePartition, change: Change, then: Then) -> None:
        if not change.moved:
            then(Outcome())
            return
        write = WriteState(
            self._state_epoch, self.leader_epoch, records.start, tuple(change.batches), records.complete_count()
        )

        def stored(answer: StateAnswer) -> None:
            outcome = _told(answer)
            if outcome.error:
                log_limited(
                    _log, logging.WARNING, (self.key, answer.error),
                    "share partition %s: its state cannot be stored: %s", self.key.coordinator_key, answer.message,
                )  # fmt: skip
            records.finish(change, not outcome.error, self._owner.now_ms())
            then(outcome)
            if outcome.error in _FENCED:
                self.end(outcome)
                return
            if outcome.error:
                self._arm(self._owner.now_ms())  # a lock may have lapsed meanwhile
            if not outcome.error or change.is_final:
                self._bury(records, change.given_up)
            self._owner.wake(self.key)

        self._owner.ask(self.key, write, stored)

    # --- dead letters ---

    def _bury(self, records: SharePartition, given_up: Iterable[GivenUp]) -> None:
        """Write records to the dead letter queue of the group. They are done then, also if that is not possible."""

        def buried(which: GivenUp) -> None:
            if self.is_active:
                self._store(records, records.buried(which), lambda _: None)

        for each in given_up:
            letter = DeadLetter(
                self.key.group_id, self.partition.topic, self.partition.index, *each[:3],
                REJECTED if each.rejected else TOO_MANY_DELIVERIES,
            )  # fmt: skip
            self._owner.bury(letter, self.partition, partial(buried, each))

    def read_ended(self) -> None:
        """The log was read: other fetches may have the share partition."""
        self.is_being_read = False
        self._owner.wake(self.key)

    # --- locks ---

    def locked(self) -> None:
        """Records have been acquired: their lock has an end."""
        self._arm(self._owner.now_ms() + self.records.limits.lock_ms)

    def _arm(self, at_ms: float) -> None:
        if self._timer is None or at_ms < self._armed_for_ms:
            if self._timer is not None:
                self._timer.cancel()
            self._armed_for_ms = at_ms
            self._timer = self._owner.call_at(at_ms, self._due)

    def _due(self) -> None:
        self._timer, self._armed_for_ms = None, float("inf")
        if not self.is_active:
            return
        records = self.records
        self._store(records, release_expired(records, self._owner.now_ms()), lambda _: None)
        end_ms = next_lock_end_ms(records)
        if end_ms is not None:
            self._arm(end_ms)
        self._owner.wake(self.key)
