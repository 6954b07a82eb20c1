"""The commands for a controller in another process as requests of Kafka's protocol, and its answers.

Owner: `WireChannel`, on the thread of the membership's dispatcher. Each command has one form; the handlers in `controller_apis/` are the other side.
A request without an answer is the refusal of its command with NOT_CONTROLLER."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NamedTuple

from streamactors.broker.controller.cluster_command import (
    AssignReplicas,
    Beat,
    Heartbeat,
    RegisterBroker,
    RegisterController,
    Registered,
    ReplicasAssigned,
)
from streamactors.broker.controller.command import (
    AllocateProducerIds,
    Command,
    CreateTopics,
    Outcome,
    ProducerIdBlock,
    TopicCreated,
)
from streamactors.broker.errors import ErrorCode
from streamactors.broker.metadata.metadata_record import Endpoint, Feature
from streamactors.broker.network.outgoing.channel import Channel
from streamactors.broker.network.outgoing.channel_answer import ChannelAnswer
from streamactors.broker.replication.isr_requests import AlterPartition, IsrOutcome, PartitionsAltered

_log = logging.getLogger("streamactors.broker.membership")

CREATE_TIMEOUT_MS: Final = 30_000

Then = Callable[[Any], object]
Body = Mapping[str, Any]


class ForwardAnswer(NamedTuple):
    """The answer to Forwarded: the frame of the client's answer after its size, or why there is none."""

    error: ErrorCode
    response: bytes | None = None
    message: str | None = None
    """Why the controller cannot be reached; None if it has refused the request."""


class Forwarded(NamedTuple):
    """A request of a client for the active controller (KIP-590). Answer: ForwardAnswer.

    `serve` serves it where the controller is in this process: the client is answered, and only a refusal reaches the function that it gets."""

    data: bytes
    principal: bytes
    host: bytes
    serve: Callable[[Callable[[ForwardAnswer], object]], object]

    def refused(self, outcome: Outcome) -> ForwardAnswer:
        return ForwardAnswer(outcome.code, None, outcome.message)


@dataclass(frozen=True, slots=True)
class Form:
    """One command on the wire: (key, version), its request, and the answer to it."""

    api: tuple[int, int]
    body: Callable[[Any], Body]
    answer: Callable[[Any, Any], Any]  # (command, decoded response)
    api_of: Callable[[Any], tuple[int, int]] | None = None
    """The API of one command, where it depends on the command."""


def _registration(command: RegisterBroker) -> Body:
    return {
        "broker_id": command.broker_id,
        "cluster_id": command.cluster_id,
        "incarnation_id": command.incarnation_id,
        "listeners": _listeners(command.endpoints),
        "features": _features(command.features),
        "rack": command.rack,
        "log_dirs": list(command.log_dirs),
        "previous_broker_epoch": command.previous_epoch,
    }


def _listeners(endpoints: Iterable[Endpoint]) -> list[dict[str, Any]]:
    return [
        {"name": each.name, "host": each.host, "port": each.port, "security_protocol": each.protocol}
        for each in endpoints
    ]


def _features(features: Iterable[Feature]) -> list[dict[str, Any]]:
    return [
        {"name": each.name, "min_supported_version": each.min_level, "max_supported_version": each.max_level}
        for each in features
    ]


def _registered(_: RegisterBroker, value: Any) -> Registered:
    return Registered(ErrorCode(value.error_code), value.broker_epoch)


def _heartbeat(command: Heartbeat) -> Body:
    return {
        "broker_id": command.broker_id,
        "broker_epoch": command.broker_epoch,
        "current_metadata_offset": command.offset,
        "want_fence": command.want_fence,
        "want_shut_down": command.want_shut_down,
        "offline_log_dirs": list(command.offline),
        **({} if command.cordoned is None else {"cordoned_log_dirs": list(command.cordoned)}),
    }


def _heartbeat_api(command: Heartbeat) -> tuple[int, int]:
    """Controllers of a metadata.version with cordoned folders have version 2; an older one has not."""
    return 63, 1 if command.cordoned is None else 2


def _beat(_: Heartbeat, value: Any) -> Beat:
    return Beat(ErrorCode(value.error_code), is_fenced=value.is_fenced, should_shut_down=value.should_shut_down)


def _controller_registration(command: RegisterController) -> Body:
    registration = command.registration
    return {
        "controller_id": registration.controller_id,
        "incarnation_id": registration.incarnation_id,
        "zk_migration_ready": registration.zk_migration_ready,
        "listeners": _listeners(registration.endpoints),
        "features": _features(registration.features),
    }


def _outcome(_: Command, value: Any) -> Outcome:
    return Outcome(ErrorCode(value.error_code))


def _topics(command: CreateTopics) -> Body:
    return {
        "topics": [
            {
                "name": topic.name,
                "num_partitions": topic.partitions,
                "replication_factor": topic.replication_factor,
                "configs": [{"name": name, "value": value} for name, value in topic.configs],
                "assignments": (),
            }
            for topic in command.topics
        ],
        "timeout_ms": CREATE_TIMEOUT_MS,
        "validate_only": command.validate_only,
    }


def _created(_: CreateTopics, value: Any) -> dict[str, TopicCreated]:
    return {
        topic.name: TopicCreated(
            Outcome(ErrorCode(topic.error_code), topic.error_message),
            topic.topic_id,
            topic.num_partitions,
            topic.replication_factor,
        )
        for topic in value.topics
    }


