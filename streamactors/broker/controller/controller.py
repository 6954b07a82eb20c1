"""The controller: the writer of the metadata log while this node leads its quorum. It turns commands into records, and publishes
the images of committed records.

Owner: its own dispatcher, because the data plane must not wait for the disk. The controller serves one command after the other: a
command waits until the change before it is committed and published. The rules beside this file are pure, and this class carries
out their plans. A change that is not committed when another node takes over is dropped with its image.

The file has over 400 lines because the
turns of commands, of the quorum and of publication change the same state."""

from __future__ import annotations

import logging
import random
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final

from streamactors.actors.dispatching.dispatcher import Dispatcher, DispatcherStopped
from streamactors.broker.controller.change import Change, Publisher, Reply, Submitted
from streamactors.broker.controller.cluster_command import ProcessEnded
from streamactors.broker.controller.command import Command, Facts, Outcome, Plan
from streamactors.broker.controller.duties import Duties
from streamactors.broker.controller.ended_process import when_ended
from streamactors.broker.controller.metadata_log import MetadataLog
from streamactors.broker.controller.own_broker import OwnBroker
from streamactors.broker.controller.own_replica import OwnReplica, no_leader
from streamactors.broker.controller.rules.feature_rules import UpdateFeatures, first_features
from streamactors.broker.controller.rules.plan import plan
from streamactors.broker.controller.rules.registration import new_topic_id
from streamactors.broker.controller.self_registration import SelfRegistration
from streamactors.broker.errors import BrokerError, BrokerStartError, ErrorCode, Refusal, StorageError, StorageShortage
from streamactors.broker.helpers import HelperOutcome, call_on
from streamactors.broker.metadata.delta import ImageDelta, apply_records
from streamactors.broker.metadata.image import METADATA_VERSION, NO_LEADER, MetadataImage
from streamactors.broker.metadata.metadata_record import BrokerRegistration, Endpoint, MetadataRecord
from streamactors.broker.metadata.transaction_record import AbortTransaction
from streamactors.broker.quorum.quorum import Quorum
from streamactors.broker.quorum.voter_requests import Changed

if TYPE_CHECKING:
    from streamactors.broker.runtime import Runtime

_log = logging.getLogger("streamactors.broker.controller")

_NOT_CONTROLLER: Final = Outcome(ErrorCode.NOT_CONTROLLER, "this node is not the active controller")
MOST_AT_ONCE: Final = 50  # new partitions whose folders are made without a helper thread


