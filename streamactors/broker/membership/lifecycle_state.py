"""The life of a broker in a cluster as one pure state machine: `step(life, event, now_ms) -> (life, effects)`.

Owner: `Member`. Sequence and errors: Apache Kafka's BrokerLifecycleManager (KIP-631).

    CATCHING_UP --log read--> REGISTERING --accepted--> FENCED <--> UNFENCED
    FENCED, UNFENCED --StopAsked--> LEAVING --granted or too late--> ENDED
    FENCED, UNFENCED --STALE_BROKER_EPOCH--> REGISTERING

At most one request is under way. After a fault the same request is sent again, to the controller that leads by then."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final

from streamactors.broker.errors import ErrorCode

SOON_MS: Final = 10.0
LEAVING_MS: Final = 50.0
RETRY_MS: Final = 50.0
RETRY_REGISTRATION_MS: Final = 200.0
NEVER: Final = float("-inf")
_FATAL: Final = frozenset(
    {
        ErrorCode.INCONSISTENT_CLUSTER_ID,
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.INVALID_REGISTRATION,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    }
)


class LifecyclePhase(Enum):
    """Where a broker is in its life."""

    CATCHING_UP = "reads the metadata log up to its end for the first time"
    REGISTERING = "asks for a broker epoch"
    FENCED = "registered; no client is sent here, and it leads nothing"
    UNFENCED = "serves clients"
    LEAVING = "its leaderships move to others"
    ENDED = "sends nothing any more"


@dataclass(frozen=True, slots=True)
class Times:
    """The intervals of a broker's life, in ms."""

    heartbeat_ms: float = 2_000
    session_ms: float = 9_000
    registration_timeout_ms: float = 60_000
    leaving_timeout_ms: float = 300_000


@dataclass(frozen=True, slots=True)
class Life:
    """The state. `due_ms` is when the next request may be sent; None while one is under way or nothing is to be sent."""

    times: Times = field(default_factory=Times)
    phase: LifecyclePhase = LifecyclePhase.CATCHING_UP
    broker_epoch: int = -1
    applied: int = -1  # offset of the last metadata record that the data plane follows
    registered_at: int = -1  # offset of the own registration in the log, -1 before it was applied
    ready: bool = False  # logs are recovered and listeners bound
    due_ms: float | None = None
    asked_since_ms: float = 0.0  # since when this broker tries to register, or to leave
    last_accepted_ms: float = NEVER  # when the last accepted heartbeat was sent
    sent_ms: float = 0.0
    folder_unreported: bool = False
    """A data folder has failed since the last heartbeat was sent."""

    @property
    def lease_end_ms(self) -> float:
        """Until when the controller elects no other leader in this broker's place without its knowledge.

        The session begins for the controller when the heartbeat arrives, and so never before it was sent. A fenced broker has no lease."""
        leads = self.phase in (LifecyclePhase.UNFENCED, LifecyclePhase.LEAVING)
        return self.last_accepted_ms + self.times.session_ms if leads else NEVER


# --- events ---


@dataclass(frozen=True, slots=True)
class CaughtUp:
    """The metadata log was read up to the end that the active controller named first."""


@dataclass(frozen=True, slots=True)
class Applied:
    """The data plane follows the metadata up to `offset`. `registered_at` is the offset at which the own registration under
    the current incarnation was seen, -1 if it was not."""

    offset: int
    registered_at: int = -1


@dataclass(frozen=True, slots=True)
class Ready:
    """Logs are recovered and listeners bound: clients can be served."""


@dataclass(frozen=True, slots=True)
class Registered:
    """The answer to a registration."""

    error: ErrorCode
    broker_epoch: int = -1


@dataclass(frozen=True, slots=True)
class HeartbeatAnswered:
    """The answer to a heartbeat."""

    error: ErrorCode
    is_fenced: bool
    should_shut_down: bool = False


@dataclass(frozen=True, slots=True)
class Unreachable:
    """The request under way got no answer, or there is no active controller."""


@dataclass(frozen=True, slots=True)
class StopAsked:
    """Leave the cluster in order."""


