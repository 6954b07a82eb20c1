"""The life of this broker in its cluster: it registers with the active controller, sends heartbeats, and leaves in order.

Owner: a `Member` or a `VotingMember`, on the thread of its dispatcher. The rules are in `lifecycle_state`. The owner says who leads the
controllers, and which metadata the data plane follows."""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from streamactors.actors.dispatching.dispatcher import Dispatcher, DispatcherStopped
from streamactors.actors.dispatching.timing_wheel import Timer
from streamactors.broker.controller.rules.feature_rules import SUPPORTED
from streamactors.broker.errors import BrokerStartError, ErrorCode
from streamactors.broker.membership import lifecycle_state as lifecycle
from streamactors.broker.membership.lifecycle_state import Life, LifecyclePhase, Times
from streamactors.broker.metadata.image import METADATA_VERSION, MetadataImage
from streamactors.broker.metadata.metadata_codec import AS_THIS_BROKER
from streamactors.broker.metadata.metadata_record import Endpoint
from streamactors.broker.network.outgoing.channel import (
    REQUEST_TIMEOUT_MS,
    Buffers,
    Channel,
    ChannelAnswer,
    ChannelBroken,
)
from streamactors.broker.network.outgoing.opening import Address
from streamactors.errors import StreamActorsError

if TYPE_CHECKING:
    from streamactors.broker.runtime import Runtime

_log = logging.getLogger("streamactors.broker.membership")

REGISTERED_FEATURES: Final = tuple(each for each in SUPPORTED if each.max_level > 0)
"""The features that a broker registers with: without those whose only level is 0, which no cluster can have on."""
BROKER_REGISTRATION: Final = (62, 4)
BROKER_HEARTBEAT: Final = (63, 1)


def granted_in_time(left: Future[bool], timeout_s: float, patience_s: float, hope: Callable[[], bool]) -> bool:
    """Return the answer to a departure; False when the time is up, or when there is no `hope` of an answer at the end of a `patience_s`.

    The last leader of the controllers may go while this node waits, so `hope` is asked again."""
    give_up_s = time.monotonic() + timeout_s
    while (left_s := give_up_s - time.monotonic()) > 0:
        try:
            return left.result(min(patience_s or left_s, left_s))
        except TimeoutError:
            if not hope():
                break
    return False


