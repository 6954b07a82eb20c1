"""Makes the broker follow the metadata image: folders of new partitions, the data plane's table of partitions, settings.

Owner: the controller. `prepare` makes files on the controller's thread; `apply` runs on the data plane's thread, in the order of
the log.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Final, ParamSpec

from streamactors.broker.config.broker_config import BrokerConfig
from streamactors.broker.config.describe import resolve_topic
from streamactors.broker.config.unsupported import WITHOUT_EFFECT
from streamactors.broker.errors import BrokerError, BrokerStartError, StorageShortage
from streamactors.broker.log.config import LogConfig, ManagerConfig
from streamactors.broker.log.folders.folder_names import stray_name
from streamactors.broker.log.partition.partition_log import PartitionLog
from streamactors.broker.metadata.delta import ImageDelta
from streamactors.broker.metadata.image import MetadataImage, TopicImage
from streamactors.broker.metadata.metadata_record import PartitionRecord
from streamactors.broker.metadata.topic_name import METADATA_TOPIC
from streamactors.broker.replication.hosted_partition import PartitionState, enough_in_sync
from streamactors.broker.replication.partition_table import PartitionTable
from streamactors.broker.server.cordoned_folders import CordonedFolders, Tell

if TYPE_CHECKING:
    from streamactors.broker.runtime import Runtime

_log = logging.getLogger("streamactors.broker.controller")

P = ParamSpec("P")
Folder = tuple[str, int]  # topic, partition
WasDeleted = Callable[[uuid.UUID | None], bool]
"""Whether the metadata says that the topic with an id was deleted."""

AGAIN_MS: Final = 1_000.0


class MetadataPublisher:
    """Applies images to the logs, the partitions and the configuration of one broker."""

    def __init__(self, node: Runtime, partitions: PartitionTable, tell_cordoned: Tell | None = None) -> None:
        self._node = node
        self._partitions = partitions
        self._cordoned = CordonedFolders(node, tell_cordoned)
        self._said: set[str] = set()
        """The dynamic settings without effect that the log has named."""
        self._again: set[str] = set()
        """The topics with partitions that could not follow the metadata, because descriptors or space were short."""

    def config_under(self, image: MetadataImage) -> BrokerConfig:
        """Return the broker's configuration with the dynamic settings of `image`."""
        return self._node.config.with_dynamic(image.cluster_overrides(), image.broker_overrides(self._node.node_id))

    def _say_without_effect(self, image: MetadataImage) -> None:
        """Log each dynamic setting of this broker that has no effect, once."""
        settings = {**image.cluster_overrides(), **image.broker_overrides(self._node.node_id)}
        for name in settings.keys() - self._said:
            if (because := WITHOUT_EFFECT.get(name)) is not None:
                self._said.add(name)
                _log.warning("%s has no effect: %s", name, because)

    def prepare(self, delta: ImageDelta) -> list[Folder]:
        """Make the folders of new partitions; return them. Blocks; on the controller's thread. Raises BrokerError."""
        logs = self._node.logs
        config = self.config_under(delta.image)
        made: list[Folder] = []
        try:
            for topic in (*delta.created, *delta.changed):
                settings, *_ = self._log_config(config, delta.image, topic)
                first: dict[int, PartitionLog] = {}  # the first log of each leader epoch; the others copy its files
                for partition in self._hosted(topic):
                    self._discard_namesake(topic, partition.partition, delta.was_deleted)
                    folder = partition.folder_of(self._node.node_id)
                    if logs.get(topic.name, partition.partition) is None and not logs.is_lost(folder):
                        like = first.get(partition.leader_epoch)
                        log = logs.create(
                            topic.name,
                            partition.partition,
                            topic.topic_id,
                            settings,
                            like,
                            folder,
                        )
                        made.append((topic.name, partition.partition))
                        if partition.leader == self._node.node_id:  # writes a file, which the data plane must not
                            log.assign_leader_epoch(partition.leader_epoch, like)
                            first.setdefault(partition.leader_epoch, log)
        except BrokerError:
            self.withdraw(made)
            raise
        return made

    def _discard_namesake(self, topic: TopicImage, index: int, was_deleted: WasDeleted) -> None:
        """Make way for the log of a topic: one of another topic of this name is there, which the metadata no longer knows."""
        log = self._node.logs.get(topic.name, index)
        if (
            log is not None
            and log.topic_id not in (None, topic.topic_id)
            and self._partitions.get(topic.name, index) is None
        ):
            self._discard(log, was_deleted, "belongs to another topic of this name")

    def _discard(self, log: PartitionLog, was_deleted: WasDeleted, why: str) -> None:
        """Delete a log that has no records, or whose topic was deleted as the metadata says; keep every other one. Raises StorageError."""
        # A controller's folder is restored from an older copy -> the topics that were made since are unknown -> their records are the only ones.
        if log.end_offset == log.log_start_offset or was_deleted(log.topic_id):
            _log.info("%s-%d is deleted: it %s", log.topic, log.partition, why)
            self._node.logs.delete(log.topic, log.partition)
            return
        name, records = f"{log.topic}-{log.partition}", log.end_offset - log.log_start_offset
        kept = self._node.logs.set_aside(log.topic, log.partition)
        _log.warning("%s %s; its %d records are kept in %s, which the broker never deletes", name, why, records, kept)

    def discard_strays(self, image: MetadataImage, was_deleted: WasDeleted) -> None:
        """Delete or set aside the logs of partitions that the metadata does not have on this broker. Raises StorageError.

        They were deleted, or moved to other brokers, while this broker was away; or the metadata is older than they are."""
        here = self._node.node_id
        for log in self._node.logs.logs():
            topic = image.topics.get(log.topic)
            if log.topic == METADATA_TOPIC:
                continue
            known = (
                topic is not None and log.topic_id in (None, topic.topic_id) and log.partition < len(topic.partitions)
            )
            if known and topic is not None and here in topic.partitions[log.partition].replicas:
                continue
            self._discard(log, was_deleted, "is not on this broker, as the metadata says")

    def withdraw(self, folders: Iterable[Folder]) -> None:
        """Remove folders that were prepared for a change that failed."""
        for topic, partition in folders:
            self._node.logs.delete(topic, partition)

    def reconcile(self, delta: ImageDelta) -> None:
        """At the start, delete folders that the metadata does not know. `delta` holds the whole metadata.

        A crash can leave an empty folder of a topic that was not created, or the folder of a deleted topic. Raises
        BrokerStartError for any other unknown folder that has records, because they may be needed.
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
                    f"not know; restore {METADATA_TOPIC}-0 from a newer copy, start with another --data folder, or start without these records: "
                    f"rename {log.directory} to {stray_name(log.topic, log.partition)}"
                )
            logs.delete(log.topic, log.partition)
        self.prepare(delta)

    def apply(self, delta: ImageDelta) -> None:
        """Apply partitions and settings of the image. On the data plane's thread."""
        node, image = self._node, delta.image
        if delta.brokers_configured:
            node.config = self.config_under(image)
            self._say_without_effect(image)
            node.logs.configure(ManagerConfig.of(node.config))
        self._cordoned.follow(image)
        for topic in delta.deleted:
            for partition in topic.partitions:
                self._attempt(topic, partition, self._partitions.delete, topic.name, partition.partition)
        for topic in (*delta.created, *delta.changed):
            config, least_in_sync, unclean = self._log_config(node.config, image, topic)
            for partition in topic.partitions:
                if node.node_id in partition.replicas:
                    state = _state(topic, partition, least_in_sync, unclean, node.node_id)
                    self._attempt(topic, partition, self._place, topic, state, config, delta.was_deleted)
                elif self._partitions.get(topic.name, partition.partition) is not None:  # it has moved to other brokers
                    self._attempt(topic, partition, self._partitions.delete, topic.name, partition.partition)
        for topic in self._reconfigured(delta):
            self._partitions.reconfigure(topic.name, *self._log_config(node.config, image, topic))

    def _place(self, topic: TopicImage, state: PartitionState, config: LogConfig, was_deleted: WasDeleted) -> None:
        """Apply the state of a partition, for which `prepare` may have found no descriptor or no space: then the log of another topic is still there."""
        self._discard_namesake(topic, state.partition, was_deleted)
        self._partitions.apply(state, config)

    def _attempt(
        self,
        topic: TopicImage,
        partition: PartitionRecord,
        follow: Callable[P, object],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> None:
        """Apply a change to one partition; a failing disk must not keep the others from it."""
        try:
            follow(*args, **kwargs)
        except StorageShortage:
            self._again_later(topic.name)
        except BrokerError as error:
            _log.error("%s-%d cannot follow the metadata: %s", topic.name, partition.partition, error)

    def _again_later(self, topic: str) -> None:
        """Descriptors or space were short: follow the metadata of a topic again soon."""
        if not self._again:
            self._node.data_plane.call_later(AGAIN_MS, self._follow_again)
        self._again.add(topic)

    def _follow_again(self) -> None:
        topics, self._again = self._again, set()
        delta = ImageDelta.again(self._node.metadata.image, topics)
        self.apply(delta)
        self._node.metadata.publish(delta)

    def _reconfigured(self, delta: ImageDelta) -> Iterator[TopicImage]:
        topics = delta.image.topics
        if delta.brokers_configured:  # a broker setting may be the default of a topic setting
            yield from topics.values()
        else:
            yield from (topics[name] for name in delta.configured_topics if name in topics)

    def _hosted(self, topic: TopicImage) -> Iterator[PartitionRecord]:
        here = self._node.node_id
        return (partition for partition in topic.partitions if here in partition.replicas)

    def _log_config(self, config: BrokerConfig, image: MetadataImage, topic: TopicImage) -> tuple[LogConfig, int, bool]:
        """Return the settings of a topic's logs, its min.insync.replicas, and whether it allows unclean elections."""
        settings = resolve_topic(config, image.topic_overrides(topic.name))
        return LogConfig.of(settings), settings.min_insync_replicas, settings.unclean_leader_election_enable


def _state(
    topic: TopicImage, partition: PartitionRecord, least_in_sync: int, unclean: bool, here: int
) -> PartitionState:
    return PartitionState(
        topic=topic.name,
        topic_id=topic.topic_id,
        partition=partition.partition,
        leader=partition.leader,
        leader_epoch=partition.leader_epoch,
        replicas=partition.replicas,
        isr=partition.isr,
        partition_epoch=partition.partition_epoch,
        min_insync_replicas=enough_in_sync(least_in_sync, partition.replicas),
        elr=partition.elr,
        unclean=unclean,
        directory_id=partition.folder_of(here),
    )
