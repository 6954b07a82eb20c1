"""What administrators ask: topics, their settings and records, groups.

Owner: the cluster. Commands are carried out by the controller's own rules, at once; each answer is a list with one item for each thing that was asked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from streamactors.broker.config.describe import ConfigEntry, describe_topic
from streamactors.broker.controller.command import (
    AlterConfigs,
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    MorePartitions,
    NewTopic,
    Outcome,
    ResourceChange,
)
from streamactors.broker.controller.rules.plan_configs import alter_configs as alter_configs_rule
from streamactors.broker.controller.rules.plan_topics import create_partitions as create_partitions_rule
from streamactors.broker.controller.rules.plan_topics import create_topics as create_topics_rule
from streamactors.broker.controller.rules.plan_topics import delete_topics as delete_topics_rule
from streamactors.broker.errors import ErrorCode
from streamactors.broker.group.group_messages import DeleteGroups

if TYPE_CHECKING:
    from streamactors.simulation.cluster.cluster import SimulatedCluster

Reply = Callable[[ErrorCode, Any], object]


def create_topics(cluster: SimulatedCluster, asked: Sequence[NewTopic], reply: Reply) -> None:
    """Answer with an Outcome for each topic."""
    answer = cluster.topics.change(create_topics_rule, CreateTopics(tuple(asked)))
    reply(ErrorCode.NONE, [answer[topic.name].outcome for topic in asked])


def delete_topics(cluster: SimulatedCluster, asked: Sequence[str], reply: Reply) -> None:
    """Answer with an Outcome for each topic."""
    answer = cluster.topics.change(delete_topics_rule, DeleteTopics(tuple(asked)))
    reply(ErrorCode.NONE, [each.outcome for each in answer])


def create_partitions(cluster: SimulatedCluster, asked: Sequence[MorePartitions], reply: Reply) -> None:
    """Answer with an Outcome for each topic."""
    answer = cluster.topics.change(create_partitions_rule, CreatePartitions(tuple(asked)))
    reply(ErrorCode.NONE, [answer[topic.name] for topic in asked])


def alter_configs(cluster: SimulatedCluster, asked: Sequence[ResourceChange], reply: Reply) -> None:
    """Answer with an Outcome for each resource."""
    reply(ErrorCode.NONE, list(cluster.topics.change(alter_configs_rule, AlterConfigs(tuple(asked)))))


class TopicConfigs(NamedTuple):
    """The settings of one topic, or why there are none."""

    outcome: Outcome
    entries: Sequence[ConfigEntry] = ()


def describe_configs(cluster: SimulatedCluster, asked: Sequence[str], reply: Reply) -> None:
    """Answer with the TopicConfigs of each topic."""
    image, config = cluster.topics.image, cluster.config
    reply(
        ErrorCode.NONE,
        [
            TopicConfigs(Outcome(), list(describe_topic(config, image.topic_overrides(name))))
            if name in image.topics
            else TopicConfigs(Outcome(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
            for name in asked
        ],
    )


class TrimTo(NamedTuple):
    """Records before an offset are deleted; -1: all of them."""

    topic: str
    partition: int
    offset: int


def delete_records(cluster: SimulatedCluster, asked: Sequence[TrimTo], reply: Reply) -> None:
    """Answer with (error, first offset that is left) for each partition."""
    found = []
    for topic, index, offset in asked:
        partition = cluster.topics.get(topic, index)
        if partition is None:
            found.append((ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1))
        elif not partition.rules.deleted:
            found.append((ErrorCode.POLICY_VIOLATION, -1))  # a compacted topic keeps its records
        elif offset > partition.high_watermark:
            found.append((ErrorCode.OFFSET_OUT_OF_RANGE, -1))
        else:
            partition.log.trim(partition.high_watermark if offset < 0 else offset)
            found.append((ErrorCode.NONE, partition.log.start_offset))
    reply(ErrorCode.NONE, found)


def list_groups(cluster: SimulatedCluster, _asked: None, reply: Reply) -> None:
    """Answer with every group, as the broker's coordinators know it."""
    shards = cluster.groups.coordinators.shards()
    seen = [shard.visible(name) for shard in shards for name in shard.groups]
    reply(ErrorCode.NONE, sorted((group for group in seen if group is not None), key=lambda each: each.group_id))


def describe_group(cluster: SimulatedCluster, asked: str, reply: Reply) -> None:
    """Answer with one group, None if there is none."""
    coordinators = cluster.groups.coordinators
    shard = coordinators.shard(coordinators.index_of(asked))
    reply(ErrorCode.NONE, None if shard is None else shard.visible(asked))


def delete_group(cluster: SimulatedCluster, asked: str, reply: Reply) -> None:
    """Answer when the group and its offsets are gone."""
    cluster.groups.tell(asked, DeleteGroups(lambda errors: reply(errors[0], None), (asked,)))
