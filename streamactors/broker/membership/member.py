"""The metadata of a broker that is not a controller: it reads the log of the active controller, and makes the data plane follow it.

Owner: the membership's dispatcher, so that neither a slow request of the data plane nor a slow disk delays a heartbeat. The rules are in
`quorum.observer_state`. Folders of new partitions are made on a helper thread, and each change is applied on
the data plane's thread before the next one is prepared: a heartbeat reports only what the data plane follows."""

from __future__ import annotations

import logging
import uuid
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING, Final

from streamactors.actors.dispatching.dispatcher import Dispatcher, DispatcherStopped
from streamactors.actors.dispatching.timing_wheel import Timer
from streamactors.broker.errors import BrokerError, BrokerStartError, ErrorCode, StorageError, StorageShortage
from streamactors.broker.helpers import HelperOutcome
from streamactors.broker.membership.controller_channels import ControllerChannels
from streamactors.broker.membership.lifecycle import Lifecycle, why_refused
from streamactors.broker.membership.metadata_copy import MetadataCopy
from streamactors.broker.metadata.delta import ImageDelta
from streamactors.broker.metadata.image import MetadataImage
from streamactors.broker.metadata.topic_name import METADATA_TOPIC
from streamactors.broker.network.buffers import Buffers
from streamactors.broker.network.outgoing.opening import Address
from streamactors.broker.protocol.record_schema import CorruptRecord
from streamactors.broker.quorum.observer import Observer
from streamactors.errors import StreamActorsError

if TYPE_CHECKING:
    from streamactors.broker.runtime import Runtime
    from streamactors.broker.server.metadata_publisher import MetadataPublisher

_log = logging.getLogger("streamactors.broker.membership")


READ_AGAIN_MS: Final = 1_000.0
"""How long the metadata waits that cannot be read because no descriptor is left."""