class Controller:
    """Carries out commands, and publishes images to the `MetadataCache` that requests read."""

    def __init__(
        self,
        node: Runtime,
        publisher: Publisher,
        *,
        leads_others: bool = False,
        on_leader: Callable[[int | None, int], object] | None = None,
    ) -> None:
        """`leads_others`: other brokers may join. One of several controllers calls `on_leader` on its thread with each new leader of the quorum,
        None if none is known, and the epoch."""
        self._leads_others = leads_others
        self._on_leader = on_leader
        self._replica: OwnReplica | None = None
        self._followed: Future[None] = Future()
        self._duties: Duties | None = None
        self._registration: SelfRegistration | None = None
        self._node = node
        self._publisher = publisher
        self._dispatcher = Dispatcher(f"{node.data_plane.name}-controller", node.clock)
        self._cell = self._dispatcher.spawn(self._receive, "controller")
        self._own = OwnBroker(node, self._dispatcher, self, leads_others=leads_others)
        self._metadata: MetadataLog | None = None
        self._quorum: Quorum | None = None
        # the rest on the controller's thread
        self._published: MetadataImage | None = None
        self._newest = MetadataImage()  # the published image, with the change on top that is not committed yet
        self._change: Change | None = None
        self._preparing = False  # True while a helper thread makes the folders of many new partitions
        self._committed = 0
        self._turns: deque[Callable[[], object]] = deque()  # wait for the end of the change
        self._active = False
        self._registered = False
        self._broken: BrokerError | None = None

    @property
    def active(self) -> bool:
        """Whether this controller leads the cluster. From any thread."""
        return self._active

    # --- life ---

    def start(self) -> None:
        """Read the metadata log, take part in its quorum, and host its partitions. Blocks until the only voter leads. Raises BrokerStartError."""
        self._own.check_identity()
        node = self._node
        self._metadata = metadata = MetadataLog.open(node.logs, node.clock.wall_ms)
        self._replica = OwnReplica(node, self._dispatcher, metadata, self)
        self._quorum = self._replica.quorum
        self._registered = self._on_leader is not None
        if self._leads_others:
            self._duties = Duties(
                self,
                self._dispatcher,
                self._metadata,
                self._quorum,
                own_id=node.node_id if self._on_leader is None else NO_LEADER,
                cluster_id=node.cluster_id,
                session_ms=node.config.broker_session_timeout_ms,
                balance_ms=(
                    1000.0 * node.config.leader_imbalance_check_interval_seconds
                    if node.config.auto_leader_rebalance_enable
                    else None
                ),
                idle_ms=node.config.metadata_max_idle_interval_ms,
                look_at=self._look_at,
            )
        if self._on_leader is not None:
            self._registration = SelfRegistration(node, self._dispatcher, self._replica, self._submit_own)
        call_on(self._dispatcher, self._quorum.start)

    def address_of(self, controller: int | None) -> tuple[str, int] | None:
        """Return where a controller listens, None if that is not known. On the controller's thread."""
        return None if self._replica is None else self._replica.address_of(controller)

    def await_leader(self, within_s: float) -> None:
        """Wait until the quorum has a leader, and this node follows its metadata. Raises BrokerStartError."""
        try:
            self._followed.result(within_s)
        except TimeoutError:
            raise BrokerStartError(no_leader(self._node, within_s)) from None

    def register(self, endpoints: Iterable[Endpoint]) -> None:
        """Register this broker with its listeners, and elect it as a leader where possible. Blocks; called before serving."""
        assert self._metadata is not None
        self._own.register(endpoints, self._metadata)
        call_on(self._dispatcher, self._has_registered)

    def _look_at(self, broker: BrokerRegistration) -> None:
        if self._node.config.controller_fence_closed_connections:
            command = ProcessEnded(broker.broker_id, broker.broker_epoch)
            when_ended(self._node.helpers, broker, lambda: self.submit(command, lambda _: None))

    def _has_registered(self) -> None:
        self._registered = True
        if self._active and self._duties is not None:
            self._duties.start()

    def leave(self) -> None:
        """Move the leaderships of this broker to others, before it stops and its cluster has no controller. Blocks."""
        if not self.broken:  # else it can write nothing any more
            self._own.leave(self._known_to_all)

    def _known_to_all(self) -> bool:
        return self._duties is None or self._duties.all_have_everything()

    def stop(self) -> None:
        """End the controller's thread; waiting commands are dropped with their connections."""
        if self._dispatcher.running:
            for part in (self._duties, self._registration, self._replica):
                if part is not None:
                    call_on(self._dispatcher, part.stop)
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
        if self._duties is None or not self._duties.read(command, reply):
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
        metadata, quorum = self._metadata, self._quorum
        assert metadata is not None
        assert quorum is not None
        self._change = None
        try:
            newest = metadata.load(up_to=quorum.high_watermark).image
            delta = ImageDelta.between(self._node.metadata.image, newest)
            self._publisher.prepare(delta)
            self._on_data_plane(delta)
        except Exception as error:  # noqa: BLE001 - every later command is refused, and the broker still serves
            self._broken = StorageError(f"the metadata cannot be read again ({error}); restart the broker")
            _log.exception("%s", self._broken)

    def _carry_out(self, command: Command, reply: Reply) -> None:
        assert self._replica is not None
        if self._replica.carry_out(command, reply, {} if self._duties is None else self._duties.replicas):
            return
        if not self._active:
            self._refuse(command, reply, _NOT_CONTROLLER)
            return
        if self._duties is not None and self._duties.carry_out(command, reply):
            return
        try:
            made = plan(self.facts(), command)
            if isinstance(command, UpdateFeatures) and not made.answer.code and self._replica.upgrades(command):
                self._replica.upgrade(lambda changed: self._upgraded(changed, made, reply))
                return
            self.write(made, reply, command)
        except BrokerError as error:
            self._refuse(command, reply, Outcome(error.code, str(error)))

    def _upgraded(self, changed: Changed, made: Plan, reply: Reply) -> None:
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
            kraft_obstacle=(lambda: None) if self._replica is None else self._replica.obstacle,
        )

    def write(self, made: Plan, reply: Reply, command: Command | None = None) -> None:
        """Append a plan; when it is committed and published, `reply` gets its answer on the data plane's thread.

        Raises BrokerError, and then nothing has changed. If this node loses the leadership before, `reply` gets the refusal of
        `command`."""
        if not made.records:
            self._node.data_plane.execute(lambda: reply(made.answer))
            return
        metadata, quorum = self._metadata, self._quorum
        assert metadata is not None
        assert quorum is not None
        assert self._change is None
        if self._broken is not None:
            raise self._broken
        if not self._active:
            raise Refusal(ErrorCode.NOT_CONTROLLER, _NOT_CONTROLLER.message)
        delta = apply_records(self._newest, made.records, metadata.end_offset + len(made.records) - 1)
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
        quorum = self._quorum
        assert quorum is not None
        try:
            quorum.append(records)
        except StorageError as error:
            if self._change is None:
                raise  # the change is committed, and the broker cannot follow it
            if isinstance(error, StorageShortage):  # nothing is on the disk, and the client may ask again
                self._drop(self._change)
                raise
            # The records may or may not be on disk, so no later command may follow them. A restart reads the disk.
            self._drop(self._change)
            if self._broken is None:
                self.halted(error)
            assert self._broken is not None
            raise self._broken from error

    # --- many new partitions ---

    def _is_long(self, delta: ImageDelta) -> bool:
        """Whether the folders of a change take so long that the other controllers would elect another leader meanwhile."""
        new = sum(len(topic.partitions) for topic in (*delta.created, *delta.changed))
        return self._on_leader is not None and new > MOST_AT_ONCE

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
            assert self._quorum is not None
            self._quorum.halt(outcome.error)
            return
        if not isinstance(outcome.error, StorageShortage):
            outcome.get()
        self._on_data_plane(delta)
        self._snapshot()

    def _drop(self, change: Change) -> None:
        """Take back a change that is not committed."""
        assert self._published is not None
        self._change = None
        self._newest = self._published
        self._publisher.withdraw(change.folders)

    # --- what the quorum says; on the controller's thread ---

    def committed(self, high_watermark: int) -> None:
        """Publish the records below this offset (see `quorum.QuorumOwner`)."""
        metadata, quorum = self._metadata, self._quorum
        assert metadata is not None
        assert quorum is not None
        metadata.commit(high_watermark)
        if self._replica is not None:
            self._replica.committed(high_watermark)
        self._committed = high_watermark
        self._follow()

    def _follow(self) -> None:
        """Publish what is committed, unless the folders of an earlier change are being made: it comes first."""
        metadata, quorum, high_watermark = self._metadata, self._quorum, self._committed
        assert metadata is not None
        assert quorum is not None
        if self._preparing:
            return
        change = self._change
        if self._published is None:
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
        if self._on_leader is None:
            self._publisher.reconcile(delta)
        else:
            self._publisher.discard_strays(delta.image, delta.was_deleted)
            self._publisher.prepare(delta)
        self._on_data_plane(delta)
        self._followed.set_result(None)

    def leader_changed(self, leader: int | None, epoch: int) -> None:
        """End the duties of a controller that leads no longer (see `quorum.QuorumOwner`)."""
        assert self._quorum is not None
        assert self._replica is not None
        self._replica.leader_changed()
        if self._on_leader is not None:
            self._on_leader(leader, epoch)
        if not self._active:
            return
        self._active = False
        if self._duties is not None:
            self._duties.stop()
        change = self._change
        if change is not None:
            self._drop(change)
            if change.command is not None:
                self._refuse(change.command, change.reply, _NOT_CONTROLLER)
        self.in_turn(lambda: None)

    @property
    def broken(self) -> bool:
        """Whether this node follows the metadata log no longer. From any thread."""
        return self._broken is not None

    def halted(self, error: BrokerError) -> None:
        """Refuse every later change, and end a node that has others beside it (see `quorum.QuorumOwner`).

        They elect another leader. This node would serve metadata that gets older and older."""
        self._broken = StorageError(f"the metadata log cannot be written ({error}); restart the broker")
        _log.error("%s", self._broken)
        if self._leads_others:
            self._node.on_fault(
                f"node {self._node.node_id} ends, because it cannot follow the metadata log: {error}; repair its disk and start it again"
            )
        if not self._followed.done():
            self._followed.set_exception(self._broken)
        if self._on_leader is not None and self._quorum is not None:
            self._on_leader(None, self._quorum.epoch)  # this node hears of no leader any longer

    def _take_over(self) -> None:
        """Begin to serve as the controller of the cluster: everything before is committed and published."""
        metadata, quorum = self._metadata, self._quorum
        assert metadata is not None
        assert quorum is not None
        self._active = True
        if metadata.in_transaction:
            try:
                quorum.append([AbortTransaction("the controller that began it has stopped")])
            except StorageShortage:
                self._active = False
                raise
        if self._on_leader is not None and METADATA_VERSION not in self._newest.features:
            first = first_features(metadata.bootstrap(), self._node.config.min_insync_replicas)
            self._turns.appendleft(lambda: self.write(Plan(first, None), lambda _: None))
        if self._registered and self._duties is not None:
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
        metadata = self._metadata
        assert metadata is not None
        try:
            metadata.snapshot(self._newest, self._node.config.metadata_log_max_record_bytes_between_snapshots)
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
        if self._registration is not None:
            self._registration.look(delta.image)

    def _submit_own(self, command: Command) -> None:
        self.in_turn(lambda: self._serve(command, lambda _: None))
