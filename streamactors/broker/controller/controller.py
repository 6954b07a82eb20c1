"""The controller: the single writer of the metadata log. It turns commands into records on disk, and publishes new images.

Owner: its own dispatcher, because the data plane must not wait for the disk. The controller serves one command after the other:
the rules beside this file are pure, and this class carries out their plans. This node is the only voter, so a record on its disk
is committed.
"""

from __future__ import annotations

import logging
import random
import time
import uuid
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from streamactors.actors.dispatcher import Dispatcher, DispatcherStopped
from streamactors.broker.controller.command import Command, Facts, Outcome, Plan
from streamactors.broker.controller.duties import Duties
from streamactors.broker.controller.election_rules import with_broker, without_broker
from streamactors.broker.controller.metadata_log import MetadataLog
from streamactors.broker.controller.plan import plan
from streamactors.broker.errors import BrokerError, BrokerStartError, ErrorCode, StorageError
from streamactors.broker.helpers import call_on
from streamactors.broker.metadata.delta import ImageDelta, apply_records
from streamactors.broker.metadata.image import METADATA_VERSION, NO_LEADER, MetadataImage
from streamactors.broker.metadata.metadata_record import (
    BrokerRegistration,
    Endpoint,
    FeatureLevel,
    MetadataRecord,
    PartitionChange,
)

if TYPE_CHECKING:
    from streamactors.broker.config.broker_config import BrokerConfig
    from streamactors.broker.runtime import Runtime

_log = logging.getLogger("streamactors.broker.controller")

Reply = Callable[[Any], object]

LEAVE_WITHIN_S: Final = 2.0
LEAVE_POLL_S: Final = 0.01
CLUSTER_METADATA_VERSION: Final = 19
"""3.7-IV4: the newest whose records this controller writes completely."""


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

    def __init__(self, node: Runtime, publisher: Publisher, *, leads_others: bool = False) -> None:
        """`leads_others`: other brokers may join, over the listener for controllers."""
        self._leads_others = leads_others
        self._duties: Duties | None = None
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
        if self._leads_others:
            self._duties = Duties(
                self,
                self._dispatcher,
                self._metadata,
                own_id=self._node.node_id,
                cluster_id=self._node.cluster_id,
                session_ms=self._node.config.broker_session_timeout_ms,
            )

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
        registration = BrokerRegistration(
            broker_id=node.node_id,
            incarnation_id=uuid.uuid4(),
            broker_epoch=metadata.end_offset,
            endpoints=tuple(endpoints),
            rack=node.config.broker_rack,
        )
        records: list[MetadataRecord] = [registration]
        records += _elections(self._newest, node.node_id, everything=not node.logs.was_clean)
        if self._leads_others:
            directory = node.logs.properties.directory_id
            records[0] = replace(registration, log_dirs=() if directory is None else (directory,))
            records = [*self._rejoining(), *records]
        self._append(records)
        if self._leads_others:
            self._append(list(with_broker(self._newest, node.node_id, lambda _: False)))
        if self._duties is not None:
            call_on(self._dispatcher, self._duties.start)

    def _rejoining(self) -> list[MetadataRecord]:
        """Return what precedes the registration in a cluster of several: the metadata version, and after an unclean stop the
        departure from every ISR that has other members, because the end of a log may be lost."""
        node = self._node
        records: list[MetadataRecord] = []
        if METADATA_VERSION not in self._newest.features:
            records.append(FeatureLevel(METADATA_VERSION, CLUSTER_METADATA_VERSION))
        if not node.logs.was_clean:
            records += without_broker(self._newest, node.node_id, lambda _: False)
        return records

    def _append(self, records: list[MetadataRecord]) -> None:
        """Append and publish records of the start. Blocks."""
        if not records:
            return
        assert self._metadata is not None
        delta = apply_records(self._newest, records, self._metadata.append(records))
        self._newest = delta.image
        self._on_data_plane(delta)

    def leave(self) -> None:
        """Move the leaderships of this broker to others, before it stops and its cluster has no controller. Blocks."""
        call_on(self._dispatcher, self._leave)
        give_up = time.monotonic() + LEAVE_WITHIN_S
        while not call_on(self._dispatcher, self._known_to_all) and time.monotonic() < give_up:
            time.sleep(LEAVE_POLL_S)

    def _known_to_all(self) -> bool:
        return self._duties is None or self._duties.all_have_everything()

    def _leave(self) -> None:
        node = self._node
        moved = without_broker(self._newest, node.node_id, lambda _: False)
        changes: list[MetadataRecord] = [each for each in moved if each.leader != NO_LEADER]
        if changes:
            self.write(Plan(changes, None), lambda _: None)

    def stop(self) -> None:
        """End the controller's thread; waiting commands are dropped with their connections."""
        if self._duties is not None and self._dispatcher.running:
            call_on(self._dispatcher, self._duties.stop)
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
        if self._duties is not None and self._duties.carry_out(command, reply):
            return
        try:
            self.write(plan(self.facts(), command), reply)
        except BrokerError as error:
            self._refuse(command, reply, Outcome(error.code, str(error)))

    def facts(self) -> Facts:
        """Return what the rules decide on. On the controller's thread."""
        node = self._node
        broker = self._newest.brokers.get(node.node_id)
        return Facts(
            image=self._newest,
            config=self._publisher.config_under(self._newest),
            broker_id=node.node_id,
            broker_epoch=-1 if broker is None else broker.broker_epoch,
            new_topic_id=new_topic_id,
            placement_start=random.randrange(max(len(self._newest.brokers), 1)),
        )

    def write(self, made: Plan, reply: Reply) -> None:
        """Make a plan durable and publish it; then `reply` gets its answer on the data plane's thread. Raises BrokerError."""
        if not made.records:
            self._node.data_plane.execute(lambda: reply(made.answer))
            return
        delta = self._commit(made)
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
        if self._duties is not None:
            self._duties.grown()
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
