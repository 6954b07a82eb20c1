"""`Cluster`: a broker for the length of a `with` block, in this process or in one of its own.

In this process the broker starts in milliseconds and shares the interpreter lock with the caller; with `process=True` it has a
process and a lock of its own. When a `Cluster` is closed, no thread, socket, process or temporary file is left.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol, Self

from streamactors.broker.cluster.arguments import check_arguments, check_port
from streamactors.broker.cluster.control import ClusterControl, one_broker_only
from streamactors.broker.cluster.profile import PROFILE, with_profile
from streamactors.broker.errors import BrokerStartError, ErrorCode, Refusal

if TYPE_CHECKING:
    from streamactors.broker.cluster.acl import Acl
    from streamactors.broker.cluster.cluster_credentials import ClusterCredentials
    from streamactors.broker.cluster.several import SeveralBrokers
    from streamactors.broker.config.broker_config import Plain
    from streamactors.broker.security.client_login import ListenerCredentials
    from streamactors.clock import Clock

MOST_BROKERS: Final = 9


class Running(Protocol):
    """A running broker, in this process or another."""

    bootstrap_servers: str
    cluster_id: str
    data_folder: Path

    @property
    def local_address(self) -> str: ...

    @property
    def pid(self) -> int: ...

    def internals(self) -> Any: ...
    def close(self) -> None: ...


class Cluster(ClusterControl):
    """One broker with real sockets on loopback, or several. The data is in the folder `data`, or in a temporary folder.

    With `brokers=3` each broker is a process of its own, a node with an id from 1 on. Three of them are controllers, too: they elect one of them, and
    another one when it is gone. `controllers=1` makes node 1 the only controller, which starts sooner. Node 1 listens on `port` and each next node on
    the next one; without it each gets a free port. Topics have three replicas and `min.insync.replicas` 2 unless `config` says otherwise.
    `kill`, `pause`, `partition` and others disturb the nodes.

    `users` are passwords by name, for logins by SCRAM-SHA-512, SCRAM-SHA-256 and PLAIN. `tls=True` encrypts with a certificate made for the run
    (extra `tls`), also between several brokers, which log in to each other. `acls` is a list of Acl: it turns the authoriser on, and what it does not
    allow is denied to everybody but the first user.
    `client_properties(user)` has what a client needs.

    `config` takes Apache Kafka's broker settings by name. `listen` is `host:port` or `NAME://host:port`, one or several; port 0
    is a free port. `dashboard=True`, or a port, serves a live page of the cluster and of this process; `print(cluster.dashboard.url)` and open it.
    With `allow_changes=True` dead letters may be sent again from that page.
    Without `listen` the broker listens at `Cluster.default_listen`. `clock` may be the `VirtualClock` of an actor system, for tests: the broker in this process uses it.
    Timeouts of clients, such as sessions, stay in real time. Raises InvalidSetting or BrokerStartError if the broker cannot start.

        with Cluster() as cluster:
            producer = confluent_kafka.Producer({"bootstrap.servers": cluster.bootstrap_servers})
    """

    default_listen: ClassVar[str] = "127.0.0.1:0"
    """Where one broker without `listen` listens. Set it to give each of several test processes an address of its own."""

    def __init__(
        self,
        *,
        brokers: int = 1,
        controllers: int | None = None,
        process: bool = False,
        data: str | Path | None = None,
        listen: str | Sequence[str] | None = None,
        advertise: str | Sequence[str] = (),
        config: Mapping[str, Plain] | None = None,
        pipelining: bool = True,
        metrics_port: str | int | None = None,
        users: Mapping[str, str] | None = None,
        tls: bool = False,
        acls: Iterable[Acl] | None = None,
        clock: Clock | None = None,
        port: int | None = None,
        dashboard: bool | int = False,
        allow_changes: bool = False,
    ) -> None:
        if isinstance(acls, Iterable) and not isinstance(acls, str):
            acls = tuple(acls)
        listens = self.default_listen if listen is None else listen
        check_arguments(
            {"process": process, "tls": tls, "pipelining": pipelining, "users": users, "acls": acls}
            | {"listen": listens, "advertise": advertise, "config": config, "data": data}
        )
        if not isinstance(brokers, int) or not 1 <= brokers <= MOST_BROKERS:
            raise BrokerStartError(f"Cluster(brokers={brokers}): a Cluster has 1 to {MOST_BROKERS} brokers")
        if controllers is not None and (not isinstance(controllers, int) or not 1 <= controllers <= brokers):
            raise BrokerStartError(
                f"Cluster(brokers={brokers}, controllers={controllers}): some of the brokers are the controllers; choose 1 to {brokers}"
            )
        self._controllers = controllers
        check_port(port, brokers)
        self._port = port
        if brokers > 1:
            alone = {"listen": listen is not None, "advertise": advertise != ()}
            for name, wanted in {**alone, "metrics_port": metrics_port is not None}.items():
                if wanted:
                    raise BrokerStartError(
                        f"Cluster(brokers={brokers}, {name}=…): {name} is for one broker; leave it out"
                    )
        if clock is not None and (process or brokers > 1):
            raise BrokerStartError(
                "Cluster(clock=…): a clock is for one broker in this process; leave process and brokers out"
            )
        self._clock = clock
        self._brokers = brokers
        if acls is not None and not users:
            raise BrokerStartError("Cluster(acls=…) needs users: without logins every client is User:ANONYMOUS")
        self._in_own_process = process
        listens = [listens] if isinstance(listens, str) else list(listens)
        advertises = [advertise] if isinstance(advertise, str) else list(advertise)
        self._credentials = (
            None if not users and not tls else _credentials_of(users or {}, tls, acls, (*listens, *advertises))
        )
        self._arguments: dict[str, Any] = {
            "listen": listens,
            "advertise": advertises,
            "data": None if data is None else str(data),
            "settings": with_profile({"pipelining": pipelining, **(config or {})}, virtual=clock is not None),
            "metrics": None,
        }
        if metrics_port is not None:
            from streamactors.broker.http.endpoint_address import MetricsEndpoint

            self._arguments["metrics"] = MetricsEndpoint.of(str(metrics_port))
        if self._credentials is not None:
            self._arguments["listen"] = self._credentials.listen(self._arguments["listen"])
            made = self._credentials.settings() if brokers == 1 else self._credentials.between_nodes()
            self._arguments["settings"] = self._credentials.with_given({**PROFILE, **made}, self._arguments["settings"])
            self._arguments["add_scram"] = self._credentials.add_scram()
            self._arguments["acls"] = self._credentials.acls or []
        if not isinstance(dashboard, int) or dashboard < 0:
            raise BrokerStartError(f"Cluster(dashboard={dashboard!r}): give True, False or a port")
        if allow_changes and dashboard is False:
            raise BrokerStartError("Cluster(allow_changes=True) is about the live page: give dashboard=True, too")
        self._allow_changes = allow_changes
        self._dashboard_port = None if dashboard is False else 0 if dashboard is True else dashboard
        self._dashboard: Any = None
        self._running: Running | None = None
        self._down = False  # the only broker is stopped or killed
        self._finalizer: weakref.finalize[[int, Running], Cluster] | None = None

    def start(self, node: int | None = None) -> Self:
        """Start the broker or brokers; return when they accept connections. With `node`, start a node again that was killed or stopped, at its address and with its data. The
        node of a single broker is 1."""
        if node is not None and self._brokers == 1:
            self._start_only(node)
        elif node is not None:
            self._several().start(node)
        elif self._running is None:
            if self._credentials is not None:
                self._credentials.check_open()
            if self._brokers > 1:
                from streamactors.broker.cluster.several import SeveralBrokers

                self._running = SeveralBrokers(
                    self._brokers, self._arguments, self._controllers, self._credentials, self._port
                )
            elif self._in_own_process:
                from streamactors.broker.launch.child_process import ChildBroker

                self._running = ChildBroker(self._arguments)
            else:
                from streamactors.broker.launch.embedded import EmbeddedBroker

                self._running = EmbeddedBroker(self._arguments, self._clock)
            self._close_at_exit(self._running)
            if self._dashboard_port is not None:
                self._serve_dashboard(self._dashboard_port)
        return self

    def _close_at_exit(self, running: Running) -> None:
        """Close the broker at the latest when this process ends."""
        self._finalizer = weakref.finalize(self, _close_in, os.getpid(), running)

    def _end_only(self, node: int, *, kill: bool) -> bool:
        from streamactors.broker.launch.child_process import ChildBroker

        running: Any = self._started()
        if self._brokers > 1:
            return False
        if node != 1:
            raise BrokerStartError(f"there is no node {node}; this Cluster has node 1")
        if not kill:
            running.close(keep=True)
        elif isinstance(running, ChildBroker):
            running.kill()
        else:
            raise BrokerStartError("kill(1): a broker in this process cannot be killed; give Cluster(process=True)")
        self._down = True
        return True

    def _start_only(self, node: int) -> None:
        from streamactors.broker.launch.child_process import ChildBroker
        from streamactors.broker.launch.embedded import EmbeddedBroker

        before: Any = self._started()
        if node != 1:
            raise BrokerStartError(f"there is no node {node}; this Cluster has node 1")
        if not self._down:
            return
        again = before.arguments_again(self._arguments)
        # if the start fails, the finalizer still removes the temporary folder
        running: Running = ChildBroker(again) if self._in_own_process else EmbeddedBroker(again, self._clock)
        if self._finalizer is not None:
            self._finalizer.detach()
        self._running, self._down = running, False
        self._close_at_exit(running)

    def _serve_dashboard(self, port: int) -> None:
        serving = import_module("streamactors.dashboard.serving")  # the top layer: no other module imports it
        try:
            self._dashboard = serving.serve(
                None, port=port, name="cluster", broker=self, allow_changes=self._allow_changes
            )
        except BaseException:
            self.close()
            raise

    @property
    def dashboard(self) -> Any:
        """The Dashboard of the cluster and of all graphs of this process, with its `url`; None without `dashboard=True`."""
        return self._dashboard

    def close(self) -> None:
        """Stop the broker and remove its temporary folder. Further calls do nothing, nor do calls in a forked process."""
        self._running, self._down = None, False
        if self._dashboard is not None:
            self._dashboard.close()
        try:
            if self._finalizer is not None:
                self._finalizer()
        finally:
            if self._credentials is not None:
                self._credentials.close()

    @property
    def bootstrap_servers(self) -> str:
        """The value of the clients' `bootstrap.servers`."""
        return self._started().bootstrap_servers

    @property
    def cluster_id(self) -> str:
        """The id of the cluster, kept in its data folder."""
        return self._started().cluster_id

    @property
    def data_folder(self) -> Path:
        """The folder of the logs."""
        return self._started().data_folder

    def internals(self) -> list[dict[str, Any]]:
        """Return what each broker that answers knows of itself: connections, purgatories, times of requests and of the disk, data folders. For a page about
        the cluster: the first call switches the measuring on, ten seconds without a call switch it off."""
        found = self._started().internals()
        return [each for each in (found if isinstance(found, list) else [found]) if each is not None]

    @property
    def pid(self) -> int:
        """The id of the broker's process."""
        return self._started().pid

    @property
    def metrics_token(self) -> str | None:
        """The token that `/metrics` asks for, as `Authorization: Bearer TOKEN`; None without `metrics_port`."""
        endpoint = self._arguments["metrics"]
        return None if endpoint is None else str(endpoint[2])

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        config: Mapping[str, Plain] | None = None,
        *,
        replication_factor: int | None = None,
    ) -> None:
        """Create a topic and wait until it accepts records. It has the default number of replicas of the cluster unless `replication_factor` is given.

        `config` takes Kafka's settings of a topic by name, such as `{"retention.ms": 60_000}`. Raises BrokerError with Kafka's error message."""
        from streamactors.broker.config.broker_config import plain_text
        from streamactors.broker.wire_request import create_topic

        running = self._started()
        replicas = -1 if replication_factor is None else replication_factor
        settings = {key: plain_text(value) for key, value in (config or {}).items() if value is not None}
        several = self._several() if self._brokers > 1 else None
        is_new = several is not None and not several.has_topic(name)
        try:
            create_topic(running.local_address, name, partitions, settings, self._owner_credentials(), replicas)
        except Refusal as refusal:
            # The controller changed before it answered. The broker asked the next one, and that one has the topic.
            if not is_new or refusal.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                raise
        if several is not None:
            several.await_topic(name)

    def delete_topic(self, name: str) -> None:
        """Delete a topic if it exists."""
        from streamactors.broker.wire_request import delete_topic

        delete_topic(self._started().local_address, name, self._owner_credentials())

    def client_properties(self, user: str | None = None, *, mechanism: str = "SCRAM-SHA-512") -> dict[str, str]:
        """Return librdkafka's properties of a client of this cluster: address, protocol, authority, and the user's login.

        `mechanism` is SCRAM-SHA-512, SCRAM-SHA-256 or PLAIN. Raises BrokerStartError for a user that the cluster does not have."""
        address = {"bootstrap.servers": self.bootstrap_servers}
        return (
            address
            if self._credentials is None
            else {**address, **self._credentials.client_properties(user, mechanism)}
        )

    @property
    def owner_properties(self) -> dict[str, str]:
        """librdkafka's properties of a client that may see everything: of the first user, or without a login where the cluster has no users."""
        return self.client_properties(None if self._credentials is None else next(iter(self._credentials.users), None))

    def _owner_credentials(self) -> ListenerCredentials | None:
        return None if self._credentials is None else self._credentials.owner()

    def _several(self) -> SeveralBrokers:
        from streamactors.broker.cluster.several import SeveralBrokers

        running = self._started()
        if not isinstance(running, SeveralBrokers):
            raise one_broker_only()
        return running

    def _started(self) -> Running:
        if self._running is None:
            raise BrokerStartError(
                "this Cluster is not running; use it as `with Cluster() as cluster:` or call start()"
            )
        return self._running

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        import asyncio  # only if the caller uses it already

        return await asyncio.to_thread(self.start)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        import asyncio

        await asyncio.to_thread(self.close)

    def __repr__(self) -> str:
        state = "not running" if self._running is None else f"at {self._running.bootstrap_servers}"
        return f"<Cluster {state}>"


def _close_in(pid: int, running: Running) -> None:
    """Close a broker if this process started it: a fork that ends must not close its parent's broker."""
    if os.getpid() == pid:
        running.close()


def _credentials_of(
    users: Mapping[str, str], tls: bool, acls: Iterable[Acl] | None, addresses: Iterable[str]
) -> ClusterCredentials:
    from streamactors.broker.cluster.cluster_credentials import ClusterCredentials

    return ClusterCredentials(users, tls, acls, addresses)
