"""A broker as a member of a cluster: it follows the metadata of the active controller, registers there, and sends heartbeats.

Owner: its own dispatcher, so that neither a slow request of the data plane nor a slow disk delays a heartbeat. The rules are in
`lifecycle_state` and `quorum.observer_state`. Folders of new partitions are made on a helper thread, and each change is applied on
the data plane's thread before the next one is prepared: a heartbeat reports only what the data plane follows."""

from __future__ import annotations

import logging
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

from streamactors.actors.dispatcher import Dispatcher, DispatcherStopped
from streamactors.actors.timing_wheel import Timer
from streamactors.broker.errors import BrokerError, BrokerStartError, ErrorCode
from streamactors.broker.helpers import Outcome
from streamactors.broker.membership import lifecycle_state as lifecycle
from streamactors.broker.membership.lifecycle_state import Life, Phase, Times
from streamactors.broker.membership.metadata_copy import MetadataCopy
from streamactors.broker.metadata.delta import ImageDelta
from streamactors.broker.metadata.image import METADATA_VERSION, MetadataImage
from streamactors.broker.metadata.metadata_record import Endpoint, Feature
from streamactors.broker.network.channel import (
    REQUEST_TIMEOUT_MS,
    Address,
    Answer,
    Buffers,
    Channel,
    ChannelBroken,
)
from streamactors.broker.protocol.record_schema import CorruptRecord
from streamactors.broker.quorum.observer import Observer
from streamactors.errors import StreamActorsError

if TYPE_CHECKING:
    from streamactors.broker.runtime import Runtime

_log = logging.getLogger("streamactors.broker.membership")

SUPPORTED_FEATURES: Final = (Feature(METADATA_VERSION, 7, 27), Feature("kraft.version", 0, 1))
"""A level is named only if all of it is implemented."""
BROKER_REGISTRATION: Final = (62, 4)
BROKER_HEARTBEAT: Final = (63, 1)


class Publisher(Protocol):
    """Makes the broker follow the image: `metadata_publisher.MetadataPublisher`."""

    def prepare(self, delta: ImageDelta) -> object: ...

    def apply(self, delta: ImageDelta) -> None: ...

    def discard_strays(self, image: MetadataImage) -> None: ...


