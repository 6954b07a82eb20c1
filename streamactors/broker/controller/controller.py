"""The controller: the writer of the metadata log while this node leads its quorum. It turns commands into records, and publishes
the images of committed records.

Owner: its own dispatcher, because the data plane must not wait for the disk. The controller serves one command after the other: a
command waits until the change before it is committed and published. The rules beside this file are pure, and this class carries
out their plans. A change that is not committed when another node takes over is dropped with its image. The one idea of this class is
this order: one change at a time is written, committed and published, also while its folders are made or the leader changes."""

from __future__ import annotations

import logging
import random
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from streamactors.actors.dispatching.dispatcher import Dispatcher, DispatcherStopped
from streamactors.broker.controller.change import Change, Reply, Submitted
from streamactors.broker.controller.cluster_command import ProcessEnded
from streamactors.broker.controller.command import Command, Facts, Outcome, PlannedChange
from streamactors.broker.controller.duties import Duties
from streamactors.broker.controller.ended_process import when_ended
from streamactors.broker.controller.metadata_log import MetadataLog
from streamactors.broker.controller.own_replica import OwnReplica, no_leader
from streamactors.broker.controller.rules.feature_rules import UpdateFeatures
from streamactors.broker.controller.rules.plan import plan
from streamactors.broker.controller.rules.registration import new_topic_id
from streamactors.broker.controller.rules.release_levels import first_features
from streamactors.broker.errors import BrokerError, BrokerStartError, ErrorCode, Refusal, StorageError, StorageShortage
from streamactors.broker.helpers import HelperOutcome, call_on
from streamactors.broker.metadata.delta import ImageDelta, apply_records
from streamactors.broker.metadata.image import METADATA_VERSION, NO_LEADER, MetadataImage
from streamactors.broker.metadata.metadata_record import BrokerRegistration, MetadataRecord
from streamactors.broker.metadata.transaction_record import AbortTransaction
from streamactors.broker.network.outgoing.opening import Address
from streamactors.broker.quorum.voter_requests import Changed

if TYPE_CHECKING:
    from streamactors.broker.runtime import Runtime
    from streamactors.broker.server.metadata_publisher import MetadataPublisher

T = TypeVar("T")

_log = logging.getLogger("streamactors.broker.controller")

_NOT_CONTROLLER: Final = Outcome(ErrorCode.NOT_CONTROLLER, "this node is not the active controller")
MOST_AT_ONCE: Final = 50  # new partitions whose folders are made without a helper thread


@dataclass(frozen=True, slots=True)
class Peers:
    """The other nodes of a controller's cluster."""

    brokers: bool = False
    """Other brokers may join."""
    voters: bool = False
    """Other controllers vote, or may be added to the voters. The broker of this node has a session like every other one."""
    on_leader: Callable[[int | None, int, Address | None], object] = lambda _, __, ___: None
    """Gets each new leader of the quorum, None if none is known, with the epoch and the leader's address. On the controller's thread."""