class Member:
    """This broker's copy of the metadata log, in the place of a controller."""

    def __init__(
        self,
        node: Runtime,
        publisher: MetadataPublisher,
        dispatcher: Dispatcher,
        channels: ControllerChannels,
        life: Lifecycle,
        bootstrap: Sequence[Address],
    ) -> None:
        """Open the copy of the metadata. Raises BrokerStartError if it is damaged."""
        self._node = node
        self._publisher = publisher
        self._dispatcher = dispatcher
        self._channels = channels
        self._life = life
        self._bootstrap = bootstrap
        self._copy = MetadataCopy.open(node.logs, node.clock.wall_ms)
        self._observer = Observer(
            dispatcher,
            self._copy,
            self,
            bootstrap,
            node_id=node.node_id,
            cluster_id=node.cluster_id,
            directory_id=node.logs.properties.directory_id,
            buffers=Buffers(),
            to_controllers=node.to_controllers,
        )
        self._first_end: int | None = None  # the end of the log that the controllers named first
        self._deltas: deque[ImageDelta] = deque()
        self._first_deltas: list[ImageDelta] = []
        """The changes that were applied until the metadata was up to date for the first time: they say which topics were deleted."""
        self._reading_again: Timer | None = None
        self._publishing = False
        self._image = MetadataImage()  # applied by the data plane
        self._caught_up: Future[None] = Future()
        life.on_failure(self._failed)

    # --- life; from the thread that starts and stops the broker ---

    broken: Final = False
    """A broker that cannot follow the log ends at once."""

    def start(self) -> None:
        """Follow the controllers."""
        self._dispatcher.execute(self._observer.start)

    def await_metadata(self, within_s: float) -> None:
        """Wait until the metadata is up to date. Raises BrokerError."""
        try:
            self._caught_up.result(within_s)
        except TimeoutError:
            why = why_refused(ErrorCode.BROKER_NOT_AVAILABLE, self._node.cluster_id, self._bootstrap)
            raise BrokerStartError(f"{why}; tried for {within_s:g} s") from None

    def stop(self) -> None:
        """End the connections over which the log is read."""
        try:
            self._dispatcher.execute(self._observer.stop)
        except DispatcherStopped:
            pass  # it has ended already

    # --- on the dispatcher's thread: called by the observer ---

    def committed(self, high_watermark: int) -> None:
        """Apply the metadata below this offset: it is committed, and in the copy."""
        if self._first_end is None:
            self._first_end = high_watermark
        if self._reading_again is not None:
            self._reading_again.cancel()  # now there is more to read
            self._reading_again = None
        try:
            self._deltas.extend(self._copy.deltas(high_watermark))
        except StorageShortage:
            self._reading_again = self._dispatcher.call_later(READ_AGAIN_MS, partial(self.committed, high_watermark))
            return
        except StorageError as error:
            self._observer.stop()
            self.halted(error)
            return
        except (CorruptRecord, BrokerError) as error:
            self._life.fail(
                BrokerError(
                    f"the metadata of the cluster cannot be read: {error}; if folders of controllers were put back from copies, delete "
                    f"{METADATA_TOPIC}-0 in {self._node.logs.folder}, which is older or newer than they are: the controllers have the metadata"
                )
            )
            return
        self._node.voters = self._copy.voters
        self._publish()

    def leader_changed(self, leader_id: int, epoch: int, address: Address | None) -> None:
        """Send requests to another controller."""
        self._channels.leader_changed(leader_id, epoch, address)

    def refused(self, error: ErrorCode) -> None:
        """Stop the broker: the controllers do not let it read the log."""
        self._life.fail(BrokerStartError(why_refused(error, self._node.cluster_id, self._bootstrap)))

    def halted(self, error: BrokerError) -> None:
        """End the broker: its copy cannot follow the log, and it would serve metadata that gets older and older."""
        node_id = self._node.node_id
        if not self._caught_up.done():
            self._caught_up.set_exception(error)
        self._node.on_fault(
            f"node {node_id} ends, because it cannot follow the metadata log: {error}; repair its disk and start it again"
        )

    # --- publishing: prepare on a helper, apply on the data plane, then the next ---

    def _publish(self) -> None:
        if self._publishing or not self._deltas:
            if self._first_end is not None and not self._deltas and not self._publishing:
                self._now_caught_up()
            return
        self._publishing = True
        delta = self._deltas.popleft()
        if not self._caught_up.done():
            self._first_deltas.append(delta)
        try:
            self._node.helpers.run(
                lambda: self._publisher.prepare(delta), lambda outcome: self._prepared(delta, outcome)
            )
        except RuntimeError:
            pass  # the helpers have ended: the broker is stopping

    def _prepared(self, delta: ImageDelta, outcome: HelperOutcome[list[tuple[str, int]]]) -> None:
        """Apply a change; on the data plane's thread."""
        # Partitions without a folder get it when they are applied, or later.
        if outcome.error is not None and not isinstance(outcome.error, StorageShortage):
            _log.error("folders of new partitions cannot be made: %s", outcome.error)
        self._publisher.apply(delta)
        self._node.metadata.publish(delta)
        try:
            self._dispatcher.execute(partial(self._published, delta))
        except DispatcherStopped:
            pass  # the broker is stopping

    def _published(self, delta: ImageDelta) -> None:
        self._publishing = False
        self._image = delta.image
        try:
            self._copy.snapshot(delta.image, self._node.config.metadata_log_max_record_bytes_between_snapshots)
        except BrokerError as error:
            _log.warning("%s; the metadata log keeps growing", error)
        self._publish()

    def _now_caught_up(self) -> None:
        """Remove logs that the cluster does not know, before any later change makes new ones; then continue the start."""
        assert self._first_end is not None
        if self._caught_up.done() or self._image.offset < self._first_end - 1:
            return
        self._publishing = True
        image, deltas = self._image, tuple(self._first_deltas)

        def was_deleted(topic_id: uuid.UUID | None) -> bool:
            return any(each.was_deleted(topic_id) for each in deltas)

        def discarded(outcome: HelperOutcome[None]) -> None:
            if outcome.error is not None:
                _log.error("logs that the cluster does not know cannot be removed: %s", outcome.error)
            try:
                self._dispatcher.execute(go_on)
            except DispatcherStopped:
                pass  # the broker is stopping

        def go_on() -> None:
            self._publishing = False
            self._first_deltas.clear()
            if not self._caught_up.done():
                self._caught_up.set_result(None)
            self._publish()

        try:
            self._node.helpers.run(lambda: self._publisher.discard_strays(image, was_deleted), discarded)
        except RuntimeError:
            pass  # the helpers have ended: the broker is stopping

    def _failed(self, error: StreamActorsError) -> None:
        self._observer.stop()
        if not self._caught_up.done():
            self._caught_up.set_exception(error)
