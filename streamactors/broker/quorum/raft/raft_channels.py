"""The connections of a voter to the other voters: requests go out, answers come back to the quorum. Nothing here waits.

Owner: the controller, on the thread of its dispatcher. Each voter has two connections, because a leader holds a fetch back and answers
the requests of a connection in order: a vote must not wait for a fetch. A request without an answer is dropped; the rules of
`raft_state` ask again when they need to. The log says where the voters are, and answers say where the leader is. A node that knows
neither asks its acquaintances, the controllers that the settings name, which have negative ids here."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Final

from streamactors.actors.dispatching.dispatcher import Dispatcher
from streamactors.broker.errors import ErrorCode
from streamactors.broker.network.buffers import Buffers
from streamactors.broker.network.outgoing.channel import Channel
from streamactors.broker.network.outgoing.channel_answer import ChannelAnswer, ChannelBroken, Then
from streamactors.broker.network.outgoing.channel_maker import ChannelMaker
from streamactors.broker.network.outgoing.opening import Address
from streamactors.broker.quorum.raft.raft_messages import Answer, Fetch, FetchSnapshot, Request, SnapshotPiece
from streamactors.broker.quorum.raft.raft_wire import Body, Sender, decode, encode

_log = logging.getLogger("streamactors.broker.quorum")

FIRST_ACQUAINTANCE: Final = -2
MOST_UNANSWERED: Final = 16
"""More requests are not sent to a voter that is silent."""
ASKING: Final = "quorum"
READING: Final = "quorum-fetch"


def enumerate_down(addresses: Iterable[Address]) -> Iterator[tuple[int, Address]]:
    """Give each address of an acquaintance an id that no node has."""
    for place, address in enumerate(addresses):
        yield FIRST_ACQUAINTANCE - place, address


class RaftChannels:
    """The connections to the voters. `answered` gets each answer with the id of its voter."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        voters: Mapping[int, Address],
        acquaintances: Iterable[Address],
        sender: Sender,
        answered: Callable[[int, Answer], object],
        timeout_ms: float,
        to_controllers: ChannelMaker,
    ) -> None:
        self.sender = sender
        self._dispatcher = dispatcher
        self._answered = answered
        self._timeout_ms = timeout_ms
        self._to_controllers = to_controllers
        self._buffers = Buffers()
        self._open = True
        self._addresses: dict[int, Address] = {}
        self._named: Mapping[int, Address] = {}
        self.folders: Mapping[int, uuid.UUID] = {}
        """The folders of the voters that the log names. A request names its voter's, so that no node with another one answers. Set by the owner."""
        self.learned: Callable[[int], object] = lambda _: None
        """Gets the id of a voter whose address is new. Set by the owner."""
        self._lost: set[int] = set()  # did not answer at the address that is known
        self._channels: dict[tuple[int, str], Channel] = {}
        self.acquaintances = dict(enumerate_down(acquaintances))
        self._addresses.update(self.acquaintances)
        self.use(voters)

    # --- where the others are ---

    def use(self, voters: Mapping[int, Address]) -> None:
        """The log names these voters."""
        for voter, address in voters.items():
            if self._named.get(voter) != address:
                self.learn(voter, address)
        self._named = dict(voters)

    def learn(self, voter: int, address: Address) -> None:
        """A voter is at this address."""
        if self._addresses.get(voter) == address:
            return
        self._addresses[voter] = address
        for purpose in (ASKING, READING):
            channel = self._channels.pop((voter, purpose), None)
            if channel is not None:
                channel.close("it has another address")
        self.learned(voter)

    def address_of(self, voter: int | None) -> Address | None:
        """Return where a voter is, None if that is not known."""
        return None if voter is None else self._addresses.get(voter)

    # --- requests ---

    def send(self, target: int, request: Request) -> None:
        """Send a request to a voter, unless it has left many without an answer."""
        channel = self._channel(target, READING if isinstance(request, Fetch | FetchSnapshot) else ASKING)
        if channel is None or channel.in_flight >= MOST_UNANSWERED:
            return
        api, body = encode(request, target, self.sender, self.folders)
        channel.request(*api, body, partial(self._got, target, request))

    def ask(self, voter: int, api: tuple[int, int], body: Body, then: Then) -> None:
        """Send another request to a voter; `then` gets the answer."""
        channel = self._channel(voter, ASKING)
        if channel is None:
            then(ChannelAnswer(error=ChannelBroken(f"the address of controller {voter} is not known")))
        else:
            channel.request(*api, body, then)

    def ask_at(self, address: Address, api: tuple[int, int], body: Body, then: Then) -> None:
        """Send one request to a node that may be no voter; `then` gets the answer."""
        channel = self._make(address, ASKING)

        def answered(answer: ChannelAnswer) -> None:
            self._dispatcher.execute(channel.close)
            then(answer)

        channel.request(*api, body, answered)

    def _channel(self, target: int, purpose: str) -> Channel | None:
        address = self._addresses.get(target)
        if address is None or target == self.sender.node_id or not self._open:
            return None
        key = target, purpose
        if key not in self._channels:
            self._channels[key] = self._make(address, purpose)
        return self._channels[key]

    def _make(self, address: Address, purpose: str) -> Channel:
        name = f"controller-{self.sender.node_id}-{purpose}"
        return self._to_controllers.channel(self._dispatcher, address, name, self._buffers, timeout_ms=self._timeout_ms)

    def close(self) -> None:
        """Close every connection. Answers that are under way are dropped."""
        self._open = False
        for channel in self._channels.values():
            channel.close("this node stops")

    def _got(self, target: int, request: Request, wire: ChannelAnswer) -> None:
        if not self._open:
            return
        answer = None if wire.error is not None else decode(request, wire.value)
        if wire.error is not None:
            self._lost.add(target)
        for each in getattr(wire.value, "node_endpoints", ()):
            if (
                each.node_id not in self._addresses or each.node_id in self._lost
            ):  # nodes can name one address differently
                self._lost.discard(each.node_id)
                self.learn(each.node_id, (each.host, each.port))
        if wire.error is not None:
            _log.debug("controller %d: %s", target, wire.error)
        elif answer is None:
            why = ErrorCode(wire.value.error_code).name
            _log.warning("controller %d refuses a %s of the quorum: %s", target, type(request).__name__, why)
        elif answer.error is ErrorCode.INVALID_VOTER_KEY:
            _log.info("the folder of controller %d is not the one of the voter with its id, so it has no vote", target)
        if answer is None and isinstance(request, FetchSnapshot):
            answer = SnapshotPiece(ErrorCode.BROKER_NOT_AVAILABLE, -1, None, request)
        if answer is not None:
            self._answered(target, answer)