@dataclass(frozen=True, slots=True)
class FolderFailed:
    """A data folder has failed: the controller must be told at once."""


@dataclass(frozen=True, slots=True)
class LifecycleTick:
    """Time has passed."""


Event = (
    CaughtUp | Applied | Ready | Registered | HeartbeatAnswered | Unreachable | StopAsked | FolderFailed | LifecycleTick
)


# --- effects ---


@dataclass(frozen=True, slots=True)
class SendRegistration:
    """Register with the active controller."""


@dataclass(frozen=True, slots=True)
class SendHeartbeat:
    """Send a heartbeat to the active controller."""

    broker_epoch: int
    offset: int
    want_fence: bool
    want_shut_down: bool


@dataclass(frozen=True, slots=True)
class FencingChanged:
    """The controller has fenced or unfenced this broker."""

    fenced: bool


@dataclass(frozen=True, slots=True)
class Fail:
    """The broker cannot join: it must stop with this error."""

    error: ErrorCode


@dataclass(frozen=True, slots=True)
class MayStop:
    """The broker has left the cluster. `granted`: the controller has moved its leaderships."""

    granted: bool


Effect = SendRegistration | SendHeartbeat | FencingChanged | Fail | MayStop


def step(life: Life, event: Event, now_ms: float) -> tuple[Life, list[Effect]]:
    """Return the life after an event, and what is to be done, in order."""
    effects: list[Effect] = []
    if life.phase is LifecyclePhase.ENDED:
        return life, effects
    life = _noted(life, event, now_ms, effects)
    if life.folder_unreported and life.phase is LifecyclePhase.UNFENCED and life.due_ms is not None:
        life = replace(life, due_ms=now_ms)
    return _send_if_due(life, now_ms, effects), effects


def _noted(life: Life, event: Event, now_ms: float, effects: list[Effect]) -> Life:
    match event:
        case CaughtUp() if life.phase is LifecyclePhase.CATCHING_UP:
            return _register(life, now_ms)
        case Applied(offset, registered_at):
            life = replace(life, applied=offset, registered_at=max(life.registered_at, registered_at))
            return _hurried(life, now_ms) if life.phase is LifecyclePhase.FENCED else life
        case Ready():
            return _hurried(replace(life, ready=True), now_ms) if not life.ready else life
        case Registered():
            return _registered(life, event, now_ms, effects)
        case HeartbeatAnswered():
            return _heartbeat_answered(life, event, now_ms, effects)
        case Unreachable():
            return _unreachable(life, now_ms, effects)
        case FolderFailed():
            return replace(life, folder_unreported=True)
        case StopAsked():
            return _leave(life, now_ms, effects)
    return life


def _register(life: Life, now_ms: float) -> Life:
    return replace(
        life, phase=LifecyclePhase.REGISTERING, broker_epoch=-1, registered_at=-1, due_ms=now_ms, asked_since_ms=now_ms
    )


def _hurried(life: Life, now_ms: float) -> Life:
    """The next heartbeat may change something: send it now, unless one is under way."""
    waiting = life.phase is LifecyclePhase.FENCED and life.due_ms is not None and _can_serve(life)
    return replace(life, due_ms=now_ms) if waiting else life


def _can_serve(life: Life) -> bool:
    return life.ready and 0 <= life.registered_at <= life.applied


def _registered(life: Life, answer: Registered, now_ms: float, effects: list[Effect]) -> Life:
    if life.phase is not LifecyclePhase.REGISTERING:
        return life
    if answer.error is ErrorCode.NONE:
        return replace(life, phase=LifecyclePhase.FENCED, broker_epoch=answer.broker_epoch, due_ms=now_ms)
    waited_ms = now_ms - life.asked_since_ms
    # An earlier process of this broker is still known: its session ends within the session timeout.
    if answer.error in _FATAL or waited_ms >= life.times.registration_timeout_ms:
        effects.append(Fail(answer.error))
        return replace(life, phase=LifecyclePhase.ENDED, due_ms=None)
    return replace(life, due_ms=now_ms + RETRY_REGISTRATION_MS)


