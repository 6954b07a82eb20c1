"""Which brokers are alive, as one pure state machine: registration, heartbeats, fencing and controlled shutdown.

Owner: the controller's `Duties`. Each method gets the image and the time, and returns a `PlannedChange`: the records that must be durable before
the answer may be sent. Rules: Apache Kafka's ClusterControlManager and BrokerHeartbeatManager (KIP-631).

The sessions are in memory only. A controller that starts gives every registered broker a new session."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from streamactors.broker.controller.cluster_command import Beat, Heartbeat, ProcessEnded, RegisterBroker, Registered
from streamactors.broker.controller.command import Outcome, PlannedChange
from streamactors.broker.controller.rules.election_rules import Unclean, with_broker, without_broker, without_folders
from streamactors.broker.controller.rules.folder_rules import cordoned
from streamactors.broker.errors import ErrorCode
from streamactors.broker.metadata.image import METADATA_VERSION, MetadataImage
from streamactors.broker.metadata.metadata_record import (
    BrokerRegistration,
    BrokerRegistrationChange,
    Feature,
    MetadataRecord,
)
from streamactors.broker.quorum.voter_set import RESERVED_IDS

FENCED: Final = 1
UNFENCED: Final = -1


@dataclass(slots=True)
class Session:
    """What the controller knows of a live broker."""

    broker_epoch: int
    heard_ms: float
    offset: int = -1  # of the metadata that the broker has applied
    leaving_since: int = -1  # offset at which the controlled shutdown began, -1 without one


class Sessions:
    """The sessions by broker id. The controller's own broker has none: it lives and dies with the controller."""

    def __init__(self, own_id: int, cluster_id: str, timeout_ms: float) -> None:
        self._own_id = own_id
        self._cluster_id = cluster_id
        self._timeout_ms = timeout_ms
        self._sessions: dict[int, Session] = {}
        self._fenced_at: dict[int, int] = {}
        """The offset of the record with which each fenced broker was fenced, or a later one."""

    def start(self, image: MetadataImage, now_ms: float) -> list[int]:
        """Give every broker that is registered and not fenced a new session; return their ids. Sessions of an earlier leadership are over."""
        self._sessions.clear()
        self._fenced_at = {each.broker_id: image.offset for each in image.brokers.values() if each.fenced}
        for broker in image.brokers.values():
            if not broker.fenced and broker.broker_id != self._own_id:
                self._sessions[broker.broker_id] = Session(broker.broker_epoch, now_ms)
        return list(self._sessions)

    @property
    def next_end_ms(self) -> float | None:
        """When the next session ends unless its broker is heard; None without sessions."""
        heard = min((each.heard_ms for each in self._sessions.values()), default=None)
        return None if heard is None else heard + self._timeout_ms

    # --- registration ---

    def register(
        self, image: MetadataImage, command: RegisterBroker, next_offset: int, now_ms: float, unclean: Unclean
    ) -> PlannedChange:
        """Register a broker under a new incarnation; it is fenced until its heartbeats say that it has caught up.

        `next_offset` is the offset of the next record, and so the new broker epoch."""
        error = self._registration_error(image, command, now_ms)
        if error:
            return PlannedChange([], Registered(error))
        known = image.brokers.get(command.broker_id)
        if known is not None and known.incarnation_id == command.incarnation_id:
            # The answer to an earlier attempt was lost.
            self._sessions[command.broker_id] = Session(known.broker_epoch, now_ms)
            return PlannedChange([], Registered(ErrorCode.NONE, known.broker_epoch))
        records: list[MetadataRecord] = []
        if known is not None and known.broker_epoch != command.previous_epoch:
            # It did not stop in order: its logs may have lost records, so it must leave every ISR that has other members.
            records += without_broker(image, command.broker_id, unclean, crashed=True)
        epoch = next_offset
        records.append(
            BrokerRegistration(
                broker_id=command.broker_id,
                incarnation_id=command.incarnation_id,
                broker_epoch=epoch,
                endpoints=command.endpoints,
                features=command.features,
                rack=command.rack,
                fenced=True,
                log_dirs=command.log_dirs,
            )
        )
        self._sessions[command.broker_id] = Session(epoch, now_ms)
        return PlannedChange(records, Registered(ErrorCode.NONE, epoch))

    def _registration_error(self, image: MetadataImage, command: RegisterBroker, now_ms: float) -> ErrorCode:
        if command.cluster_id != self._cluster_id:
            return ErrorCode.INCONSISTENT_CLUSTER_ID
        if command.broker_id < 0 or not command.endpoints:
            return ErrorCode.INVALID_REGISTRATION
        others = (each for each in image.brokers.values() if each.broker_id != command.broker_id)
        if not command.log_dirs or _not_usable(command.log_dirs) or _shared(command.log_dirs, others):
            return ErrorCode.INVALID_REGISTRATION
        if not command.features:
            return ErrorCode.INVALID_REGISTRATION
        if any(not _supports(command.features, *each) for each in image.features.items()):
            return ErrorCode.UNSUPPORTED_VERSION
        known = image.brokers.get(command.broker_id)
        if known is None or known.incarnation_id == command.incarnation_id:
            return ErrorCode.NONE
        session = self._sessions.get(command.broker_id)
        alive = session is not None and now_ms - session.heard_ms <= self._timeout_ms
        if command.broker_id == self._own_id or (alive and not known.fenced):
            return ErrorCode.DUPLICATE_BROKER_REGISTRATION
        return ErrorCode.NONE

    # --- heartbeats ---

    def heartbeat(
        self, image: MetadataImage, beat: Heartbeat, next_offset: int, now_ms: float, unclean: Unclean
    ) -> PlannedChange:
        """Note that a broker is alive; unfence, fence or release it as it wants, if that is possible now."""
        broker = image.brokers.get(beat.broker_id)
        if broker is None or broker.broker_epoch != beat.broker_epoch or beat.broker_id == self._own_id:
            return PlannedChange([], Beat(ErrorCode.STALE_BROKER_EPOCH))
        session = self._sessions.setdefault(beat.broker_id, Session(beat.broker_epoch, now_ms))
        session.heard_ms, session.offset = now_ms, beat.offset
        # A broker that has not applied the records which fenced it still takes itself for the leader of its partitions.
        caught_up = beat.offset >= max(broker.broker_epoch, self._fenced_at.get(beat.broker_id, -1))
        changed = cordoned(image, broker, beat.cordoned)
        planned = self._wanted(image, broker, session, beat, next_offset + len(changed), unclean, caught_up=caught_up)
        return planned._replace(records=[*changed, *planned.records])

    def _wanted(
        self,
        image: MetadataImage,
        broker: BrokerRegistration,
        session: Session,
        beat: Heartbeat,
        next_offset: int,
        unclean: Unclean,
        *,
        caught_up: bool,
    ) -> PlannedChange:
        """Unfence, fence or release a broker as its heartbeat wants."""
        lost = without_folders(image, broker, beat.offline, unclean)
        if lost:  # what else the broker wants, its next heartbeat says again
            return PlannedChange(lost, Beat(ErrorCode.NONE, caught_up, is_fenced=broker.fenced))
        if beat.want_shut_down:
            return self._leave(image, broker, session, next_offset, unclean)
        if beat.want_fence:
            records = [] if broker.fenced else self._fence(image, broker, unclean)
            return PlannedChange(records, Beat(ErrorCode.NONE, caught_up, is_fenced=True))
        if broker.fenced and caught_up:
            unfenced = BrokerRegistrationChange(broker.broker_id, broker.broker_epoch, fenced=UNFENCED)
            elected = with_broker(image, broker.broker_id, unclean)
            return PlannedChange([unfenced, *elected], Beat(ErrorCode.NONE, caught_up, is_fenced=False))
        return PlannedChange([], Beat(ErrorCode.NONE, caught_up, is_fenced=broker.fenced))

    def _leave(
        self, image: MetadataImage, broker: BrokerRegistration, session: Session, next_offset: int, unclean: Unclean
    ) -> PlannedChange:
        """Move the leaderships of a broker that wants to stop; let it go when every other live broker knows the new leaders."""
        if broker.fenced:
            self._sessions.pop(broker.broker_id, None)
            return PlannedChange([], Beat(ErrorCode.NONE, True, is_fenced=True, should_shut_down=True))
        if not broker.in_controlled_shutdown:
            leaving = BrokerRegistrationChange(broker.broker_id, broker.broker_epoch, in_controlled_shutdown=1)
            records = [leaving, *without_broker(image, broker.broker_id, unclean)]
            session.leaving_since = next_offset + len(records) - 1
            return PlannedChange(records, Beat(ErrorCode.NONE, True, is_fenced=False))
        others = [
            each.offset
            for broker_id, each in self._sessions.items()
            if broker_id != broker.broker_id and broker_id in image.brokers and not image.brokers[broker_id].fenced
        ]
        if min(others, default=session.leaving_since) < session.leaving_since:
            return PlannedChange([], Beat(ErrorCode.NONE, True, is_fenced=False))
        self._sessions.pop(broker.broker_id)
        return PlannedChange(
            self._fence(image, broker, unclean), Beat(ErrorCode.NONE, True, is_fenced=True, should_shut_down=True)
        )

    # --- the end of a session ---

    def expire(self, image: MetadataImage, now_ms: float, unclean: Unclean) -> tuple[int, PlannedChange] | None:
        """Return one broker whose session has ended, with the records that fence it; None if no session has ended."""
        for broker_id, session in self._sessions.items():
            if now_ms - session.heard_ms > self._timeout_ms:
                return broker_id, self._end(image, broker_id, unclean)
        return None

    def process_ended(self, image: MetadataImage, command: ProcessEnded, unclean: Unclean) -> PlannedChange:
        """Fence a broker whose process has ended, if it is still the registered one."""
        session = self._sessions.get(command.broker_id)
        if session is None or session.broker_epoch != command.broker_epoch:
            return PlannedChange([], Outcome(ErrorCode.STALE_BROKER_EPOCH))
        return self._end(image, command.broker_id, unclean)

    def _end(self, image: MetadataImage, broker_id: int, unclean: Unclean) -> PlannedChange:
        self._sessions.pop(broker_id)
        broker = image.brokers.get(broker_id)
        records = [] if broker is None or broker.fenced else self._fence(image, broker, unclean)
        return PlannedChange(records, Outcome())

    def _fence(self, image: MetadataImage, broker: BrokerRegistration, unclean: Unclean) -> list[MetadataRecord]:
        """Return the changes of partitions first, then that of the registration: the order of Apache Kafka."""
        changed = without_broker(image, broker.broker_id, unclean)
        self._fenced_at[broker.broker_id] = image.offset + len(changed) + 1
        return [*changed, BrokerRegistrationChange(broker.broker_id, broker.broker_epoch, fenced=FENCED)]


def _not_usable(log_dirs: tuple[uuid.UUID | None, ...]) -> bool:
    """Whether an id is missing, repeated, or one of those that Apache Kafka reserves for replicas without a folder."""
    return len(set(log_dirs)) < len(log_dirs) or any(each is None or each.int < RESERVED_IDS for each in log_dirs)


def _shared(log_dirs: tuple[object, ...], others: Iterable[BrokerRegistration]) -> bool:
    return any(each in other.log_dirs for other in others for each in log_dirs)


def _supports(features: Iterable[Feature], name: str, level: int) -> bool:
    if name == METADATA_VERSION or level:
        return any(each.name == name and each.min_level <= level <= each.max_level for each in features)
    return True