class Lifecycle:
    """See the module. `on_failure` gets the error with which the cluster refuses this broker."""

    def __init__(
        self,
        node: Runtime,
        dispatcher: Dispatcher,
        bootstrap: Sequence[Address],
        *,
        times: Times,
        previous_epoch: int,
        on_failure: Callable[[StreamActorsError], object] = lambda _: None,
    ) -> None:
        self._node = node
        self._dispatcher = dispatcher
        self._bootstrap = bootstrap
        self._previous_epoch = previous_epoch
        self._on_failure = on_failure
        self._now_ms = node.clock.now_ms
        self._buffers = Buffers()
        self._life = Life(times)
        self._incarnation = uuid.uuid4()
        self._endpoints: tuple[Endpoint, ...] = ()
        self._controller: Channel | None = None  # for registration and heartbeats
        self._asked: Channel | None = None  # for all other requests: a slow one must not delay a heartbeat
        self._timer: Timer | None = None
        self._failure: StreamActorsError | None = None
        self._to_tell: list[Callable[[], object]] = []
        """Who waits until the controller knows the folders that have failed; the first `_telling` of them until the answer under way."""
        self._telling = 0
        self._registered: Future[None] = Future()
        self._unfenced: Future[None] = Future()
        self._left: Future[bool] = Future()

    # --- from the thread that starts and stops the broker ---

    @property
    def times(self) -> Times:
        """The intervals of this broker's life."""
        return self._life.times

    def register(self, endpoints: Iterable[Endpoint]) -> None:
        """Register this broker with its listeners; it stays fenced. Blocks. Raises BrokerError if the cluster refuses it."""
        self._endpoints = tuple(endpoints)
        self._dispatcher.execute(partial(self._step, lifecycle.CaughtUp()))
        self._registered.result()

    def ready(self) -> None:
        """Let clients be sent here, now that they can be served. Blocks until it is so. Raises BrokerError."""
        self._dispatcher.execute(partial(self._step, lifecycle.Ready()))
        self._unfenced.result()

    def leave(self, timeout_s: float, patience_s: float = 0.0, hope: Callable[[], bool] = lambda: True) -> int:
        """Leave the cluster in order: leaderships move to other brokers first. Blocks. Return the broker epoch for the
        clean-shutdown file, -1 if the controllers did not grant the departure within the time.

        The time is up earlier if there is no `hope` of an answer at the end of a `patience_s`; 0: there is always hope."""
        try:
            self._dispatcher.execute(partial(self._step, lifecycle.StopAsked()))
        except DispatcherStopped:
            return -1
        return self._life.broker_epoch if granted_in_time(self._left, timeout_s, patience_s, hope) else -1

    # --- from any thread ---

    def folder_failed(self, told: Callable[[], object] = lambda: None) -> None:
        """Tell the controller at once that a data folder has failed; `told` is called on the data plane's thread when it knows."""

        def fail() -> None:
            self._to_tell.append(told)
            self._step(lifecycle.FolderFailed())

        try:
            self._dispatcher.execute(fail)
        except DispatcherStopped:
            pass  # the broker is stopping

    def ask(self, api: tuple[int, int], body: Mapping[str, Any], then: Callable[[ChannelAnswer], object]) -> None:
        """Send a request to the active controller; `then` gets the answer on the data plane's thread."""

        def deliver(answer: ChannelAnswer) -> None:
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
    def lease_end_ms(self) -> float:
        """Until when the controller elects no other leader in this broker's place (see `replication.lease_state`)."""
        return self._life.lease_end_ms

    @property
    def fenced(self) -> bool:
        """Whether the controllers keep clients away from this broker."""
        return self._life.phase is not LifecyclePhase.UNFENCED

    # --- on the dispatcher's thread ---

    def leader_changed(self, leader_id: int, epoch: int, address: Address | None) -> None:
        """Send requests to another controller."""
        if address is not None:
            _log.info("controller %d leads in epoch %d", leader_id, epoch)
        before = (self._controller, self._asked)
        self._controller = self._asked = None
        if address is not None:
            self._controller = self._channel(address, max(self._life.times.session_ms / 2, 500.0))
            self._asked = self._channel(address, REQUEST_TIMEOUT_MS)
        for channel in before:
            if channel is not None:
                channel.close("another controller leads")

    def _channel(self, address: Address, timeout_ms: float) -> Channel:
        name = f"broker-{self._node.node_id}"
        return self._node.to_controllers.channel(self._dispatcher, address, name, self._buffers, timeout_ms=timeout_ms)

    def applied(self, image: MetadataImage) -> None:
        """The data plane follows this image."""
        own = image.brokers.get(self._node.node_id)
        registered = own is not None and own.incarnation_id == self._incarnation
        self._step(lifecycle.Applied(image.offset, image.offset if registered else -1))

    def close(self) -> None:
        """End the connections and the timer."""
        for channel in (self._controller, self._asked):
            if channel is not None:
                channel.close("this broker stops")
        if self._timer is not None:
            self._timer.cancel()

    def _step(self, event: lifecycle.Event) -> None:
        before = self._life.phase
        self._life, effects = lifecycle.step(self._life, event, self._now_ms())
        for effect in effects:
            self._carry_out(effect)
        if (
            before is LifecyclePhase.REGISTERING
            and self._life.phase is LifecyclePhase.FENCED
            and not self._registered.done()
        ):
            self._registered.set_result(None)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._life.due_ms is not None:
            self._timer = self._dispatcher.call_at(self._life.due_ms, partial(self._step, lifecycle.LifecycleTick()))

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
                    "offline_log_dirs": list(self._node.logs.folders.failed_ids),
                }
                self._telling = len(self._to_tell)
                _send(self._controller, BROKER_HEARTBEAT, body, self._got_heartbeat)
            case lifecycle.FencingChanged(fenced):
                (_log.warning if fenced else _log.info)(
                    "the controller has %s this broker", "fenced" if fenced else "unfenced"
                )
                if not fenced and not self._unfenced.done():
                    self._unfenced.set_result(None)
            case lifecycle.Fail(error):
                self.fail(BrokerStartError(self._why_failed(error)))
            case lifecycle.MayStop(granted):
                self._left.set_result(granted)

    def _registration(self) -> dict[str, Any]:
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
                for each in REGISTERED_FEATURES
            ],
            "rack": self._node.config.broker_rack,
            "log_dirs": list(self._node.logs.folders.ids),
            "previous_broker_epoch": self._previous_epoch,
        }

    def _got_registration(self, answer: ChannelAnswer) -> None:
        if answer.error is not None or answer.value.error_code == ErrorCode.NOT_CONTROLLER:
            self._step(lifecycle.Unreachable())
            return
        self._step(lifecycle.Registered(ErrorCode(answer.value.error_code), answer.value.broker_epoch))

    def _got_heartbeat(self, answer: ChannelAnswer) -> None:
        if answer.error is not None:
            _log.debug("heartbeat: %s", answer.error)
            self._step(lifecycle.Unreachable())
            return
        value = answer.value
        if value.error_code == ErrorCode.NONE:
            self._have_told()
        self._step(lifecycle.HeartbeatAnswered(ErrorCode(value.error_code), value.is_fenced, value.should_shut_down))

    def _have_told(self) -> None:
        told, self._to_tell = self._to_tell[: self._telling], self._to_tell[self._telling :]
        self._telling = 0
        for each in told:
            try:
                self._node.data_plane.execute(each)
            except DispatcherStopped:
                pass  # the broker is stopping

    # --- failure ---

    def _why_failed(self, error: ErrorCode) -> str:
        if error is ErrorCode.UNSUPPORTED_VERSION and self._controller is not None:
            ours = {each.name: each for each in REGISTERED_FEATURES}
            missing = [
                f"{name}={level}"
                for name, level in sorted(self._controller.peer_features.items())
                if level and (name not in ours or not ours[name].min_level <= level <= ours[name].max_level)
            ]
            if missing:
                return (
                    f"the cluster has features on that this broker does not support: {', '.join(missing)}; "
                    f"format its controllers with {AS_THIS_BROKER}{_also_off(missing)}"
                )
        return why_refused(error, self._node.cluster_id, self._bootstrap)

    def fail(self, error: StreamActorsError) -> None:
        """This broker cannot be a member, or be one any longer."""
        if self._failure is not None:
            return
        self._failure = error
        was_member = self._registered.done() and self._registered.exception() is None
        _log.error(
            "this broker %s: %s",
            "is no member of its cluster any more" if was_member else "cannot join its cluster",
            error,
        )
        for each in (self._registered, self._unfenced):
            if not each.done():
                each.set_exception(error)
        if not self._left.done():
            self._left.set_result(False)
        self._on_failure(error)


