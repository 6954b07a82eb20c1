"""Makes the broker follow the image: folders for new partitions, the data plane's table of partitions, settings.

Owner: the controller, which calls it: on its own thread to prepare (files take time), on the data plane's to apply, in the
order of the log.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, ParamSpec

from streamactors.broker.config.broker_config import BrokerConfig
from streamactors.broker.config.describe import resolve_topic
from streamactors.broker.controller.delta import ImageDelta
from streamactors.broker.controller.image import MetadataImage, PartitionImage, TopicImage
from streamactors.broker.controller.topic_name import METADATA_TOPIC
from streamactors.broker.errors import BrokerError, BrokerStartError
from streamactors.broker.log.config import LogConfig, ManagerConfig
from streamactors.broker.log.partition_log import PartitionLog
from streamactors.broker.replication.partition import PartitionState

if TYPE_CHECKING:
    from streamactors.broker.node import Node

_log = logging.getLogger("streamactors.broker.controller")

P = ParamSpec("P")
Folder = tuple[str, int]  # topic, partition


class MetadataPublisher:
    """Knows which partitions are hosted here and what they are told."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def config_under(self, image: MetadataImage) -> BrokerConfig:
        """Return the broker's configuration with the dynamic settings of an image."""
        return self._node.config.with_dynamic(image.cluster_overrides(), image.broker_overrides(self._node.node_id))

    def prepare(self, delta: ImageDelta) -> list[Folder]:
        """Make the folders of new partitions; return which. Blocks; on the controller's thread. Raises BrokerError."""
        logs = self._node.logs
        config = self.config_under(delta.image)
        made: list[Folder] = []
        try:
            for topic in (*delta.created, *delta.changed):
                settings, _ = self._log_config(config, delta.image, topic)
                first: dict[int, PartitionLog] = {}  # by leader epoch: the others are made like it
                for partition in self._hosted(topic):
                    if logs.get(topic.name, partition.partition) is None:
                        like = first.get(partition.leader_epoch)
                        log = logs.create(topic.name, partition.partition, topic.topic_id, settings, like)
                        made.append((topic.name, partition.partition))
                        if partition.leader == self._node.node_id:  # a file as well: not for the data plane to write
                            log.assign_leader_epoch(partition.leader_epoch, like)
                            first.setdefault(partition.leader_epoch, log)
        except BrokerError:
            self.withdraw(made)
            raise
        return made

    def withdraw(self, folders: Iterable[Folder]) -> None:
        """Remove folders that were prepared for a change which is not made."""
        for topic, partition in folders:
            self._node.logs.delete(topic, partition)

    def reconcile(self, delta: ImageDelta) -> None:
        """Bring the folders found at the start in line with the metadata, which `delta` is the whole of.

        A crash can leave an empty folder of a topic that never came to be, or one of a topic that is deleted. Raises
        BrokerStartError for any other that the metadata does not know: what it holds is not ours to throw away.
        """
        logs = self._node.logs
        for log in logs.logs():
            if log.topic == METADATA_TOPIC:
                continue
            topic = delta.image.topics.get(log.topic)
            known = topic is not None and log.topic_id in (None, topic.topic_id)
            if topic is not None and known and log.partition < len(topic.partitions):
                continue
            if log.end_offset > 0 and not delta.was_deleted(log.topic_id):
                raise BrokerStartError(
                    f"the data folder {logs.folder} has records of {log.topic}-{log.partition}, which its metadata does "
                    f"not know; restore {METADATA_TOPIC}-0 from a copy, or start with another --data folder"
                )
            logs.delete(log.topic, log.partition)
        self.prepare(delta)

    def apply(self, delta: ImageDelta) -> None:
        """Bring partitions and settings to where the image is. On the data plane's thread."""
        node, image = self._node, delta.image
        if delta.brokers_configured:
            node.config = self.config_under(image)
            node.logs.configure(ManagerConfig.of(node.config))
        for topic in delta.deleted:
            for partition in topic.partitions:
                self._attempt(topic, partition, node.partitions.delete, topic.name, partition.partition)
        for topic in (*delta.created, *delta.changed):
            config, least_in_sync = self._log_config(node.config, image, topic)
            for partition in self._hosted(topic):
                state = _state(topic, partition, least_in_sync)
                self._attempt(topic, partition, node.partitions.apply, state, config)
        for topic in self._reconfigured(delta):
            node.partitions.reconfigure(topic.name, *self._log_config(node.config, image, topic))

    def _attempt(
        self,
        topic: TopicImage,
        partition: PartitionImage,
        follow: Callable[P, object],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> None:
        """Have one partition follow; a disk that fails one must not keep the others from following."""
        try:
            follow(*args, **kwargs)
        except BrokerError as error:
            _log.error("%s-%d cannot follow the metadata: %s", topic.name, partition.partition, error)

    def _reconfigured(self, delta: ImageDelta) -> Iterator[TopicImage]:
        topics = delta.image.topics
        if delta.brokers_configured:  # any of them may be the default of a topic's setting
            yield from topics.values()
        else:
            yield from (topics[name] for name in delta.configured_topics if name in topics)

    def _hosted(self, topic: TopicImage) -> Iterator[PartitionImage]:
        here = self._node.node_id
        return (partition for partition in topic.partitions if here in partition.replicas)

    def _log_config(self, config: BrokerConfig, image: MetadataImage, topic: TopicImage) -> tuple[LogConfig, int]:
        overrides = image.topic_overrides(topic.name)
        settings = resolve_topic(config, overrides)
        least_in_sync = settings.min_insync_replicas
        if "min.insync.replicas" not in overrides:
            # the broker's default asks for no more replicas than there are, as in Apache Kafka: a single broker with the
            # settings of a cluster could acknowledge nothing, not even a commit. A topic of its own is taken at its word.
            least_in_sync = min([least_in_sync, *(len(partition.replicas) for partition in topic.partitions)])
        return LogConfig.of(settings), least_in_sync


def _state(topic: TopicImage, partition: PartitionImage, least_in_sync: int) -> PartitionState:
    return PartitionState(
        topic=topic.name,
        topic_id=topic.topic_id,
        partition=partition.partition,
        leader=partition.leader,
        leader_epoch=partition.leader_epoch,
        replicas=partition.replicas,
        isr=partition.isr,
        partition_epoch=partition.partition_epoch,
        min_insync_replicas=least_in_sync,
    )
