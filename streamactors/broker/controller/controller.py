"""The controller: the single writer of the metadata log. It turns commands into records on disk, and publishes new images.

Owner: its own dispatcher, because the data plane must not wait for the disk. The controller serves one command after the other:
the rules beside this file are pure, and this class carries out their plans. This node is the only voter, so a record on its disk
is committed.
"""

from __future__ import annotations

import logging
import random
import uuid
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from streamactors.actors.dispatcher import Dispatcher, DispatcherStopped
from streamactors.broker.controller.command import Command, Facts, Outcome, Plan
from streamactors.broker.controller.metadata_log import MetadataLog
from streamactors.broker.controller.plan import plan
from streamactors.broker.errors import BrokerError, BrokerStartError, ErrorCode, StorageError
from streamactors.broker.helpers import call_on
from streamactors.broker.metadata.delta import ImageDelta, apply_records
from streamactors.broker.metadata.image import MetadataImage
from streamactors.broker.metadata.metadata_record import (
    BrokerRegistration,
    Endpoint,
    MetadataRecord,
    PartitionChange,
)

if TYPE_CHECKING:
    from streamactors.broker.config.broker_config import BrokerConfig
    from streamactors.broker.runtime import Runtime

_log = logging.getLogger("streamactors.broker.controller")

Reply = Callable[[Any], object]


class Submitted(NamedTuple):
    """A command in the controller's mailbox."""

    command: Command
    reply: Reply


class Publisher(Protocol):
    """Makes the broker follow the image: `metadata_publisher.MetadataPublisher`."""

    def config_under(self, image: MetadataImage) -> BrokerConfig: ...

    def reconcile(self, delta: ImageDelta) -> None: ...

    def prepare(self, delta: ImageDelta) -> list[tuple[str, int]]: ...

    def withdraw(self, folders: Iterable[tuple[str, int]]) -> None: ...

    def apply(self, delta: ImageDelta) -> None: ...


