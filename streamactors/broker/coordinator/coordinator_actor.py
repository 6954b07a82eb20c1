"""The coordinator actor of one partition of an internal topic: one message at a time, in order.

Owner: `Coordinators`. A shard holds the keys of the partition. This actor passes messages to the shard only while this broker
leads the partition and the partition has been read since the last failure."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar

from streamactors.actors.messages import Actor, ActorAddress
from streamactors.actors.running.supervision import FailureRecord, Supervision
from streamactors.broker.coordinator.coordinator_log import CoordinatorLog
from streamactors.broker.coordinator.coordinator_messages import (
    Flush,
    Loaded,
    LoadFailed,
    Resign,
    Restart,
    WriteCallbackFailed,
)
from streamactors.broker.errors import ErrorCode

if TYPE_CHECKING:
    from streamactors.actors.dispatching.real_time import Timers

_log = logging.getLogger("streamactors.broker.coordinator")

RESTARTS: Final = Supervision.restart(min_backoff="10ms", max_backoff="10s")


class CoordinatorPhase(Enum):
    """The state of a coordinator. The value is the error that requests are refused with."""

    LOADING = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS  # the partition is being read
    ACTIVE = ErrorCode.NONE  # the shard serves requests
    FAILED = ErrorCode.COORDINATOR_NOT_AVAILABLE  # reading the partition failed; it is retried after a back-off
    RESIGNED = ErrorCode.NOT_COORDINATOR  # another broker leads the partition

    @property
    def error(self) -> ErrorCode:
        return ErrorCode(self.value)


MOVES: Final[Mapping[CoordinatorPhase, frozenset[CoordinatorPhase]]] = {
    CoordinatorPhase.LOADING: frozenset(
        {CoordinatorPhase.ACTIVE, CoordinatorPhase.LOADING, CoordinatorPhase.FAILED, CoordinatorPhase.RESIGNED}
    ),
    CoordinatorPhase.ACTIVE: frozenset({CoordinatorPhase.LOADING, CoordinatorPhase.RESIGNED}),
    CoordinatorPhase.FAILED: frozenset(
        {CoordinatorPhase.ACTIVE, CoordinatorPhase.LOADING, CoordinatorPhase.FAILED, CoordinatorPhase.RESIGNED}
    ),
    CoordinatorPhase.RESIGNED: frozenset({CoordinatorPhase.RESIGNED}),
}


class Shard(Protocol):
    """The keys of one partition. A shard lives from one reading of the partition to the next."""

    name: str
    log: CoordinatorLog

    @property
    def serves(self) -> Mapping[type, Callable[[Any], object]]:
        """The function that serves each type of message."""

    def take_over(self, state: Any) -> None:
        """Take over the state that was read from the log."""

    def close(self) -> None:
        """Answer every parked request with NOT_COORDINATOR and cancel the timers."""


S = TypeVar("S", bound=Shard)
Tell = Callable[[object], object]


class CoordinatorActor(Actor, Generic[S]):  # type: ignore[misc]
    """Owns the keys of one partition.

    `new_shard` makes an empty shard. `load` starts to read the partition, which ends in a message Loaded or LoadFailed. `kept`
    are the types of events that wait until the partition has been read; all other events are dropped until then."""

    def __init__(
        self,
        new_shard: Callable[[], S],
        load: Callable[[], object],
        tell: Tell,
        timers: Timers,
        now_ms: Callable[[], float],
        kept: frozenset[type] = frozenset(),
    ) -> None:
        super().__init__()
        self.phase = CoordinatorPhase.LOADING
        self.shard = new_shard()
        self._new_shard = new_shard
        self._load = load
        self._tell = tell
        self._timers = timers
        self._now_ms = now_ms
        self._kept_types = kept
        self._kept: list[object] = []
        self._failures = FailureRecord()

    def start(self) -> None:
        """Read the partition."""
        self._load()

    def receiveMessage(self, message: Any, _sender: ActorAddress | None) -> None:
        try:
            serve = self.shard.serves.get(type(message)) if self.phase is CoordinatorPhase.ACTIVE else None
            if serve is not None:
                serve(message)
            else:
                self._own(message)
        except Exception as error:  # noqa: BLE001 - the client must be answered; the state may be wrong
            self._refuse(message, ErrorCode.UNKNOWN_SERVER_ERROR)
            self._restart(error)

    def _own(self, message: Any) -> None:
        match message:
            case Flush():
                self.shard.log.flush()
            case Loaded(state) if self.phase in (CoordinatorPhase.LOADING, CoordinatorPhase.FAILED):
                self.shard.take_over(state)
                self._move(CoordinatorPhase.ACTIVE)
                kept, self._kept = self._kept, []
                for each in kept:
                    self.receiveMessage(each, None)
            case LoadFailed(error) if self.phase in (CoordinatorPhase.LOADING, CoordinatorPhase.FAILED):
                self._restart(error, CoordinatorPhase.FAILED)
            case WriteCallbackFailed(log, error) if log is self.shard.log and self.phase is CoordinatorPhase.ACTIVE:
                self._restart(error)
            case Restart() if self.phase in (CoordinatorPhase.LOADING, CoordinatorPhase.FAILED):
                self.shard = self._new_shard()
                self._load()
            case Resign():
                self._move(CoordinatorPhase.RESIGNED)
                self._close_shard()
            case _ if hasattr(message, "refuse"):
                message.refuse(self.phase.error)
            case _ if type(message) in self._kept_types and self.phase is not CoordinatorPhase.RESIGNED:
                self._kept.append(message)

    def _move(self, phase: CoordinatorPhase) -> None:
        assert phase in MOVES[self.phase], f"{self.shard.name} cannot move from {self.phase.name} to {phase.name}"
        self.phase = phase

    def _restart(self, error: BaseException, phase: CoordinatorPhase = CoordinatorPhase.LOADING) -> None:
        """Drop the state after a failure, and read the partition again after the back-off."""
        name = self.shard.name
        if self.phase is CoordinatorPhase.RESIGNED:
            _log.error("%s: %s: %s, after it resigned", name, type(error).__name__, error, exc_info=error)
            return
        verdict = self._failures.judge(RESTARTS, error, self._now_ms())
        delay_ms = verdict.delay_ms
        _log.error(
            "%s: %s: %s; the partition is read again in %.0f ms",
            name,
            type(error).__name__,
            error,
            delay_ms,
            exc_info=error,
        )
        self._move(phase)
        self._close_shard()
        self._timers.call_at(self._now_ms() + delay_ms, lambda: self._tell(Restart()))

    def _close_shard(self) -> None:
        """Append the buffered records, answer the parked requests, and refuse later writes of the shard."""
        for close in (self.shard.log.flush, self.shard.close, self.shard.log.close):
            try:
                close()
            except Exception:  # noqa: BLE001 - the remaining steps must be taken
                _log.exception("%s: closing it failed", self.shard.name)

    def _refuse(self, message: Any, error: ErrorCode) -> None:
        if not hasattr(message, "refuse"):
            return
        try:
            message.refuse(error)
        except Exception:  # noqa: BLE001 - the restart must continue
            _log.exception("%s: a %s cannot be refused", self.shard.name, type(message).__name__)