class Controller:
    """Carries out commands, and publishes images to the `MetadataCache` that requests read."""

    def __init__(self, node: Runtime, publisher: MetadataPublisher, peers: Peers) -> None:
        """Open the metadata log, of which nothing is published before `start`. Raises BrokerError."""
        _check_identity(node)
        self._node = node
        self._publisher = publisher
        self._peers = peers
        self.metadata: Final = MetadataLog.open(node.logs, node.clock.wall_ms)
        self._dispatcher = Dispatcher(f"{node.data_plane.name}-controller", node.clock)
        self._cell = self._dispatcher.spawn(self._receive, "controller")
        try:
            self._replica = OwnReplica(node, self._dispatcher, self.metadata, self)
        except BaseException:
            self._dispatcher.stop()
            raise
        self._quorum = self._replica.quorum
        self._duties = self._make_duties()
        self._followed: Future[None] = Future()
        # the rest on the controller's thread
        self._begun = False  # True when metadata is published for the first time
        self._published = MetadataImage()
        self._newest = MetadataImage()  # the published image, with the change on top that is not committed yet
        self._change: Change | None = None
        self._preparing = False  # True while a helper thread makes the folders of many new partitions
        self._committed = 0
        self._turns: deque[Callable[[], object]] = deque()  # wait for the end of the change
        self._active = False
        self._has_duties = peers.voters  # else they begin when the broker of this node is registered
        self._broken: BrokerError | None = None

    def _make_duties(self) -> Duties:
        node, config = self._node, self._node.config
        balance_ms = 1000.0 * config.leader_imbalance_check_interval_seconds
        return Duties(
            self,
            self._dispatcher,
            self.metadata,
            self._quorum,
            own_id=NO_LEADER if self._peers.voters else node.node_id,
            cluster_id=node.cluster_id,
            session_ms=config.broker_session_timeout_ms,
            balance_ms=balance_ms if config.auto_leader_rebalance_enable else None,
            idle_ms=config.metadata_max_idle_interval_ms,
            look_at=self._look_at,
        )

    @property
    def active(self) -> bool:
        """Whether this controller leads the cluster. From any thread."""
        return self._active

    # --- life ---

    def start(self) -> None:
        """Take part in the quorum, and host its partitions. Blocks until the only voter leads. Raises BrokerStartError."""
        self.call(self._quorum.start)

    def await_metadata(self, within_s: float) -> None:
        """Wait until the quorum has a leader, and this node follows its metadata. Raises BrokerStartError."""
        try:
            self._followed.result(within_s)
        except TimeoutError:
            raise BrokerStartError(no_leader(self._node, within_s)) from None

    def _look_at(self, broker: BrokerRegistration) -> None:
        if self._node.config.controller_fence_closed_connections:
            command = ProcessEnded(broker.broker_id, broker.broker_epoch)
            when_ended(self._node.helpers, broker, lambda: self.submit(command, lambda _: None))

    def begin_duties(self) -> None:
        """Serve the other brokers from now on, while this node leads. On the controller's thread."""
        self._has_duties = True
        if self._active and self._peers.brokers:
            self._duties.start()

    def known_to_all(self) -> bool:
        """Whether every live broker has read the whole log. On the controller's thread."""
        return self._duties.all_have_everything()

    def call(self, fn: Callable[[], T]) -> T:
        """Return what `fn` returns, or raise its error, after a call on the controller's thread."""
        return call_on(self._dispatcher, fn)

    def stop(self) -> None:
        """End the controller's thread; waiting commands are dropped with their connections."""
        if self._dispatcher.running:
            self.call(self._duties.stop)
            self.call(self._replica.stop)
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
        if not self._duties.read(command, reply):
            self.in_turn(lambda: self._serve(command, reply))

    @property
    def newest(self) -> MetadataImage:
        """The published image, with the change on top that is not committed yet."""
        return self._newest

    @property
    def writing(self) -> bool:
        """Whether a change waits to be committed. On the controller's thread."""
        return self._change is not None or self._preparing

    def in_turn(self, call: Callable[[], object]) -> None:
        """Call now, or when the change that is under way is published or dropped."""
        self._turns.append(call)
        while self._turns and not self.writing:
            self._turns.popleft()()

    def _serve(self, command: Command, reply: Reply) -> None:
        try:
            self._carry_out(command, reply)
        except Exception as error:  # noqa: BLE001 - the client must be answered; the state may be wrong
            _log.exception("%s failed; the metadata is read again from its log", type(command).__name__)
            self._reload()
            self._refuse(command, reply, Outcome(ErrorCode.UNKNOWN_SERVER_ERROR, f"{type(error).__name__}: {error}"))

    def _refuse(self, command: Command, reply: Reply, outcome: Outcome) -> None:
        self._node.data_plane.execute(lambda: reply(command.refused(outcome)))

    def _reload(self) -> None:
        """Read the committed log again, and publish the difference from the published image."""
        self._change = None
        try:
            newest = self.metadata.load(up_to=self._quorum.high_watermark).image
            delta = ImageDelta.between(self._node.metadata.image, newest)
            self._publisher.prepare(delta)
            self._on_data_plane(delta)
        except Exception as error:  # noqa: BLE001 - every later command is refused, and the broker still serves
            self._broken = StorageError(f"the metadata cannot be read again ({error}); restart the broker")
            _log.exception("%s", self._broken)

    def _carry_out(self, command: Command, reply: Reply) -> None:
        if self._replica.carry_out(command, reply, self._duties.replicas):
            return
        if not self._active:
            self._refuse(command, reply, _NOT_CONTROLLER)
            return
        if self._duties.carry_out(command, reply):
            return
        try:
            made = plan(self.facts(), command)
            if isinstance(command, UpdateFeatures) and not made.answer.code and self._replica.upgrades(command):
                self._replica.upgrade(lambda changed: self._upgraded(changed, made, reply))
                return
            self.write(made, reply, command)
        except BrokerError as error:
            self._refuse(command, reply, Outcome(error.code, str(error)))

    def _upgraded(self, changed: Changed, made: PlannedChange, reply: Reply) -> None:
        """The log names its voters from now on, or does not: give the other features their levels."""
        if changed.code:
            outcome = Outcome(changed.code, changed.message)
            self._node.data_plane.execute(lambda: reply(outcome))
            return
        self.in_turn(lambda: self.write(made, reply, UpdateFeatures(())))

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
            kraft_version=0 if node.voters is None else 1,
            kraft_obstacle=self._replica.obstacle,
        )

    def write(self, made: PlannedChange, reply: Reply, command: Command | None = None) -> None:
        """Append a plan; when it is committed and published, `reply` gets its answer on the data plane's thread.

        Raises BrokerError, and then nothing has changed. If this node loses the leadership before, `reply` gets the refusal of
        `command`."""
        if not made.records:
            self._node.data_plane.execute(lambda: reply(made.answer))
            return
        assert self._change is None
        if self._broken is not None:
            raise self._broken
        if not self._active:
            raise Refusal(ErrorCode.NOT_CONTROLLER, _NOT_CONTROLLER.message)
        delta = apply_records(self._newest, made.records, self.metadata.end_offset + len(made.records) - 1)
        if self._is_long(delta):
            change = self._change = Change(delta, [], made, reply, command)
            self._newest = delta.image
            self._prepare(delta, partial(self._prepared_to_write, change))
            return
        folders = self._publisher.prepare(delta)
        self._change = Change(delta, folders, made, reply, command)
        self._newest = delta.image
        self._append_change(made.records)

    def _append_change(self, records: Sequence[MetadataRecord]) -> None:
        try:
            self._quorum.append(records)
        except StorageError as error:
            if self._change is None:
                raise  # the change is committed, and the broker cannot follow it
            if isinstance(error, StorageShortage):  # nothing is on the disk, and the client may ask again
                self._drop(self._change)
                raise
            # The records may or may not be on disk, so no later command may follow them. A restart reads the disk.
            self._drop(self._change)
            raise (self._broken or self._broken_off(error)) from error

    # --- many new partitions ---

    def _is_long(self, delta: ImageDelta) -> bool:
        """Whether the folders of a change take so long that the other controllers would elect another leader meanwhile."""
        new = sum(len(topic.partitions) for topic in (*delta.created, *delta.changed))
        return self._peers.voters and new > MOST_AT_ONCE

    def _prepare(self, delta: ImageDelta, then: Callable[[HelperOutcome[list[tuple[str, int]]]], object]) -> None:
        """Make the folders of a change on a helper thread, then call `then` on this one. Nothing else is written or published meanwhile."""
        self._preparing = True

        def prepared(outcome: HelperOutcome[list[tuple[str, int]]]) -> None:
            self._preparing = False
            then(outcome)
            self._follow()

        def here(outcome: HelperOutcome[list[tuple[str, int]]]) -> None:
            try:
                self._dispatcher.execute(lambda: prepared(outcome))
            except DispatcherStopped:
                pass  # the broker is stopping

        self._node.helpers.run(lambda: self._publisher.prepare(delta), here)

    def _prepared_to_write(self, change: Change, outcome: HelperOutcome[list[tuple[str, int]]]) -> None:
        if self._change is not change:  # another node leads
            self._publisher.withdraw(outcome.value or ())
            return
        change.folders.extend(outcome.value or ())
        error = outcome.error or self._broken
        try:
            if error is None:
                self._append_change(change.made.records)
        except BrokerError as cause:
            error = cause
        if error is not None:
            if self._change is change:
                self._drop(change)
            if change.command is not None:
                code = error.code if isinstance(error, BrokerError) else ErrorCode.UNKNOWN_SERVER_ERROR
                self._refuse(change.command, change.reply, Outcome(code, str(error)))

    def _prepared_to_publish(self, delta: ImageDelta, outcome: HelperOutcome[list[tuple[str, int]]]) -> None:
        if isinstance(outcome.error, BrokerError) and not isinstance(outcome.error, StorageShortage):
            self._quorum.halt(outcome.error)
            return
        if not isinstance(outcome.error, StorageShortage):
            outcome.get()
        self._on_data_plane(delta)
        self._snapshot()

    def _drop(self, change: Change) -> None:
        """Take back a change that is not committed."""
        self._change = None
        self._newest = self._published
        self._publisher.withdraw(change.folders)

    # --- called by the quorum, on the controller's thread ---

    def committed(self, high_watermark: int) -> None:
        """Publish the records below this offset: they are committed, and in the own log."""
        self.metadata.commit(high_watermark)
        self._replica.committed(high_watermark)
        self._committed = high_watermark
        self._follow()

    def _follow(self) -> None:
        """Publish what is committed, unless the folders of an earlier change are being made: it comes first."""
        metadata, quorum, high_watermark = self.metadata, self._quorum, self._committed
        if self._preparing:
            return
        change = self._change
        if not self._begun:
            if high_watermark < quorum.known_high_watermark:
                return  # older metadata must not decide which folders are deleted
            self._begin(metadata.load(up_to=high_watermark))
        elif change is not None:
            if change.delta.image.offset < high_watermark:
                self._change = None
                self._publish(change)
        elif self._published.offset + 1 < high_watermark:
            try:
                delta = metadata.load(self._published, high_watermark)
            except BrokerStartError as error:  # the quorum halts this node
                raise StorageError(str(error)) from error
            if self._is_long(delta):
                self._prepare(delta, partial(self._prepared_to_publish, delta))
                return
            with suppress(StorageShortage):  # partitions without a folder get it when they are applied, or later
                self._publisher.prepare(delta)
            self._on_data_plane(delta)
            self._snapshot()
        if quorum.leads and not self._active:
            self._take_over()
        self.in_turn(lambda: None)

    def _begin(self, delta: ImageDelta) -> None:
        """Publish the metadata for the first time."""
        self._begun = True
        if not self._peers.voters:
            self._publisher.reconcile(delta)
        else:
            self._publisher.discard_strays(delta.image, delta.was_deleted)
            self._publisher.prepare(delta)
        self._on_data_plane(delta)
        self._followed.set_result(None)

    def leader_changed(self, leader: int | None, epoch: int) -> None:
        """Another node leads, this one does, or none is known. A controller that no longer leads ends its duties."""
        self._replica.leader_changed()
        self._peers.on_leader(leader, epoch, self._replica.address_of(leader))
        if not self._active:
            return
        self._active = False
        self._duties.stop()
        change = self._change
        if change is not None:
            self._drop(change)
            if change.command is not None:
                self._refuse(change.command, change.reply, _NOT_CONTROLLER)
        self.in_turn(lambda: None)

    @property
    def broken(self) -> bool:
        """Whether this node no longer follows the metadata log. From any thread."""
        return self._broken is not None

    def halted(self, error: BrokerError) -> None:
        """Refuse every later change, and end a node that has others beside it: its disk fails, or its committed records are not the leader's.

        The others elect another leader. This node would serve metadata that gets older and older."""
        self._broken_off(error)

    def _broken_off(self, error: BrokerError) -> StorageError:
        """Stop following the metadata log. Return the error of every later change."""
        self._broken = broken = StorageError(f"the metadata log cannot be written ({error}); restart the broker")
        _log.error("%s", self._broken)
        if self._peers.brokers:
            self._node.on_fault(
                f"node {self._node.node_id} ends, because it cannot follow the metadata log: {error}; repair its disk and start it again"
            )
        if not self._followed.done():
            self._followed.set_exception(broken)
        self._peers.on_leader(None, self._quorum.epoch, None)  # this node hears of no leader any longer
        return broken

    def _take_over(self) -> None:
        """Begin to serve as the controller of the cluster: everything before is committed and published."""
        self._active = True
        if self.metadata.in_transaction:
            try:
                self._quorum.append([AbortTransaction("the controller that began it has stopped")])
            except StorageShortage:
                self._active = False
                raise
        if self._peers.voters and METADATA_VERSION not in self._newest.features:
            first = first_features(self.metadata.bootstrap(), self._node.config.min_insync_replicas)
            self._turns.appendleft(lambda: self.write(PlannedChange(first, None), lambda _: None))
        if self._has_duties and self._peers.brokers:
            self._duties.start()

    def _publish(self, change: Change) -> None:
        for topic in change.delta.created:
            _log.info("topic %s created: %d partitions", topic.name, len(topic.partitions))
        for topic in change.delta.deleted:
            _log.info("topic %s deleted", topic.name)
        # The next command is planned after this change is published: it may create a folder that is deleted now.
        self._on_data_plane(change.delta, lambda: change.reply(change.made.answer))
        self._snapshot()

    def _snapshot(self) -> None:
        try:
            self.metadata.snapshot(self._newest, self._node.config.metadata_log_max_record_bytes_between_snapshots)
        except BrokerError as error:
            _log.warning("%s; the metadata log keeps growing", error)

    def _on_data_plane(self, delta: ImageDelta, then: Callable[[], object] = lambda: None) -> None:
        """Publish a delta and call `then` on the data plane's thread, and wait. Raises the errors of publishing."""
        self._newest = self._published = delta.image

        def publish() -> None:
            self._publisher.apply(delta)
            self._node.metadata.publish(delta)
            then()

        call_on(self._node.data_plane, publish)


def _check_identity(node: Runtime) -> None:
    """Raise BrokerStartError if the data folder is that of another node."""
    config, node_id = node.config, node.node_id
    asked = config.effective_node_id
    if asked != node_id and config.static.keys() & {"node.id", "broker.id"}:
        raise BrokerStartError(
            f"the data folder {node.logs.folder} is of node {node_id}, and node.id={asked}; "
            f"start with node.id={node_id}, or with another --data folder"
        )
