"""The life of this broker in its cluster: it registers with the active controller, sends heartbeats, and leaves cleanly.

Owner: the cluster part of the server, on the thread of the membership's dispatcher. The rules are in `lifecycle_state`. The owner names the metadata
that the data plane follows. Requests go through `ControllerChannels`."""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING, Final

from streamactors.actors.dispatching.dispatcher import Dispatcher, DispatcherStopped
from streamactors.actors.dispatching.timing_wheel import Timer
from streamactors.broker.controller.cluster_command import Beat, Heartbeat, RegisterBroker, Registered
from streamactors.broker.controller.rules.feature_rules import SUPPORTED
from streamactors.broker.controller.rules.folder_rules import FIRST_WITH_CORDONED
from streamactors.broker.errors import BrokerStartError, ErrorCode
from streamactors.broker.membership import lifecycle_state as lifecycle
from streamactors.broker.membership.controller_channels import ControllerChannels
from streamactors.broker.membership.lifecycle_state import Life, LifecyclePhase, Times
from streamactors.broker.metadata.image import METADATA_VERSION, MetadataImage
from streamactors.broker.metadata.metadata_codec import NEWEST_RELEASE
from streamactors.broker.metadata.metadata_record import Endpoint
from streamactors.broker.network.outgoing.opening import Address
from streamactors.errors import StreamActorsError

if TYPE_CHECKING:
    from streamactors.broker.runtime import Runtime

_log = logging.getLogger("streamactors.broker.membership")

