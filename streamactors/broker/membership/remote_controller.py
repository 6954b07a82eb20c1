"""The commands of this broker for a controller that is another process.

Owner: the data plane. Requests of clients go to the controller as they are, see `forwarding`; only what the broker itself wants comes
this way: topics that are created on the first use, producer ids, and the data folders of replicas."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

from streamactors.broker.controller.cluster_command import AssignReplicas, FoldersFailed, ReplicasAssigned
from streamactors.broker.controller.command import (
    AllocateProducerIds,
    AutoCreate,
    Command,
    Outcome,
    ProducerIdBlock,
    TopicCreated,
)
from streamactors.broker.controller.rules.plan import new_topic
from streamactors.broker.errors import ErrorCode
from streamactors.broker.membership.lifecycle import Lifecycle
from streamactors.broker.membership.member import Member
from streamactors.broker.metadata.metadata_record import Endpoint
from streamactors.broker.network.outgoing.channel import ChannelAnswer

if TYPE_CHECKING:
    from streamactors.broker.runtime import Runtime

CREATE_TOPICS: Final = (19, 7)
ALLOCATE_PRODUCER_IDS: Final = (67, 0)
ASSIGN_REPLICAS_TO_DIRS: Final = (73, 0)
CREATE_TIMEOUT_MS: Final = 30_000

Reply = Callable[[Any], object]


class RemoteController:
    """Carries out commands at the active controller."""

    def __init__(self, node: Runtime, life: Lifecycle) -> None:
        self._node = node
        self._life = life

    def submit(self, command: Command, reply: Reply) -> None:
        """Carry out a command; `reply` gets the answer on the data plane's thread."""
        if isinstance(command, AutoCreate):
            self._create(command, reply)
        elif isinstance(command, AllocateProducerIds) and command.broker is None:
            self._allocate(command, reply)
        elif isinstance(command, AssignReplicas) and command.broker_id == self._node.node_id:
            self._assign(command, reply)
        elif isinstance(command, FoldersFailed):
            self._life.folder_failed(lambda: reply(Outcome()))
        else:
            self.submit_other(command, reply)

    def submit_other(self, command: Command, reply: Reply) -> None:
        """Refuse a command: a request of a client goes to the controller as it is."""
        reply(command.refused(Outcome(ErrorCode.NOT_CONTROLLER, "this broker is not the controller")))

    def _create(self, command: AutoCreate, reply: Reply) -> None:
        topics = [new_topic(self._node.config, name) for name in command.names]
        body = {
            "topics": [
                {
                    "name": topic.name,
                    "num_partitions": topic.partitions,
                    "replication_factor": topic.replication_factor,
                    "configs": [{"name": name, "value": value} for name, value in topic.configs],
                    "assignments": (),
                }
                for topic in topics
            ],
            "timeout_ms": CREATE_TIMEOUT_MS,
            "validate_only": False,
        }

        def created(answer: ChannelAnswer) -> None:
            if answer.error is not None:
                reply(command.refused(Outcome(ErrorCode.NOT_CONTROLLER, str(answer.error))))
                return
            outcomes = command.refused(Outcome(ErrorCode.UNKNOWN_SERVER_ERROR, "the controller did not answer for it"))
            for topic in answer.value.topics:
                code = ErrorCode(topic.error_code)
                if code is ErrorCode.TOPIC_ALREADY_EXISTS:  # another broker was faster
                    code = ErrorCode.NONE
                outcomes[topic.name] = TopicCreated(
                    Outcome(code, topic.error_message), topic.topic_id, topic.num_partitions, topic.replication_factor
                )
            reply(outcomes)

        self._life.ask(CREATE_TOPICS, body, created)

    def _allocate(self, command: AllocateProducerIds, reply: Reply) -> None:
        body = {"broker_id": self._node.node_id, "broker_epoch": self._life.broker_epoch}

        def allocated(answer: ChannelAnswer) -> None:
            if answer.error is not None:
                reply(command.refused(Outcome(ErrorCode.NOT_CONTROLLER, str(answer.error))))
            elif answer.value.error_code:
                reply(command.refused(Outcome(ErrorCode(answer.value.error_code))))
            else:
                reply(ProducerIdBlock(answer.value.producer_id_start, answer.value.producer_id_len))

        self._life.ask(ALLOCATE_PRODUCER_IDS, body, allocated)

    def _assign(self, command: AssignReplicas, reply: Reply) -> None:
        by_folder: dict[uuid.UUID, dict[uuid.UUID, list[dict[str, int]]]] = {}
        for folder, topic_id, number in command.assignments:
            by_folder.setdefault(folder, {}).setdefault(topic_id, []).append({"partition_index": number})
        body = {
            "broker_id": command.broker_id,
            "broker_epoch": command.broker_epoch,
            "directories": [
                {
                    "id_": folder,
                    "topics": [
                        {"topic_id": topic_id, "partitions": partitions} for topic_id, partitions in topics.items()
                    ],
                }
                for folder, topics in by_folder.items()
            ],
        }

        def assigned(answer: ChannelAnswer) -> None:
            if answer.error is not None:
                reply(command.refused(Outcome(ErrorCode.NOT_CONTROLLER, str(answer.error))))
                return
            codes = {
                (folder.id_, topic.topic_id, each.partition_index): ErrorCode(each.error_code)
                for folder in answer.value.directories
                for topic in folder.topics
                for each in topic.partitions
            }
            missing = ErrorCode.UNKNOWN_SERVER_ERROR
            each_code = tuple(codes.get(each, missing) for each in command.assignments)
            reply(ReplicasAssigned(ErrorCode(answer.value.error_code), each_code))

        self._life.ask(ASSIGN_REPLICAS_TO_DIRS, body, assigned)


class MemberController(RemoteController):
    """The same for a broker that is no controller itself."""

    def __init__(self, node: Runtime, member: Member) -> None:
        super().__init__(node, member.life)
        self._member = member

    def start(self) -> None:
        """Read the metadata of the cluster. Blocks."""
        self._member.start()

    def register(self, endpoints: Iterable[Endpoint]) -> None:
        """Register this broker with its listeners. Blocks."""
        self._member.life.register(endpoints)

    def stop(self) -> None:
        """End the membership."""
        self._member.stop()
