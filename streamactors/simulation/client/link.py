"""The way of a client's requests to the cluster and back.

Owner: one client. It has one connection to each broker. Requests are served in their order, and answers come in the order in which the broker gives them.
A lost request or answer breaks the connection: every request on it that has no answer yet gets none, and the client knows so a moment later."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from streamactors.broker.errors import ErrorCode

if TYPE_CHECKING:
    from streamactors.simulation.cluster.cluster import SimulatedCluster
    from streamactors.simulation.world.face import World

Then = Callable[["ErrorCode | None", Any], object]
"""Called with the error and the answer; None for the error if there was no answer."""
Api = Callable[["SimulatedCluster", Any, Callable[[ErrorCode, Any], object]], None]

REFUSED_MS: Final = 20.0
"""A broker that does not run refuses a connection after this time."""
REQUEST_TIMEOUT_MS: Final = 30_000.0
"""A broker that is cut off is silent: a request to it gets no answer in this time."""


class _Connection:
    """One connection. `waiting` are the requests without an answer, in their order."""

    __slots__ = ("broken", "broker", "incoming", "outgoing", "waiting")

    def __init__(self, broker: int) -> None:
        self.broker = broker
        self.broken = False
        self.outgoing: deque[Callable[[], None]] = deque()
        self.incoming: deque[Callable[[], None]] = deque()
        self.waiting: dict[int, Then] = {}


class Link:
    """The connections of one client."""

    def __init__(self, world: World, cluster: SimulatedCluster, client: str, owner: str) -> None:
        """`client` names the client in the trace; `owner` is the instance it belongs to."""
        self.world = world
        self.cluster = cluster
        self.client = client
        self.owner = owner
        self.closed = False
        self.connected = False
        """Whether the last request had an answer."""
        self.broken: Callable[[], None] = lambda: None
        """Called when requests had no answer."""
        self._connections: dict[int, _Connection] = {}
        self._numbers = count()

    def later(self, delay_ms: float, step: Callable[[], None], what: str) -> Callable[[], None]:
        """Run a step of this client after a time, unless the client is closed or its instance has crashed. Returns a function that cancels it."""

        def due() -> None:
            if not self.closed:
                step()

        return self.world.later(delay_ms, due, f"{self.client} {what}", self.owner)

    def ask(self, api: Api, broker: int, request: Any, then: Then) -> None:
        """Send a request. `then` is called once, unless the client is closed before."""
        cluster, name = self.cluster, api.__name__
        cluster.asked(self.owner, name)
        connection = self._connections.get(broker)
        if connection is None:
            if not cluster.is_reached(broker):
                silent_ms = REQUEST_TIMEOUT_MS if broker in cluster.cut_off else REFUSED_MS
                self.later(silent_ms, lambda: self._lost([then]), f"{name}: no answer")
                return
            connection = self._connections[broker] = _Connection(broker)
        number = next(self._numbers)
        connection.waiting[number] = then
        if connection.broken:
            return  # it is lost with the others
        if cluster.weather.lose_request(self.client, broker, name):
            connection.outgoing.append(lambda: self._break(connection, "request lost", name))
        else:
            connection.outgoing.append(lambda: self._serve(connection, number, api, request))
        delay_ms = cluster.weather.delay_ms(self.client, broker, name)
        self.world.later(delay_ms, lambda: self._arrived(connection), f"{self.client} {name}")

    def _arrived(self, connection: _Connection) -> None:
        step = connection.outgoing.popleft()
        if not connection.broken:
            step()

    def _serve(self, connection: _Connection, number: int, api: Api, request: Any) -> None:
        cluster, name = self.cluster, api.__name__

        def reply(error: ErrorCode, answer: Any) -> None:
            if connection.broken or number not in connection.waiting:
                return
            if not cluster.is_reached(connection.broker) or cluster.weather.lose_answer(
                self.client, connection.broker, name
            ):
                self._break(connection, "answer lost", name)
                return
            connection.incoming.append(lambda: self._deliver(connection, number, error, answer))
            delay_ms = cluster.weather.delay_ms(self.client, connection.broker, name)
            self.world.later(
                delay_ms, lambda: connection.incoming.popleft()(), f"{self.client} {name} answered", self.owner
            )

        refused = cluster.refuses.get(name) or (cluster.refuses_instances.get(name) if self.owner else None)
        if not cluster.is_reached(connection.broker):
            self._break(connection, "broker gone", name)
        elif refused is not None:
            reply(refused, None)
        else:
            api(cluster, request, reply)

    def _deliver(self, connection: _Connection, number: int, error: ErrorCode, answer: Any) -> None:
        if connection.broken:
            return
        then = connection.waiting.pop(number, None)
        if then is not None and not self.closed:
            self.connected = True
            then(error, answer)

    def _break(self, connection: _Connection, why: str, api: str) -> None:
        connection.broken = True
        self.world.note(why, client=self.client, broker=connection.broker, api=api)
        delay_ms = self.cluster.weather.delay_ms(self.client, connection.broker, api)
        self.world.later(delay_ms, lambda: self._ended(connection), f"{self.client} is disconnected", self.owner)

    def _ended(self, connection: _Connection) -> None:
        if self._connections.get(connection.broker) is connection:
            del self._connections[connection.broker]
        lost, connection.waiting = list(connection.waiting.values()), {}
        self._lost(lost)

    def _lost(self, lost: list[Then]) -> None:
        if self.closed:
            return
        self.connected = False
        self.broken()
        for then in lost:
            then(None, None)