REGISTERED_FEATURES: Final = tuple(each for each in SUPPORTED if each.max_level > 0)
"""The features that a broker registers with: without those whose only level is 0, which no cluster can have on."""


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
    """The registration, the heartbeats and the departure of this broker."""

    def __init__(
        self,
        node: Runtime,
        dispatcher: Dispatcher,
        channels: ControllerChannels,
        bootstrap: Sequence[Address],
        *,
        times: Times,
        previous_epoch: int,
    ) -> None:
        self._node = node
        self._dispatcher = dispatcher
        self._channels = channels
        self._bootstrap = bootstrap
        self._previous_epoch = previous_epoch
        self._hear_failure: list[Callable[[StreamActorsError], object]] = []
        self._now_ms = node.clock.now_ms
        self._life = Life(times)
        self._incarnation = uuid.uuid4()
        self._endpoints: tuple[Endpoint, ...] = ()
        self._timer: Timer | None = None
        self._failure: StreamActorsError | None = None
        self._awaiting_heartbeat: list[Callable[[], object]] = []
        """Who waits until the controller knows the folders that have failed; the first `_in_heartbeat` of them until the answer under way."""
        self._in_heartbeat = 0
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

    def on_failure(self, hear: Callable[[StreamActorsError], object]) -> None:
        """Have `hear` get the error with which the cluster refuses this broker. Before the start."""
        self._hear_failure.append(hear)

    # --- from any thread ---

    def folder_failed(self, reported: Callable[[], object] = lambda: None) -> None:
        """Report a failed data folder to the controller at once; `reported` is called on the data plane's thread when it knows."""

        def fail() -> None:
            self._awaiting_heartbeat.append(reported)
            self._step(lifecycle.FolderFailed())

        try:
            self._dispatcher.execute(fail)
        except DispatcherStopped:
            pass  # the broker is stopping

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

    def applied(self, image: MetadataImage) -> None:
        """The data plane follows this image."""
        own = image.brokers.get(self._node.node_id)
        registered = own is not None and own.incarnation_id == self._incarnation
        self._step(lifecycle.Applied(image.offset, image.offset if registered else -1))

    def close(self) -> None:
        """End the timer."""
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
                self._channels.ask(self._registration(), self._got_registration)
            case lifecycle.SendHeartbeat(epoch, offset, want_fence, want_shut_down):
                failed = tuple(self._node.logs.folders.failed_ids)
                self._in_heartbeat = len(self._awaiting_heartbeat)
                beat = Heartbeat(
                    self._node.node_id, epoch, offset, want_fence, want_shut_down, failed, self._cordoned()
                )
                self._channels.ask(beat, self._got_heartbeat)
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

    def _cordoned(self) -> tuple[uuid.UUID, ...] | None:
        """Return the cordoned data folders, None where the cluster has no such folders."""
        level = self._node.metadata.image.features.get(METADATA_VERSION, 0)
        return self._node.logs.folders.cordoned_ids if level >= FIRST_WITH_CORDONED else None

    def _registration(self) -> RegisterBroker:
        return RegisterBroker(
            self._node.node_id,
            self._node.cluster_id,
            self._incarnation,
            self._endpoints,
            REGISTERED_FEATURES,
            self._node.config.broker_rack,
            tuple(self._node.logs.folders.ids),
            self._previous_epoch,
        )

    def _got_registration(self, answer: Registered) -> None:
        if answer.error is ErrorCode.NOT_CONTROLLER:
            self._step(lifecycle.Unreachable())
        else:
            self._step(lifecycle.Registered(answer.error, answer.broker_epoch))

    def _got_heartbeat(self, beat: Beat) -> None:
        if beat.error is ErrorCode.NONE:
            self._folders_reported()
        self._step(lifecycle.HeartbeatAnswered(beat.error, beat.is_fenced, beat.should_shut_down))

    def _folders_reported(self) -> None:
        reported, self._awaiting_heartbeat = (
            self._awaiting_heartbeat[: self._in_heartbeat],
            self._awaiting_heartbeat[self._in_heartbeat :],
        )
        self._in_heartbeat = 0
        for each in reported:
            try:
                self._node.data_plane.execute(each)
            except DispatcherStopped:
                pass  # the broker is stopping

    # --- failure ---

    def _why_failed(self, error: ErrorCode) -> str:
        if error is ErrorCode.UNSUPPORTED_VERSION:
            ours = {each.name: each for each in REGISTERED_FEATURES}
            missing = [
                f"{name}={level}"
                for name, level in sorted(self._channels.features.items())
                if level and (name not in ours or not ours[name].min_level <= level <= ours[name].max_level)
            ]
            if missing:
                return (
                    f"the cluster has features enabled that this broker does not support: {', '.join(missing)}; "
                    f"format its controllers with {_format_options(missing)}"
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
            "is not a member of its cluster any more" if was_member else "cannot join its cluster",
            error,
        )
        for each in (self._registered, self._unfenced):
            if not each.done():
                each.set_exception(error)
        if not self._left.done():
            self._left.set_result(False)
        for hear in self._hear_failure:
            hear(error)


def _format_options(missing: Sequence[str]) -> str:
    """Return the options of kafka-storage format with which a cluster has the highest levels that this broker supports instead of these."""
    named = {each.partition("=")[0] for each in missing}
    most = {each.name: each.max_level for each in SUPPORTED}
    options = [f"--feature {name}={most.get(name, 0)}" for name in sorted(named - {METADATA_VERSION})]
    return " ".join([f"--release-version {NEWEST_RELEASE}", *options] if METADATA_VERSION in named else options)


def why_refused(error: ErrorCode, cluster_id: str, bootstrap: Sequence[Address]) -> str:
    """Return the message of the error that a start ends with."""
    at = ",".join(f"{host}:{port}" for host, port in bootstrap)
    if error is ErrorCode.INCONSISTENT_CLUSTER_ID:
        return f"the controllers at {at} are not of cluster {cluster_id}; choose the data folder of their cluster with --data"
    if error is ErrorCode.DUPLICATE_BROKER_REGISTRATION:
        return "another live broker has this node.id; stop it, or give this one another node.id"
    if error is ErrorCode.BROKER_NOT_AVAILABLE:
        return f"no controller at {at} answers; start them, or correct controller.quorum.bootstrap.servers"
    return f"the controllers at {at} refuse this broker with {error.name}"
