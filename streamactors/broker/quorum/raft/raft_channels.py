"""The connections of a voter to the other voters: requests go out, answers come back to the quorum. Nothing here waits.

Owner: the controller, on the thread of its dispatcher. Each voter has two connections, because a leader holds a fetch back and answers
the requests of a connection in order: a vote must not wait behind a fetch. A request without an answer is dropped; the rules of
`raft_state` ask again when they need to."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from streamactors.actors.dispatching.dispatcher import Dispatcher
from streamactors.broker.errors import ErrorCode
from streamactors.broker.network.outgoing.channel import Answer as WireAnswer
from streamactors.broker.network.outgoing.channel import Buffers, Channel
from streamactors.broker.network.outgoing.channel_maker import ChannelMaker
from streamactors.broker.network.outgoing.opening import Address
from streamactors.broker.quorum.raft.raft_messages import Answer, Fetch, FetchSnapshot, Request, SnapshotPiece
from streamactors.broker.quorum.raft.raft_wire import Sender, decode, encode

_log = logging.getLogger("streamactors.broker.quorum")

MOST_UNANSWERED: Final = 16
"""More requests are not sent to a voter that is silent."""


class RaftChannels:
    """The connections to the voters at these addresses. `answered` gets each answer with the id of its voter."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        voters: Mapping[int, Address],
        sender: Sender,
        answered: Callable[[int, Answer], object],
        timeout_ms: float,
        to_controllers: ChannelMaker,
    ) -> None:
        self.sender = sender
        self._answered = answered
        self._open = True
        buffers = Buffers()

        def connections(purpose: str) -> dict[int, Channel]:
            name = f"controller-{sender.node_id}-{purpose}"
            return {
                voter: to_controllers.channel(dispatcher, address, name, buffers, timeout_ms=timeout_ms)
                for voter, address in voters.items()
                if voter != sender.node_id
            }

        self._asking = connections("quorum")
        self._reading = connections("quorum-fetch")

    def send(self, target: int, request: Request) -> None:
        """Send a request to a voter, unless it has left many without an answer."""
        reads = isinstance(request, Fetch | FetchSnapshot)
        channel = (self._reading if reads else self._asking).get(target)
        if channel is None or channel.in_flight >= MOST_UNANSWERED:
            return
        api, body = encode(request, target, self.sender)
        channel.request(*api, body, partial(self._got, target, request))

    def close(self) -> None:
        """Close every connection. Answers that are under way are dropped."""
        self._open = False
        for channel in (*self._asking.values(), *self._reading.values()):
            channel.close("this node stops")

    def _got(self, target: int, request: Request, wire: WireAnswer) -> None:
        if not self._open:
            return
        answer = None if wire.error is not None else decode(request, wire.value)
        if wire.error is not None:
            _log.debug("controller %d: %s", target, wire.error)
        elif answer is None:
            why = ErrorCode(wire.value.error_code).name
            _log.warning("controller %d refuses a %s of the quorum: %s", target, type(request).__name__, why)
        if answer is None and isinstance(request, FetchSnapshot):
            answer = SnapshotPiece(ErrorCode.BROKER_NOT_AVAILABLE, -1, None, request)
        if answer is not None:
            self._answered(target, answer)
