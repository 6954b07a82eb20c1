"""The commands of a broker whose cluster has other nodes, for the active controller.

Owner: the data plane. Requests of clients are forwarded as they are, see `requests.forwarding`. This is what the broker itself wants: topics that are
created on first use, producer ids, ISRs, and the data folders of replicas."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from streamactors.broker.controller.cluster_command import FoldersFailed
from streamactors.broker.controller.command import (
    AllocateProducerIds,
    AutoCreate,
    Command,
    CreateTopics,
    Outcome,
    TopicCreated,
)
from streamactors.broker.controller.rules.plan import wanted_topic
from streamactors.broker.errors import ErrorCode
from streamactors.broker.membership.controller_channels import ControllerChannels
from streamactors.broker.membership.lifecycle import Lifecycle

if TYPE_CHECKING:
    from streamactors.broker.runtime import Runtime

Reply = Callable[[Any], object]


class MemberCommands:
    """Completes commands with what the controller cannot know of this broker, and sends them."""

    def __init__(self, node: Runtime, life: Lifecycle, channels: ControllerChannels) -> None:
        self._node = node
        self._life = life
        self._channels = channels

    def submit(self, command: Command, reply: Reply) -> None:
        """Carry out a command; `reply` gets the answer on the data plane's thread."""
        match command:
            case AutoCreate():
                self._create(command, reply)
            case AllocateProducerIds(None):
                own = self._node.node_id, self._life.broker_epoch
                self._channels.submit(AllocateProducerIds(own), reply)
            case FoldersFailed():
                self._life.folder_failed(lambda: reply(Outcome()))
            case _:
                self._channels.submit(command, reply)

    def _create(self, command: AutoCreate, reply: Reply) -> None:
        """Create topics with this broker's defaults. The controller's own rule would give an internal topic fewer replicas while brokers are missing."""

        def created(answer: Mapping[str, TopicCreated]) -> None:
            outcomes = command.refused(Outcome(ErrorCode.UNKNOWN_SERVER_ERROR, "the controller did not answer for it"))
            for name, topic in answer.items():
                if topic.outcome.code is ErrorCode.TOPIC_ALREADY_EXISTS:  # another broker was faster
                    outcome = Outcome(ErrorCode.NONE, topic.outcome.message)
                    topic = TopicCreated(outcome, topic.topic_id, topic.partitions, topic.replication_factor)
                outcomes[name] = topic
            reply(outcomes)

        topics = tuple(wanted_topic(self._node.config, command, name) for name in command.names)
        self._channels.submit(CreateTopics(topics), created)
