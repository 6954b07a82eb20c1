"""The rules of the controller's commands, and the small rules themselves. Pure: the result depends only on facts and command.

A topic is auto-created on the request of a client, or because the broker needs it (the internal topics). Rules: Apache Kafka's
auto.create.topics.enable and its AutoTopicCreationManager. An internal topic has the configured number of replicas, or fewer if
there are fewer live brokers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from streamactors.broker.config.broker_config import BrokerConfig
from streamactors.broker.controller.cluster_command import (
    AssignReplicas,
    ElectLeaders,
    FoldersCordoned,
    FoldersFailed,
    Reassign,
    RegisterController,
    UnregisterBroker,
    UnregisterController,
)
from streamactors.broker.controller.command import (
    PRODUCER_IDS_PER_BLOCK,
    AllocateProducerIds,
    AlterConfigs,
    AlterQuotas,
    AlterScram,
    AutoCreate,
    ChangeToken,
    Command,
    CreateAcls,
    CreatePartitions,
    CreateToken,
    CreateTopics,
    DeleteAcls,
    DeleteTopics,
    Facts,
    NewTopic,
    Outcome,
    PlannedChange,
    ProducerIdBlock,
    TopicCreated,
)
from streamactors.broker.controller.rules.feature_rules import UpdateFeatures, update_features
from streamactors.broker.controller.rules.folder_rules import assign_replicas, folders_cordoned, folders_failed
from streamactors.broker.controller.rules.plan_configs import alter_configs
from streamactors.broker.controller.rules.plan_partitions import (
    alter_partition,
    elect_leaders,
    register_controller,
    unregister_broker,
    unregister_controller,
)
from streamactors.broker.controller.rules.plan_quotas import alter_quotas
from streamactors.broker.controller.rules.plan_security import alter_scram, create_acls, delete_acls
from streamactors.broker.controller.rules.plan_tokens import change_token, create_token
from streamactors.broker.controller.rules.plan_topics import create_partitions, create_topics, delete_topics
from streamactors.broker.controller.rules.reassignment_rules import reassign
from streamactors.broker.errors import ErrorCode
from streamactors.broker.metadata.metadata_record import ProducerIdsRecord
from streamactors.broker.metadata.topic_name import OFFSETS_TOPIC, SHARE_STATE_TOPIC, TRANSACTION_TOPIC
from streamactors.broker.replication.isr_requests import AlterPartition


def allocate_producer_ids(facts: Facts, command: AllocateProducerIds) -> PlannedChange:
    """Reserve the ids after the last block."""
    broker_id, broker_epoch = command.broker or (facts.broker_id, facts.broker_epoch)
    broker = facts.image.brokers.get(broker_id)
    if broker is None or broker.broker_epoch != broker_epoch:
        return PlannedChange([], Outcome(ErrorCode.STALE_BROKER_EPOCH))
    first = facts.image.next_producer_id
    record = ProducerIdsRecord(broker_id, broker_epoch, first + PRODUCER_IDS_PER_BLOCK)
    return PlannedChange([record], ProducerIdBlock(first))


_LEAST_SEGMENT: Final = 1_048_576


def auto_create(facts: Facts, command: AutoCreate) -> PlannedChange:
    """Return the records of the missing topics. A topic that exists by now is not an error."""
    image = facts.image
    missing = tuple(dict.fromkeys(name for name in command.names if name not in image.topics))
    live = max(len(image.live_brokers()), 1)
    plan = create_topics(
        facts, CreateTopics(tuple(wanted_topic(facts.config, command, name, live) for name in missing))
    )
    answer: dict[str, TopicCreated] = dict(plan.answer)
    for name in command.names:
        if name in image.topics:
            topic = image.topics[name]
            answer[name] = TopicCreated(Outcome(ErrorCode.NONE), topic.topic_id, partitions=len(topic.partitions))
    return PlannedChange(plan.records, answer)


def wanted_topic(config: BrokerConfig, command: AutoCreate, name: str, most_replicas: int = 32_767) -> NewTopic:
    """Return a topic of a command as this broker makes it."""
    topic = new_topic(config, name, most_replicas)
    return replace(topic, configs=topic.configs + command.configs) if command.configs else topic


def new_topic(config: BrokerConfig, name: str, most_replicas: int = 32_767) -> NewTopic:
    """Return a topic with the settings that this broker gives it when a client asks for it; internal topics have their own."""
    live = most_replicas
    if name == OFFSETS_TOPIC:
        return NewTopic(
            name,
            config.offsets_topic_num_partitions,
            min(config.offsets_topic_replication_factor, live),
            configs=(
                ("cleanup.policy", "compact"),
                ("compression.type", "producer"),
                ("segment.bytes", str(max(config.offsets_topic_segment_bytes, _LEAST_SEGMENT))),
            ),
        )
    if name == TRANSACTION_TOPIC:
        replicas = min(config.transaction_state_log_replication_factor, live)
        return NewTopic(
            name,
            config.transaction_state_log_num_partitions,
            replicas,
            configs=(
                ("cleanup.policy", "compact"),
                ("compression.type", "producer"),
                ("min.insync.replicas", str(min(config.transaction_state_log_min_isr, replicas))),
                ("segment.bytes", str(max(config.transaction_state_log_segment_bytes, _LEAST_SEGMENT))),
                ("unclean.leader.election.enable", "false"),
            ),
        )
    if name == SHARE_STATE_TOPIC:
        replicas = min(config.share_coordinator_state_topic_replication_factor, live)
        return NewTopic(
            name,
            config.share_coordinator_state_topic_num_partitions,
            replicas,
            configs=(
                ("cleanup.policy", "delete"),
                ("compression.type", "producer"),
                ("min.insync.replicas", str(min(config.share_coordinator_state_topic_min_isr, replicas))),
                ("retention.ms", "-1"),
                ("segment.bytes", str(max(config.share_coordinator_state_topic_segment_bytes, _LEAST_SEGMENT))),
            ),
        )
    return NewTopic(name)


_RULES: Final[dict[type, Callable[[Facts, Any], PlannedChange]]] = {
    CreateTopics: create_topics,
    AutoCreate: auto_create,
    DeleteTopics: delete_topics,
    CreatePartitions: create_partitions,
    AlterConfigs: alter_configs,
    AllocateProducerIds: allocate_producer_ids,
    CreateAcls: create_acls,
    DeleteAcls: delete_acls,
    AlterScram: alter_scram,
    AlterQuotas: alter_quotas,
    CreateToken: create_token,
    ChangeToken: change_token,
    AlterPartition: alter_partition,
    AssignReplicas: assign_replicas,
    FoldersFailed: folders_failed,
    FoldersCordoned: folders_cordoned,
    ElectLeaders: elect_leaders,
    Reassign: reassign,
    UnregisterBroker: unregister_broker,
    UnregisterController: unregister_controller,
    RegisterController: register_controller,
    UpdateFeatures: update_features,
}


def plan(facts: Facts, command: Command) -> PlannedChange:
    """Return what must be written for a command to come true, and the answer to it."""
    return _RULES[type(command)](facts, command)
