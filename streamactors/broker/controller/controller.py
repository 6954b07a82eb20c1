"""The controller: the one writer of the metadata log. Commands in, records on disk, a new image out.

Owner: its own dispatcher, because forcing a record to disk takes time that the data plane does not have. One command after
the other; the rules beside this file are pure, this actor carries their plans out. While this node is the only voter, a
record on its disk is committed.
"""

from __future__ import annotations

import logging
import random
import uuid
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from streamactors.actors.dispatcher import Dispatcher, DispatcherStopped
from streamactors.broker.controller.command import Command, Facts, Outcome, Plan
from streamactors.broker.controller.delta import ImageDelta, apply_records
from streamactors.broker.controller.image import MetadataImage
from streamactors.broker.controller.metadata_log import MetadataLog
from streamactors.broker.controller.metadata_record import (
    Endpoint,
    MetadataRecord,
    PartitionChange,
    RegisterBroker,
)
from streamactors.broker.controller.refusal import refused
from streamactors.broker.controller.rules import plan
from streamactors.broker.errors import BrokerError, BrokerStartError, StorageError

if TYPE_CHECKING:
    from streamactors.broker.config.broker_config import BrokerConfig
    from streamactors.broker.node import Node

_log = logging.getLogger("streamactors.broker.controller")

Reply = Callable[[Any], object]
Subscriber = Callable[[ImageDelta], object]


class Submitted(NamedTuple):
    """A command on its way to the controller."""

    command: Command
    reply: Reply


class Publisher(Protocol):
    """Who makes the broker follow the image."""

    def config_under(self, image: MetadataImage) -> BrokerConfig: ...

    def reconcile(self, delta: ImageDelta) -> None: ...

    def prepare(self, delta: ImageDelta) -> list[tuple[str, int]]: ...

    def withdraw(self, folders: Iterable[tuple[str, int]]) -> None: ...

    def apply(self, delta: ImageDelta) -> None: ...


class Controller:
    """Keeps the image. `image` is what the data plane acts by; read it once per request."""

    def __init__(self, node: Node, publisher: Publisher) -> None:
        self._node = node
        self._publisher = publisher
        self._dispatcher = Dispatcher(f"{node.data_plane.name}-controller", node.clock)
        self._cell = self._dispatcher.spawn(self._receive, "controller")
        self._metadata: MetadataLog | None = None
        self._newest = MetadataImage()  # of the controller's thread, ahead of `image` by what is being published
        self._broken: BrokerError | None = None
        self._subscribers: list[Subscriber] = []
        self.image = MetadataImage()

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
        """Enter this broker, as it listens now, and lead what it can lead. Blocks; before the first request is read."""
        node, metadata = self._node, self._metadata
        assert metadata is not None
        records: list[MetadataRecord] = [
            RegisterBroker(
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
        """End the controller's thread; commands that still wait are dropped with their connections."""
        self._dispatcher.stop()

    # --- from the data plane ---

    def submit(self, command: Command, reply: Reply) -> None:
        """Have a command carried out; `reply` gets the answer on the data plane's thread, once it is durable."""
        try:
            self._cell.tell(Submitted(command, reply))
        except DispatcherStopped:
            pass  # the broker is stopping, and the connection that asked with it

    def subscribe(self, subscriber: Subscriber) -> None:
        """Call `subscriber` with every change, on the data plane's thread, before anyone is told that it is made."""
        self._subscribers.append(subscriber)

    # --- on the controller's thread ---

    def _receive(self, message: Submitted) -> None:
        command, reply = message
        node = self._node
        broker = self._newest.brokers[node.node_id]
        made = plan(
            Facts(
                image=self._newest,
                config=self._publisher.config_under(self._newest),
                broker_id=node.node_id,
                broker_epoch=broker.epoch,
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
            outcome = Outcome(error.code, str(error))
            node.data_plane.execute(lambda: reply(refused(command, outcome)))
            return

        # The next command is planned when this one is published: a folder it makes may have the name of one that goes now.
        self._on_data_plane(delta, lambda: reply(made.answer))
        self._snapshot()

    def _commit(self, made: Plan) -> ImageDelta:
        """Make a plan durable; return what it changes. Raises BrokerError, and then nothing has changed."""
        metadata = self._metadata
        assert metadata is not None
        if self._broken is not None:
            raise self._broken
        delta = apply_records(self._newest, made.records, metadata.end_offset + len(made.records) - 1)
        folders = self._publisher.prepare(delta)
        try:
            metadata.append(made.records)
        except BrokerError as error:
            # Whether the records are on disk is not known, so nothing may be built on them: a restart finds out.
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
            _log.warning("%s; the metadata log goes on growing", error)

    # --- on the data plane's thread ---

    def _publish(self, delta: ImageDelta) -> None:
        self._publisher.apply(delta)
        self.image = delta.image
        for subscriber in self._subscribers:
            try:
                subscriber(delta)
            except Exception:  # noqa: BLE001 - the change is made; one part that fails keeps nobody else from hearing of it
                _log.exception("%r did not take a change of the metadata", subscriber)

    def _on_data_plane(self, delta: ImageDelta, then: Callable[[], object] = lambda: None) -> None:
        """Publish, call `then`, and wait for it; what goes wrong there is raised here."""
        done: Future[None] = Future()

        def publish() -> None:
            try:
                self._publish(delta)
                then()
            except BaseException as error:  # noqa: BLE001 - it is raised again where it is waited for
                done.set_exception(error)
            else:
                done.set_result(None)

        self._node.data_plane.execute(publish)
        done.result()


def _elections(image: MetadataImage, broker_id: int, *, everything: bool) -> list[MetadataRecord]:
    """Return the changes that make this broker lead what it alone has.

    After an unclean stop the ends of logs may have been lost: a new epoch for `everything` lets consumers notice.
    """
    return [
        PartitionChange(partition.partition, topic.topic_id, isr=(broker_id,), leader=broker_id)
        for topic in image.topics.values()
        for partition in topic.partitions
        if partition.replicas == (broker_id,) and (everything or partition.leader != broker_id)
    ]


def new_topic_id() -> uuid.UUID:
    """Return a random id that does not begin with `-` as Kafka prints it, where a command line would take it for an option."""
    while True:
        made = uuid.uuid4()
        if made.bytes[0] >> 2 != 62:
            return made