def _also_off(missing: Sequence[str]) -> str:
    """Return the options of kafka-storage format for the features that a cluster of this broker's release may have, and this one must not."""
    named = {each.partition("=")[0] for each in missing} - {METADATA_VERSION, "group.version", "transaction.version"}
    return "".join(f" --feature {name}=0" for name in sorted(named))


def _send(
    controller: Channel | None, api: tuple[int, int], body: Mapping[str, Any], then: Callable[[ChannelAnswer], object]
) -> None:
    if controller is None:
        then(ChannelAnswer(error=ChannelBroken("no controller leads at the moment")))
        return
    controller.request(*api, body, then)


def why_refused(error: ErrorCode, cluster_id: str, bootstrap: Sequence[Address]) -> str:
    """Return the text of the error that a start ends with."""
    at = ",".join(f"{host}:{port}" for host, port in bootstrap)
    if error is ErrorCode.INCONSISTENT_CLUSTER_ID:
        return f"the controllers at {at} are not of cluster {cluster_id}; choose the data folder of their cluster with --data"
    if error is ErrorCode.DUPLICATE_BROKER_REGISTRATION:
        return "another live broker has this node.id; stop it, or give this one another node.id"
    if error is ErrorCode.BROKER_NOT_AVAILABLE:
        return f"no controller at {at} answers; start them, or correct controller.quorum.bootstrap.servers"
    return f"the controllers at {at} refuse this broker with {error.name}"
