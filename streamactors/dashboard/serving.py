"""The page of a system: a Dashboard samples, keeps the last ten minutes, and serves them until it is closed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol

from streamactors.dashboard.combining import Combiner
from streamactors.dashboard.history import History
from streamactors.dashboard.reading.clusters import clusters_of
from streamactors.dashboard.reading.latency import LatencyReader
from streamactors.dashboard.reading.partitions import PartitionsReader
from streamactors.dashboard.reading.spark import QueriesReader
from streamactors.dashboard.reading.windows import WindowsReader
from streamactors.dashboard.redacting import Redact
from streamactors.dashboard.sampling import Frame, Reader, Sampler
from streamactors.dashboard.server.access import Access
from streamactors.dashboard.server.feed import Feed
from streamactors.dashboard.server.forwarding import Forwarding
from streamactors.dashboard.server.letters import Letters
from streamactors.dashboard.server.lookups import Lookups
from streamactors.dashboard.server.records import Records
from streamactors.dashboard.server.routes import Route, Routes
from streamactors.errors import StreamActorsError
from streamactors.http.messages import Handler
from streamactors.http.server import HttpServer

if TYPE_CHECKING:
    from streamactors.actors.system import ActorSystem


class Frames(Protocol):
    """What a page shows: a Sampler of this process, or the states of several."""

    history: History
    watched: bool
    listeners: list[Callable[[Frame], object]]

    @property
    def last(self) -> Frame: ...
    def start(self) -> None: ...
    def stop(self) -> None: ...


class DashboardNotServed(StreamActorsError):
    """The address of the page cannot be bound."""

    exit_code = 2


class Dashboard:
    """A page that is served. A context manager; `close()` ends it, and so does the shutdown of its system."""

    def __init__(
        self,
        frames: Frames,
        system: ActorSystem | None = None,
        *,
        port: int = 0,
        host: str = "127.0.0.1",
        token: str | None = None,
        allow_changes: bool = False,
        redact: Redact | None = None,
        hosts: Iterable[str] = (),
        broker: Mapping[str, Any] | None = None,
    ) -> None:
        self._sampler = frames
        self._broker = broker
        self._access = Access(token, hosts, host, allow_changes)
        self._redact = redact
        self._feed: Feed
        try:
            self._server = HttpServer("dashboard", host, port, self._build)
        except OSError as error:
            raise DashboardNotServed(
                f"cannot serve the dashboard at {host}:{port}: {error.strerror or error}; choose another port"
            ) from None
        self.host = host
        self.port = self._server.port
        self._access.served_at(self.port)
        self._sampler.listeners.append(self._publish)
        self._sampler.start()
        self._hook = system.on_shutdown(self.close) if system is not None else None

    def _build(self) -> Handler:
        self._feed = Feed(self._watched)
        more: dict[str, tuple[str, Route]] = {}
        if isinstance(self._sampler, Sampler):
            more |= Lookups(self._sampler.logics, self._redact).routes()
        elif isinstance(self._sampler, Combiner):
            remotes = self._sampler.remotes
            more |= Forwarding(lambda: [each.page for each in remotes]).routes()
        if isinstance(self._sampler, Sampler) or self._broker is not None:
            more |= Records(self._cluster, self._redact).routes() | Letters(self._cluster, self._redact).routes()
        return Routes(self._access, self._feed, self._sampler.history, lambda: self._sampler.last, more).answer

    def _cluster(self) -> Mapping[str, Any] | None:
        """Return how to reach the cluster: the one that was given, or that of a running consumer or producer; None if nothing here uses Kafka."""
        if self._broker is not None:
            return self._broker
        return next(clusters_of(self._sampler.runs), None) if isinstance(self._sampler, Sampler) else None

    def _watched(self, watched: bool) -> None:
        self._sampler.watched = watched

    def _publish(self, frame: Frame) -> None:
        self._server.call(self._feed.publish, frame)

    @property
    def url(self) -> str:
        """The address of the page, with the token in its fragment, which browsers do not send."""
        return f"{self.address}/#token={self._access.token}"

    @property
    def address(self) -> str:
        """The address without the token."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"

    @property
    def token(self) -> str:
        """The token, which programs send as `Authorization: Bearer TOKEN`."""
        return self._access.token

    def state(self) -> dict[str, Any]:
        """Return the newest state, as `/api/state` does. Any thread."""
        found: dict[str, Any] = json.loads(self._sampler.last[1])
        return found

    def watch(self) -> None:
        """Sample as often as for an open page, for a reader that is none."""
        self._sampler.watched = True

    def close(self) -> None:
        """Stop sampling and serving; open pages are disconnected. Idempotent."""
        self._server.close()  # first: a request would have the sampler measure again
        self._sampler.stop()
        if self._hook is not None:
            self._hook.cancel()

    def __enter__(self) -> Dashboard:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Dashboard {self.address}>"


def readers_of_process(redact: Redact | None = None) -> list[Reader]:
    """Return the readers of what runs in a process."""
    return [PartitionsReader(), WindowsReader(redact), LatencyReader(), QueriesReader()]


class OwnCluster(Protocol):
    """A cluster that this process has started: `streamactors.broker.Cluster`."""

    @property
    def owner_properties(self) -> dict[str, str]: ...
    def internals(self) -> list[dict[str, Any]]: ...


def serve(
    system: ActorSystem | None = None,
    *,
    port: int = 0,
    host: str = "127.0.0.1",
    token: str | None = None,
    allow_changes: bool = False,
    redact: Redact | None = None,
    hosts: Iterable[str] = (),
    name: str = "",
    broker: Mapping[str, Any] | OwnCluster | None = None,
) -> Dashboard:
    """Serve the page of a system, or of all systems of this process, and return the Dashboard; `print(dashboard.url)` and open it.

    `port` 0: a free one. `host`: loopback unless given. `token`: made unless given.
    `allow_changes`: dead letters may be sent again from the page. `redact(element)` returns what is shown instead of an element in a tap, of a value of
    a store, or of the key of a late row. `hosts`: names of a proxy under which the page is reached.
    `broker`: properties of a Kafka client, with its `bootstrap.servers`, or a Cluster; then the page shows that cluster, too.
    Raises DashboardNotServed if the address is not available."""
    readers = readers_of_process(redact)
    properties: Mapping[str, Any] | None = None
    if broker is not None:
        from streamactors.dashboard.reading.broker import BrokerReader  # librdkafka: only where it is used

        properties, internals = (
            (broker, None) if isinstance(broker, Mapping) else (broker.owner_properties, broker.internals)
        )
        readers.append(BrokerReader(properties, internals))
    return Dashboard(
        Sampler(system, name, readers),
        system,
        port=port,
        host=host,
        token=token,
        allow_changes=allow_changes,
        redact=redact,
        hosts=hosts,
        broker=properties,
    )


class PageOnDemand:
    """The page of a process that another process shows: the first request for its address serves it, on loopback."""

    def __init__(self, system: ActorSystem, name: str, redact: Redact | None = None) -> None:
        self._system = system
        self._name = name
        self._redact = redact
        self._served: Dashboard | None = None

    def address(self) -> bytes:
        """Return the address, with the token."""
        if self._served is None:
            self._served = serve(self._system, name=self._name, redact=self._redact)
            self._served.watch()
        return self._served.url.encode()

    def close(self) -> None:
        """End the page."""
        if self._served is not None:
            self._served.close()
