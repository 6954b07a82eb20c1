"""The way from this node to the active controller: in this process as objects, to another process as requests.

Owner: the membership, on the thread of its dispatcher; `submit` may be called on any thread. The owner says who leads the controllers. A channel
that is closed refuses what it was asked and has not answered: its controller may or may not have carried it out."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any, Final, Protocol

from streamactors.actors.dispatching.dispatcher import Dispatcher, DispatcherStopped
from streamactors.broker.controller.command import Command, Outcome
from streamactors.broker.errors import ErrorCode
from streamactors.broker.membership.controller_wire import Forwarded, WireChannel
from streamactors.broker.network.buffers import Buffers
from streamactors.broker.network.outgoing.channel import REQUEST_TIMEOUT_MS
from streamactors.broker.network.outgoing.opening import Address

if TYPE_CHECKING:
    from streamactors.broker.controller.controller import Controller
    from streamactors.broker.runtime import Runtime

_log = logging.getLogger("streamactors.broker.membership")

Then = Callable[[Any], object]


class ControllerChannel(Protocol):
    """A way to one controller."""

    @property
    def features(self) -> Mapping[str, int]:
        """The levels of the features of the controller's cluster, as far as they are known."""

    def ask(self, command: Command, then: Then) -> None:
        """Have the controller carry out a command; `then` gets the answer, or the command's refusal with NOT_CONTROLLER."""

    def close(self, why: str) -> None:
        """Refuse what is not answered yet."""


class NoController:
    """A node without a controller. It refuses every command."""

    active: Final = False

    def submit(self, command: Command, reply: Then) -> None:
        """Refuse a command."""
        reply(command.refused(Outcome(ErrorCode.NOT_CONTROLLER, "this broker is not the controller")))


class NoLeader:
    """The channel while no controller leads."""

    features: Final[Mapping[str, int]] = {}

    def ask(self, command: Command, then: Then) -> None:
        """Refuse a command."""
        then(command.refused(Outcome(ErrorCode.NOT_CONTROLLER, "no controller leads at the moment")))

    def close(self, why: str) -> None:
        """Do nothing: nothing waits."""


class InProcessChannel:
    """The channel to the controller of this process, which gets the commands as they are."""

    features: Final[Mapping[str, int]] = {}

    def __init__(self, dispatcher: Dispatcher, controller: Controller) -> None:
        self._dispatcher = dispatcher
        self._controller = controller
        self._numbers = count()
        self._pending: dict[int, tuple[Command, Then]] = {}

    def ask(self, command: Command, then: Then) -> None:
        """Have the controller carry out a command. A forwarded request is served by its handler, which answers the client itself."""
        if isinstance(command, Forwarded):
            command.serve(then)
            return
        number = next(self._numbers)
        self._pending[number] = (command, then)
        self._controller.submit(command, partial(self._answered, number))

    def _answered(self, number: int, answer: Any) -> None:
        """On the data plane's thread."""
        try:
            self._dispatcher.execute(lambda: self._deliver(number, answer))
        except DispatcherStopped:
            pass  # this node is stopping

    def _deliver(self, number: int, answer: Any) -> None:
        pending = self._pending.pop(number, None)
        if pending is not None:
            pending[1](answer)

    def close(self, why: str) -> None:
        """Refuse what is not answered yet; a later answer is dropped."""
        pending, self._pending = self._pending, {}
        for command, then in pending.values():
            then(command.refused(Outcome(ErrorCode.NOT_CONTROLLER, why)))


class ControllerChannels:
    """The two channels to the controller that leads: one for the registration and heartbeats, which no slow request may delay, and one for the rest."""

    def __init__(
        self,
        node: Runtime,
        dispatcher: Dispatcher,
        own: Controller | NoController,
        *,
        heartbeat_timeout_ms: float = REQUEST_TIMEOUT_MS,
    ) -> None:
        self._node = node
        self._dispatcher = dispatcher
        self._own = own
        self._heartbeat_timeout_ms = heartbeat_timeout_ms
        self._buffers = Buffers()
        self._heartbeats: ControllerChannel = NoLeader()
        self._others: ControllerChannel = NoLeader()

    # --- from any thread ---

    def submit(self, command: Command, reply: Then) -> None:
        """Have the active controller carry out a command; `reply` gets the answer on the data plane's thread."""

        def deliver(answer: Any) -> None:
            try:
                self._node.data_plane.execute(lambda: reply(answer))
            except DispatcherStopped:
                pass  # the broker has stopped

        try:
            self._dispatcher.execute(lambda: self._others.ask(command, deliver))
        except DispatcherStopped:
            pass  # the broker is stopping, and its connections are closed

    # --- on the dispatcher's thread ---

    def ask(self, command: Command, then: Then) -> None:
        """Register this broker, or send a heartbeat; `then` gets the answer on this thread."""
        self._heartbeats.ask(command, then)

    @property
    def features(self) -> Mapping[str, int]:
        """The levels of the features of the cluster, as the active controller has named them."""
        return self._heartbeats.features

    def leader_changed(self, leader_id: int, epoch: int, address: Address | None) -> None:
        """Ask another controller from now on. Without an address it cannot be reached, unless it is in this process."""
        before = (self._heartbeats, self._others)
        self._heartbeats = self._channel(leader_id, address, self._heartbeat_timeout_ms)
        self._others = self._channel(leader_id, address, REQUEST_TIMEOUT_MS)
        if not isinstance(self._others, NoLeader):
            _log.info("controller %d leads in epoch %d", leader_id, epoch)
        for channel in before:
            channel.close("another controller leads")

    def _channel(self, leader_id: int, address: Address | None, timeout_ms: float) -> ControllerChannel:
        node = self._node
        if leader_id == node.node_id and not isinstance(self._own, NoController):
            return InProcessChannel(self._dispatcher, self._own)
        if address is None:
            return NoLeader()
        name = f"broker-{node.node_id}"
        return WireChannel(
            node.to_controllers.channel(self._dispatcher, address, name, self._buffers, timeout_ms=timeout_ms)
        )

    def close(self) -> None:
        """End the connections."""
        for channel in (self._heartbeats, self._others):
            channel.close("this broker stops")