def _heartbeat_answered(life: Life, answer: HeartbeatAnswered, now_ms: float, effects: list[Effect]) -> Life:
    if life.phase not in (LifecyclePhase.FENCED, LifecyclePhase.UNFENCED, LifecyclePhase.LEAVING):
        return life
    if answer.error is ErrorCode.STALE_BROKER_EPOCH:
        if life.phase is LifecyclePhase.LEAVING:
            return _ended(life, effects, granted=False)
        if life.phase is LifecyclePhase.UNFENCED:
            effects.append(FencingChanged(fenced=True))
        return _register(life, now_ms)
    if answer.error is not ErrorCode.NONE:
        return _unreachable(life, now_ms, effects)
    life = replace(life, last_accepted_ms=life.sent_ms)
    if life.phase is LifecyclePhase.LEAVING:
        if answer.should_shut_down:
            return _ended(life, effects, granted=True)
        return _leaving_on(life, now_ms, effects)
    if answer.is_fenced != (life.phase is LifecyclePhase.FENCED):
        effects.append(FencingChanged(answer.is_fenced))
        life = replace(life, phase=LifecyclePhase.FENCED if answer.is_fenced else LifecyclePhase.UNFENCED)
    if life.phase is LifecyclePhase.UNFENCED:
        return replace(life, due_ms=now_ms + life.times.heartbeat_ms)
    return replace(life, due_ms=now_ms + (SOON_MS if _can_serve(life) else life.times.heartbeat_ms / 4))


def _unreachable(life: Life, now_ms: float, effects: list[Effect]) -> Life:
    if life.phase is LifecyclePhase.CATCHING_UP:
        return life
    if life.phase is LifecyclePhase.REGISTERING:
        if now_ms - life.asked_since_ms >= life.times.registration_timeout_ms:
            effects.append(Fail(ErrorCode.BROKER_NOT_AVAILABLE))
            return replace(life, phase=LifecyclePhase.ENDED, due_ms=None)
        return replace(life, due_ms=now_ms + RETRY_MS)
    if life.phase is LifecyclePhase.LEAVING:
        return _leaving_on(life, now_ms, effects)
    return replace(life, due_ms=now_ms + RETRY_MS)


def _leave(life: Life, now_ms: float, effects: list[Effect]) -> Life:
    if life.phase in (LifecyclePhase.CATCHING_UP, LifecyclePhase.REGISTERING):
        return _ended(life, effects, granted=False)
    if life.phase is LifecyclePhase.LEAVING:
        return life
    due_ms = now_ms if life.due_ms is not None else None
    return replace(life, phase=LifecyclePhase.LEAVING, asked_since_ms=now_ms, due_ms=due_ms)


def _leaving_on(life: Life, now_ms: float, effects: list[Effect]) -> Life:
    if now_ms - life.asked_since_ms >= life.times.leaving_timeout_ms:
        return _ended(life, effects, granted=False)
    return replace(life, due_ms=now_ms + LEAVING_MS)


def _ended(life: Life, effects: list[Effect], *, granted: bool) -> Life:
    effects.append(MayStop(granted))
    return replace(life, phase=LifecyclePhase.ENDED, due_ms=None)


def _send_if_due(life: Life, now_ms: float, effects: list[Effect]) -> Life:
    if life.due_ms is None or now_ms < life.due_ms:
        return life
    if life.phase is LifecyclePhase.REGISTERING:
        effects.append(SendRegistration())
    elif life.phase in (LifecyclePhase.FENCED, LifecyclePhase.UNFENCED, LifecyclePhase.LEAVING):
        effects.append(
            SendHeartbeat(
                life.broker_epoch,
                life.applied,
                want_fence=life.phase is LifecyclePhase.FENCED and not _can_serve(life),
                want_shut_down=life.phase is LifecyclePhase.LEAVING,
            )
        )
    return replace(life, due_ms=None, sent_ms=now_ms, folder_unreported=False)