class Member:
    """The broker's part in a cluster."""

    def __init__(
        self,
        node: Runtime,
        publisher: Publisher,
        bootstrap: Sequence[Address],
        *,
        times: Times,
        previous_epoch: int,
        on_failure: Callable[[StreamActorsError], object],
    ) -> None:
        self._node = node
        self._publisher = publisher
        self._bootstrap = bootstrap
        self._previous_epoch = previous_epoch
        self._on_failure = on_failure
        self._dispatcher = Dispatcher(f"{node.data_plane.name}-member", node.clock)
        self._now_ms = node.clock.now_ms
        self._buffers = Buffers()
        self._life = Life(times)
        self._incarnation = uuid.uuid4()
        self._endpoints: tuple[Endpoint, ...] = ()
        self._observer: Observer | None = None
        self._copy: MetadataCopy | None = None
        self._controller: Channel | None = None  # for registration and heartbeats
        self._asked: Channel | None = None  # for all other requests: a slow one must not delay a heartbeat
        self._timer: Timer | None = None
        self._first_end: int | None = None  # the end of the log that the controllers named first
        self._deltas: deque[ImageDelta] = deque()
        self._publishing = False
        self._image = MetadataImage()  # applied by the data plane
        self._failure: StreamActorsError | None = None
        self._caught_up: Future[None] = Future()
        self._registered: Future[None] = Future()
        self._unfenced: Future[None] = Future()
        self._left: Future[bool] = Future()

    # --- life; from the thread that starts and stops the broker ---

    def start(self) -> None:
        """Open the copy of the metadata, and follow the controllers until it is up to date. Blocks. Raises BrokerError."""
        self._copy = MetadataCopy.open(self._node.logs, self._node.clock.wall_ms)
        properties = self._node.logs.properties
        self._observer = Observer(
            self._dispatcher,
            self._copy,
            self,
            self._bootstrap,
            node_id=self._node.node_id,
            cluster_id=self._node.cluster_id,
            directory_id=properties.directory_id,
            buffers=self._buffers,
        )
        self._dispatcher.execute(self._observer.start)
        within_s = self._life.times.registration_timeout_ms / 1000
        try:
            self._caught_up.result(within_s)
        except TimeoutError:
            why = _why_refused(ErrorCode.BROKER_NOT_AVAILABLE, self._node.cluster_id, self._bootstrap)
            raise BrokerStartError(f"{why}; tried for {within_s:g} s") from None

    def register(self, endpoints: Iterable[Endpoint]) -> None:
        """Register this broker with its listeners; it stays fenced. Blocks. Raises BrokerError if the cluster refuses it."""
        self._endpoints = tuple(endpoints)
        self._dispatcher.execute(partial(self._step, lifecycle.CaughtUp()))
        self._registered.result()

    def ready(self) -> None:
        """Let clients be sent here, now that they can be served. Blocks until it is so. Raises BrokerError."""
        self._dispatcher.execute(partial(self._step, lifecycle.Ready()))
        self._unfenced.result()

    def leave(self, timeout_s: float) -> int:
        """Leave the cluster in order: leaderships move to other brokers first. Blocks. Return the broker epoch for the
        clean-shutdown file, -1 if the controllers did not grant the departure within the time."""
        try:
            self._dispatcher.execute(partial(self._step, lifecycle.StopAsked()))
            return self._life.broker_epoch if self._left.result(timeout_s) else -1
        except (DispatcherStopped, TimeoutError):
            return -1

    def stop(self) -> None:
        """End every connection and the thread."""

        def close() -> None:
            if self._observer is not None:
                self._observer.stop()
            for channel in (self._controller, self._asked):
                if channel is not None:
                    channel.close("this broker stops")
            if self._timer is not None:
                self._timer.cancel()

        try:
            self._dispatcher.execute(close)
        except DispatcherStopped:
            return
        self._dispatcher.stop()

    # --- requests to the active controller; from any thread ---

    def ask(self, api: tuple[int, int], body: Mapping[str, Any], then: Callable[[Answer], object]) -> None:
        """Send a request to the active controller; `then` gets the answer on the data plane's thread."""

        def deliver(answer: Answer) -> None:
            try:
                self._node.data_plane.execute(lambda: then(answer))
            except DispatcherStopped:
                pass  # the broker has stopped

        try:
            self._dispatcher.execute(lambda: _send(self._asked, api, body, deliver))
        except DispatcherStopped:
            pass  # the broker is stopping, and its connections are closed

    @property
    def broker_epoch(self) -> int:
        """The epoch of the current registration, -1 before it."""
        return self._life.broker_epoch

    @property
    def fenced(self) -> bool:
        """Whether the controllers keep clients away from this broker."""
        return self._life.phase is not Phase.UNFENCED

    # --- on the dispatcher's thread: the quorum ---

    def committed(self, high_watermark: int) -> None:
        """Apply the committed metadata (see `quorum.Handler`)."""
        assert self._copy is not None
        if self._first_end is None:
            self._first_end = high_watermark
        try:
            self._deltas.extend(self._copy.deltas(high_watermark))
        except (CorruptRecord, BrokerError) as error:
            self._fail(BrokerError(f"the metadata of the cluster cannot be read: {error}"))
            return
        self._publish()

    def leader_changed(self, leader_id: int, epoch: int, address: Address | None) -> None:
        """Send requests to another controller (see `quorum.Handler`)."""
        _log.info("controller %d leads in epoch %d", leader_id, epoch)
        before = (self._controller, self._asked)
        self._controller = self._asked = None
        if address is not None:
            self._controller = self._channel(address, self._timeout_ms())
            self._asked = self._channel(address, REQUEST_TIMEOUT_MS)
        for channel in before:
            if channel is not None:
                channel.close("another controller leads")

    def _channel(self, address: Address, timeout_ms: float) -> Channel:
        name = f"broker-{self._node.node_id}"
        return Channel(self._dispatcher, address, name, self._buffers, timeout_ms=timeout_ms)

    def refused(self, error: ErrorCode) -> None:
        """Stop the broker (see `quorum.Handler`)."""
        self._fail(BrokerStartError(_why_refused(error, self._node.cluster_id, self._bootstrap)))

    def _timeout_ms(self) -> float:
        return max(self._life.times.session_ms / 2, 500.0)

    # --- publishing: prepare on a helper, apply on the data plane, then the next ---

    def _publish(self) -> None:
        if self._publishing or not self._deltas:
            if self._first_end is not None and not self._deltas and not self._publishing:
                self._now_caught_up()
            return
        self._publishing = True
        delta = self._deltas.popleft()
        try:
            self._node.helpers.run(
                lambda: self._publisher.prepare(delta), lambda outcome: self._prepared(delta, outcome)
            )
        except RuntimeError:
            pass  # the helpers have ended: the broker is stopping

    def _prepared(self, delta: ImageDelta, outcome: Outcome[object]) -> None:
        """Apply a change; on the data plane's thread."""
        if outcome.error is not None:  # partitions without a folder are created again when they are applied
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
        own = delta.image.brokers.get(self._node.node_id)
        registered = own is not None and own.incarnation_id == self._incarnation
        self._step(lifecycle.Applied(delta.image.offset, delta.image.offset if registered else -1))
        assert self._copy is not None
        try:
            self._copy.snapshot(delta.image, self._node.config.metadata_log_max_record_bytes_between_snapshots)
        except BrokerError as error:
            _log.warning("%s; the metadata log keeps growing", error)
        self._publish()

    def _now_caught_up(self) -> None:
        """Remove logs that the cluster does not know, before any later change makes new ones; then the start goes on."""
        assert self._first_end is not None
        if self._caught_up.done() or self._image.offset < self._first_end - 1:
            return
        self._publishing = True
        image = self._image

        def discarded(outcome: Outcome[None]) -> None:
            if outcome.error is not None:
                _log.error("logs that the cluster does not know cannot be removed: %s", outcome.error)
            try:
                self._dispatcher.execute(go_on)
            except DispatcherStopped:
                pass  # the broker is stopping

        def go_on() -> None:
            self._publishing = False
            if not self._caught_up.done():
                self._caught_up.set_result(None)
            self._publish()

        try:
            self._node.helpers.run(lambda: self._publisher.discard_strays(image), discarded)
        except RuntimeError:
            pass  # the helpers have ended: the broker is stopping

    # --- the lifecycle ---

    def _step(self, event: lifecycle.Event) -> None:
        before = self._life.phase
        self._life, effects = lifecycle.step(self._life, event, self._now_ms())
        for effect in effects:
            self._carry_out(effect)
        if before is Phase.REGISTERING and self._life.phase is Phase.FENCED and not self._registered.done():
            self._registered.set_result(None)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._life.due_ms is not None:
            self._timer = self._dispatcher.call_at(self._life.due_ms, partial(self._step, lifecycle.Tick()))

    def _carry_out(self, effect: lifecycle.Effect) -> None:
        match effect:
            case lifecycle.SendRegistration():
                _send(self._controller, BROKER_REGISTRATION, self._registration(), self._got_registration)
            case lifecycle.SendHeartbeat(epoch, offset, want_fence, want_shut_down):
                body = {
                    "broker_id": self._node.node_id,
                    "broker_epoch": epoch,
                    "current_metadata_offset": offset,
                    "want_fence": want_fence,
                    "want_shut_down": want_shut_down,
                }
                _send(self._controller, BROKER_HEARTBEAT, body, self._got_heartbeat)
            case lifecycle.FencingChanged(fenced):
                (_log.warning if fenced else _log.info)(
                    "the controller has %s this broker", "fenced" if fenced else "unfenced"
                )
                if not fenced and not self._unfenced.done():
                    self._unfenced.set_result(None)
            case lifecycle.Fail(error):
                self._fail(BrokerStartError(self._why_failed(error)))
            case lifecycle.MayStop(granted):
                self._left.set_result(granted)

    def _registration(self) -> dict[str, Any]:
        directory = self._node.logs.properties.directory_id
        return {
            "broker_id": self._node.node_id,
            "cluster_id": self._node.cluster_id,
            "incarnation_id": self._incarnation,
            "listeners": [
                {"name": each.name, "host": each.host, "port": each.port, "security_protocol": each.protocol}
                for each in self._endpoints
            ],
            "features": [
                {"name": each.name, "min_supported_version": each.min_level, "max_supported_version": each.max_level}
                for each in SUPPORTED_FEATURES
            ],
            "rack": self._node.config.broker_rack,
            "log_dirs": [directory] if directory is not None else [],
            "previous_broker_epoch": self._previous_epoch,
        }

    def _got_registration(self, answer: Answer) -> None:
        if answer.error is not None or answer.value.error_code == ErrorCode.NOT_CONTROLLER:
            self._step(lifecycle.Unreachable())
            return
        self._step(lifecycle.Registered(ErrorCode(answer.value.error_code), answer.value.broker_epoch))

    def _got_heartbeat(self, answer: Answer) -> None:
        if answer.error is not None:
            _log.debug("heartbeat: %s", answer.error)
            self._step(lifecycle.Unreachable())
            return
        value = answer.value
        self._step(lifecycle.HeartbeatAnswered(ErrorCode(value.error_code), value.is_fenced, value.should_shut_down))

    # --- failure ---

    def _why_failed(self, error: ErrorCode) -> str:
        if error is ErrorCode.UNSUPPORTED_VERSION and self._controller is not None:
            ours = {each.name: each for each in SUPPORTED_FEATURES}
            missing = [
                f"{name}={level}"
                for name, level in sorted(self._controller.peer_features.items())
                if level and (name not in ours or not ours[name].min_level <= level <= ours[name].max_level)
            ]
            if missing:
                return (
                    f"the cluster has features on that this broker does not support: {', '.join(missing)}; "
                    "format the cluster with --feature NAME=0 for each, or turn them off with kafka-features"
                )
        return _why_refused(error, self._node.cluster_id, self._bootstrap)

    def _fail(self, error: StreamActorsError) -> None:
        if self._failure is not None:
            return
        self._failure = error
        if self._observer is not None:
            self._observer.stop()
        for each in (self._caught_up, self._registered, self._unfenced):
            if not each.done():
                each.set_exception(error)
        if not self._left.done():
            self._left.set_result(False)
        self._on_failure(error)


def _send(
    controller: Channel | None, api: tuple[int, int], body: Mapping[str, Any], then: Callable[[Answer], object]
) -> None:
    if controller is None:
        then(Answer(error=ChannelBroken("no controller leads at the moment")))
        return
    controller.request(*api, body, then)


def _why_refused(error: ErrorCode, cluster_id: str, bootstrap: Sequence[Address]) -> str:
    at = ",".join(f"{host}:{port}" for host, port in bootstrap)
    if error is ErrorCode.INCONSISTENT_CLUSTER_ID:
        return f"the controllers at {at} are not of cluster {cluster_id}; choose the data folder of their cluster with --data"
    if error is ErrorCode.DUPLICATE_BROKER_REGISTRATION:
        return "another live broker has this node.id; stop it, or give this one another node.id"
    if error is ErrorCode.BROKER_NOT_AVAILABLE:
        return f"no controller at {at} answers; start them, or correct controller.quorum.bootstrap.servers"
    return f"the controllers at {at} refuse this broker with {error.name}"
