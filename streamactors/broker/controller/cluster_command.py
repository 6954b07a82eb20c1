"""The commands that other nodes of the cluster send to the controller, and its answers.

The handlers in `controller_apis/` make commands from requests; the controller's own broker makes them directly. `refused` returns the
answer with one error for everything asked."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import NamedTuple

from streamactors.broker.controller.command import Outcome
from streamactors.broker.errors import ErrorCode
from streamactors.broker.metadata.metadata_record import ControllerRegistration, Endpoint, Feature


class Registered(NamedTuple):
    """The answer to a registration."""

    error: ErrorCode
    broker_epoch: int = -1


@dataclass(frozen=True, slots=True)
class RegisterBroker:
    """A broker has started and wants to join. Answer: Registered."""

    broker_id: int
    cluster_id: str
    incarnation_id: uuid.UUID
    endpoints: tuple[Endpoint, ...]
    features: tuple[Feature, ...]
    rack: str | None
    log_dirs: tuple[uuid.UUID, ...]
    previous_epoch: int = -1

    def refused(self, outcome: Outcome) -> Registered:
        return Registered(outcome.code)


class Beat(NamedTuple):
    """The answer to a heartbeat."""

    error: ErrorCode
    is_caught_up: bool = False
    is_fenced: bool = True
    should_shut_down: bool = False


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """A broker is alive, and has applied the metadata up to `offset`. Answer: Beat."""

    broker_id: int
    broker_epoch: int
    offset: int
    want_fence: bool
    want_shut_down: bool
    offline: tuple[uuid.UUID, ...] = ()
    """The data folders that have failed."""
    cordoned: tuple[uuid.UUID, ...] | None = None
    """The data folders that get no new replica. None: the broker does not say."""

    def refused(self, outcome: Outcome) -> Beat:
        return Beat(outcome.code)


class ReplicasAssigned(NamedTuple):
    """The answer to AssignReplicas: an error for the request, or one for each assignment, in order."""

    error: ErrorCode
    codes: tuple[ErrorCode, ...] = ()


@dataclass(frozen=True, slots=True)
class AssignReplicas:
    """A broker has put replicas into data folders: (folder, topic id, partition) each. Answer: ReplicasAssigned."""

    broker_id: int
    broker_epoch: int
    assignments: tuple[tuple[uuid.UUID, uuid.UUID, int], ...]

    def refused(self, outcome: Outcome) -> ReplicasAssigned:
        return ReplicasAssigned(outcome.code)


@dataclass(frozen=True, slots=True)
class FoldersFailed:
    """Data folders of the controller's own broker have failed. Answer: an Outcome."""

    broker_id: int
    offline: tuple[uuid.UUID, ...]

    def refused(self, outcome: Outcome) -> Outcome:
        return outcome


@dataclass(frozen=True, slots=True)
class FoldersCordoned:
    """The cordoned data folders of the controller's own broker; the heartbeats of other brokers name theirs. Answer: an Outcome."""

    broker_id: int
    cordoned: tuple[uuid.UUID, ...]

    def refused(self, outcome: Outcome) -> Outcome:
        return outcome


@dataclass(frozen=True, slots=True)
class ProcessEnded:
    """The process of a broker has ended: its heartbeat connection is closed, and no process listens at its address. Answer: an Outcome."""

    broker_id: int
    broker_epoch: int

    def refused(self, outcome: Outcome) -> Outcome:
        return outcome


@dataclass(frozen=True, slots=True)
class ElectLeaders:
    """Elect preferred leaders, or any replica if `unclean`. `partitions` None means all. Answer: ((topic, partition), Outcome) each."""

    partitions: tuple[tuple[str, int], ...] | None
    unclean: bool = False

    def refused(self, outcome: Outcome) -> list[tuple[tuple[str, int], Outcome]]:
        return [(each, outcome) for each in self.partitions or ()]


class Move(NamedTuple):
    """The replicas that a partition is to have; None cancels a move in progress."""

    topic: str
    partition: int
    replicas: tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class Reassign:
    """Move replicas between brokers, each partition independently of the others. Answer: one Outcome per move, in order."""

    moves: tuple[Move, ...]
    allow_other_factor: bool = True

    def refused(self, outcome: Outcome) -> list[Outcome]:
        return [outcome for _ in self.moves]


@dataclass(frozen=True, slots=True)
class RegisterController:
    """A controller has started. Answer: an Outcome."""

    registration: ControllerRegistration

    def refused(self, outcome: Outcome) -> Outcome:
        return outcome


@dataclass(frozen=True, slots=True)
class UnregisterBroker:
    """Forget a broker that will not return. Answer: an Outcome."""

    broker_id: int

    def refused(self, outcome: Outcome) -> Outcome:
        return outcome


@dataclass(frozen=True, slots=True)
class UnregisterController:
    """Forget a controller that will not return. Answer: an Outcome."""

    controller_id: int

    def refused(self, outcome: Outcome) -> Outcome:
        return outcome