class Controller:
    """Carries out commands, and publishes images to the `MetadataCache` that requests read."""

    def __init__(self, node: Runtime, publisher: Publisher) -> None:
        self._node = node
        self._publisher = publisher
        self._dispatcher = Dispatcher(f"{node.data_plane.name}-controller", node.clock)
        self._cell = self._dispatcher.spawn(self._receive, "controller")
        self._metadata: MetadataLog | None = None
        self._newest = MetadataImage()  # on the controller's thread; at most one change ahead of the published image
        self._broken: BrokerError | None = None

    # --- life ---

    def start(self) -> None:
        """Read the metadata log and host its partitions. Blocks. Raises BrokerStartError."""
        self._check_identity()
        self._metadata = MetadataLog.open(self._node.logs, self._node.clock.wall_ms)
        delta = self._metadata.load()
        self._publisher.reconcile(delta)
        self._newest = delta.image
        self._on_data_plane(delta)

    def _check_identity(self) -> None:
        config, node_id = self._node.config, self._node.node_id
        asked = config.effective_node_id
        if asked != node_id and config.static.keys() & {"node.id", "broker.id"}:
            raise BrokerStartError(
                f"the data folder {self._node.logs.folder} is of node {node_id}, and node.id={asked}; "
                f"start with node.id={node_id}, or with another --data folder"
            )

    def register(self, endpoints: Iterable[Endpoint]) -> None:
        """Register this broker with its listeners, and elect it as a leader where possible. Blocks; called before serving."""
        node, metadata = self._node, self._metadata
        assert metadata is not None
        records: list[MetadataRecord] = [
            BrokerRegistration(
                broker_id=node.node_id,
                incarnation_id=uuid.uuid4(),
                broker_epoch=metadata.end_offset,
                endpoints=tuple(endpoints),
                rack=node.config.broker_rack,
            )
        ]
        records += _elections(self._newest, node.node_id, everything=not node.logs.was_clean)
        delta = apply_records(self._newest, records, metadata.append(records))
        self._newest = delta.image
        self._on_data_plane(delta)

    def stop(self) -> None:
        """End the controller's thread; waiting commands are dropped with their connections."""
        self._dispatcher.stop()

    # --- from the data plane ---

    def submit(self, command: Command, reply: Reply) -> None:
        """Carry out a command; `reply` gets the answer on the data plane's thread when the records are durable."""
        try:
            self._cell.tell(Submitted(command, reply))
        except DispatcherStopped:
            pass  # the broker is stopping, and its connections are closed

    # --- on the controller's thread ---

    def _receive(self, message: Submitted) -> None:
        command, reply = message
        try:
            self._carry_out(command, reply)
        except Exception as error:  # noqa: BLE001 - the client must be answered; the state may be wrong
            _log.exception("%s failed; the metadata is read again from its log", type(command).__name__)
            self._reload()
            self._refuse(command, reply, Outcome(ErrorCode.UNKNOWN_SERVER_ERROR, f"{type(error).__name__}: {error}"))

    def _refuse(self, command: Command, reply: Reply, outcome: Outcome) -> None:
        self._node.data_plane.execute(lambda: reply(command.refused(outcome)))

    def _reload(self) -> None:
        """Read the log again, and publish the difference from the published image."""
        metadata = self._metadata
        assert metadata is not None
        try:
            newest = metadata.load().image
            delta = ImageDelta.between(self._node.metadata.image, newest)
            self._publisher.prepare(delta)
            self._newest = newest
            self._on_data_plane(delta)
        except Exception as error:  # noqa: BLE001 - every later command is refused, and the broker still serves
            self._broken = StorageError(f"the metadata cannot be read again ({error}); restart the broker")
            _log.exception("%s", self._broken)

    def _carry_out(self, command: Command, reply: Reply) -> None:
        node = self._node
        broker = self._newest.brokers[node.node_id]
        made = plan(
            Facts(
                image=self._newest,
                config=self._publisher.config_under(self._newest),
                broker_id=node.node_id,
                broker_epoch=broker.broker_epoch,
                new_topic_id=new_topic_id,
                placement_start=random.randrange(len(self._newest.brokers)),
            ),
            command,
        )
        if not made.records:
            node.data_plane.execute(lambda: reply(made.answer))
            return
        try:
            delta = self._commit(made)
        except BrokerError as error:
            self._refuse(command, reply, Outcome(error.code, str(error)))
            return

        # The next command is planned after this one is published: it may create a folder that is deleted now.
        self._on_data_plane(delta, lambda: reply(made.answer))
        self._snapshot()

    def _commit(self, made: Plan) -> ImageDelta:
        """Make a plan durable; return its delta. If this raises BrokerError, nothing has changed."""
        metadata = self._metadata
        assert metadata is not None
        if self._broken is not None:
            raise self._broken
        delta = apply_records(self._newest, made.records, metadata.end_offset + len(made.records) - 1)
        folders = self._publisher.prepare(delta)
        try:
            metadata.append(made.records)
        except BrokerError as error:
            # The records may or may not be on disk, so no later command may follow them. A restart reads the disk.
            self._broken = StorageError(f"the metadata log cannot be written ({error}); restart the broker")
            _log.error("%s", self._broken)
            self._publisher.withdraw(folders)
            raise self._broken from error
        self._newest = delta.image
        for topic in delta.created:
            _log.info("topic %s created: %d partitions", topic.name, len(topic.partitions))
        for topic in delta.deleted:
            _log.info("topic %s deleted", topic.name)
        return delta

    def _snapshot(self) -> None:
        metadata = self._metadata
        assert metadata is not None
        try:
            metadata.snapshot(self._newest, self._node.config.metadata_log_max_record_bytes_between_snapshots)
        except BrokerError as error:
            _log.warning("%s; the metadata log keeps growing", error)

    # --- on the data plane's thread ---

    def _on_data_plane(self, delta: ImageDelta, then: Callable[[], object] = lambda: None) -> None:
        """Publish a delta and call `then` on the data plane's thread, and wait. Raises the errors of publishing."""

        def publish() -> None:
            self._publisher.apply(delta)
            self._node.metadata.publish(delta)
            then()

        call_on(self._node.data_plane, publish)


def _elections(image: MetadataImage, broker_id: int, *, everything: bool) -> list[MetadataRecord]:
    """Return the changes that make this broker the leader of the partitions whose only replica it has.

    After an unclean stop the ends of logs may be lost: a new epoch for `everything` lets consumers detect that.
    """
    return [
        PartitionChange(partition.partition, topic.topic_id, isr=(broker_id,), leader=broker_id)
        for topic in image.topics.values()
        for partition in topic.partitions
        if partition.replicas == (broker_id,) and (everything or partition.leader != broker_id)
    ]


def new_topic_id() -> uuid.UUID:
    """Return a random id whose text in Kafka's form does not begin with `-`, which a command line would read as an option."""
    while True:
        made = uuid.uuid4()
        if made.bytes[0] >> 2 != 62:
            return made
