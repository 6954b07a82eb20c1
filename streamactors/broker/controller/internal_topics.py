"""Topics that come into being because somebody needs them: asked for by a client, or the broker's own.

Owner: the controller. Rules: Apache Kafka's auto.create.topics.enable and its AutoTopicCreationManager. The internal topics
take as many replicas as are configured or as many brokers as are alive, whichever is less.
"""

from __future__ import annotations

from streamactors.broker.controller.command import (
    AutoCreate,
    CreateTopics,
    Facts,
    NewTopic,
    Outcome,
    Plan,
    TopicCreated,
)
from streamactors.broker.controller.topic_name import OFFSETS_TOPIC, TRANSACTION_TOPIC
from streamactors.broker.controller.topic_rules import create_topics
from streamactors.broker.errors import ErrorCode


def auto_create(facts: Facts, command: AutoCreate) -> Plan:
    """Return the records for the topics that are not there yet; one that came into being meanwhile is no error."""
    image = facts.image
    missing = tuple(dict.fromkeys(name for name in command.names if name not in image.topics))
    plan = create_topics(facts, CreateTopics(tuple(_defaults(facts, name) for name in missing)))
    answer: dict[str, TopicCreated] = dict(plan.answer)
    for name in command.names:
        if name in image.topics:
            topic = image.topics[name]
            answer[name] = TopicCreated(Outcome(ErrorCode.NONE), topic.topic_id, partitions=len(topic.partitions))
    return Plan(plan.records, answer)


def _defaults(facts: Facts, name: str) -> NewTopic:
    config = facts.config
    live = max(len(facts.image.live_brokers()), 1)
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
    return NewTopic(name)


_LEAST_SEGMENT = 1_048_576