def _producer_ids(command: AllocateProducerIds) -> Body:
    broker_id, broker_epoch = command.broker or (-1, -1)
    return {"broker_id": broker_id, "broker_epoch": broker_epoch}


def _allocated(command: AllocateProducerIds, value: Any) -> ProducerIdBlock | Outcome:
    if value.error_code:
        return command.refused(Outcome(ErrorCode(value.error_code)))
    return ProducerIdBlock(value.producer_id_start, value.producer_id_len)


def _assignments(command: AssignReplicas) -> Body:
    by_folder: dict[uuid.UUID, dict[uuid.UUID, list[dict[str, int]]]] = {}
    for folder, topic_id, number in command.assignments:
        by_folder.setdefault(folder, {}).setdefault(topic_id, []).append({"partition_index": number})
    return {
        "broker_id": command.broker_id,
        "broker_epoch": command.broker_epoch,
        "directories": [
            {
                "id_": folder,
                "topics": [{"topic_id": topic_id, "partitions": partitions} for topic_id, partitions in topics.items()],
            }
            for folder, topics in by_folder.items()
        ],
    }


def _assigned(command: AssignReplicas, value: Any) -> ReplicasAssigned:
    codes = {
        (folder.id_, topic.topic_id, each.partition_index): ErrorCode(each.error_code)
        for folder in value.directories
        for topic in folder.topics
        for each in topic.partitions
    }
    missing = ErrorCode.UNKNOWN_SERVER_ERROR
    return ReplicasAssigned(
        ErrorCode(value.error_code), tuple(codes.get(each, missing) for each in command.assignments)
    )


def _proposals(command: AlterPartition) -> Body:
    topics: dict[uuid.UUID | None, list[dict[str, Any]]] = {}
    for each in command.proposals:
        topics.setdefault(each.topic_id, []).append(
            {
                "partition_index": each.partition,
                "leader_epoch": each.leader_epoch,
                "new_isr": [member for member, _ in each.isr],  # for controllers before 3.5
                "new_isr_with_epochs": [
                    {"broker_id": member, "broker_epoch": broker_epoch} for member, broker_epoch in each.isr
                ],
                "leader_recovery_state": each.recovering,
                "partition_epoch": each.partition_epoch,
            }
        )
    return {
        "broker_id": command.broker_id,
        "broker_epoch": command.broker_epoch,
        "topics": [{"topic_id": topic_id, "partitions": partitions} for topic_id, partitions in topics.items()],
    }


def _altered(command: AlterPartition, value: Any) -> PartitionsAltered:
    if value.error_code:
        return PartitionsAltered(ErrorCode(value.error_code))
    outcomes = {
        (topic.topic_id, each.partition_index): IsrOutcome(
            ErrorCode(each.error_code),
            each.leader_id,
            each.leader_epoch,
            tuple(each.isr),
            each.partition_epoch,
            each.leader_recovery_state,
        )
        for topic in value.topics
        for each in topic.partitions
    }
    missing = IsrOutcome(ErrorCode.NOT_CONTROLLER)
    return PartitionsAltered(
        ErrorCode.NONE, tuple(outcomes.get((each.topic_id, each.partition), missing) for each in command.proposals)
    )


def _envelope(command: Forwarded) -> Body:
    return {
        "request_data": command.data,
        "request_principal": command.principal,
        "client_host_address": command.host,
    }


def _unpacked(_: Forwarded, value: Any) -> ForwardAnswer:
    code, response = ErrorCode(value.error_code), value.response_data
    if code or response is None:
        return ForwardAnswer(code or ErrorCode.UNKNOWN_SERVER_ERROR)
    return ForwardAnswer(ErrorCode.NONE, bytes(response))


FORMS: Final[Mapping[type, Form]] = {
    CreateTopics: Form((19, 7), _topics, _created),
    AlterPartition: Form((56, 3), _proposals, _altered),
    Forwarded: Form((58, 0), _envelope, _unpacked),
    RegisterBroker: Form((62, 4), _registration, _registered),
    Heartbeat: Form((63, 1), _heartbeat, _beat, _heartbeat_api),
    AllocateProducerIds: Form((67, 0), _producer_ids, _allocated),
    RegisterController: Form((70, 0), _controller_registration, _outcome),
    AssignReplicas: Form((73, 0), _assignments, _assigned),
}
"""The commands of a broker for a controller in another process."""


class WireChannel:
    """The channel to a controller in another process: one connection."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    @property
    def features(self) -> Mapping[str, int]:
        """The levels of the features of the cluster; empty until the controller has named them."""
        return self._channel.peer_features

    def ask(self, command: Command, then: Then) -> None:
        """Send a command as a request."""
        form = FORMS[type(command)]
        key, version = form.api if form.api_of is None else form.api_of(command)
        self._channel.request(key, version, form.body(command), partial(self._answered, form, command, then))

    def _answered(self, form: Form, command: Command, then: Then, answer: ChannelAnswer) -> None:
        if answer.error is not None:
            _log.debug("%s: %s", type(command).__name__, answer.error)
            then(command.refused(Outcome(ErrorCode.NOT_CONTROLLER, str(answer.error))))
        else:
            then(form.answer(command, answer.value))

    def close(self, why: str) -> None:
        """Close the connection; what is not answered yet is refused."""
        self._channel.close(why)
