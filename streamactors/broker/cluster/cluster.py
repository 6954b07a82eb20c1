"""`Cluster`: a broker for the length of a `with` block, in this process or in one of its own.

In this process the broker starts in milliseconds and shares the interpreter lock with the caller; with `process=True` it has a
process and a lock of its own. When a `Cluster` is closed, no thread, socket, process or temporary file is left.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Protocol, Self

from streamactors.broker.cluster.arguments import check_arguments, check_port
from streamactors.broker.cluster.control import ClusterControl, one_broker_only
from streamactors.broker.errors import BrokerStartError, ErrorCode, Refusal

if TYPE_CHECKING:
    from streamactors.broker.cluster.acl import Acl
    from streamactors.broker.cluster.doors import Doors
    from streamactors.broker.cluster.several import SeveralBrokers
    from streamactors.broker.config.broker_config import Plain
    from streamactors.broker.security.client_login import Door
    from streamactors.clock import Clock

# settings for tests and demos, not for a long-lived broker
PROFILE: Final[Mapping[str, Plain]] = {
    "auto.create.topics.enable": True,
    "group.initial.rebalance.delay.ms": 0,
    "offsets.topic.num.partitions": 4,
    "transaction.state.log.num.partitions": 4,
}
# clients use real time: their timestamps may be far from the given clock, and a connection may be silent while the clock moves by hours
_ANY_TIME: Final[Mapping[str, Plain]] = {
    "log.message.timestamp.after.max.ms": 2**63 - 1,
    "connections.max.idle.ms": 2**63 - 1,
}
_ANY_PORT: Final = "127.0.0.1:0"
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

    def close(self) -> None: ...


class Cluster(ClusterControl):
    """One broker with real sockets on loopback, or several. The data is in the folder `data`, or in a temporary folder.

    With `brokers=3` each broker is a process of its own, a node with an id from 1 on. Three of them are controllers, too: they elect one of them, and
    another one when it is gone. `controllers=1` makes node 1 the only controller, which starts sooner. Node 1 listens on `port` and each next node on
    the next one; without it each gets a free port. Topics have three replicas and `min.insync.replicas` 2 unless `config` says otherwise.
    `kill`, `pause`, `partition` and others disturb the nodes.

    `users` are passwords by name, for logins by SCRAM-SHA-512, SCRAM-SHA-256 and PLAIN; `tls` encrypts with a certificate made for the run
    (extra `tls`), also between several brokers, which log in to each other; `acls` turns the authoriser on, and what they do not allow is denied.
    `client_properties(user)` has what a client needs.

    `config` takes Apache Kafka's broker settings by name. `listen` is `host:port` or `NAME://host:port`, one or several; port 0
    stands for a free port. `clock` may be the `VirtualClock` of an actor system, for tests: the broker in this process uses it.
    Timeouts of clients, such as sessions, stay in real time. Raises InvalidSetting or BrokerStartError if the broker cannot start.

        with Cluster() as cluster:
            producer = confluent_kafka.Producer({"bootstrap.servers": cluster.bootstrap_servers})
    """

    def __init__(
        self,
        *,
        brokers: int = 1,
        controllers: int | None = None,
        process: bool = False,
        data: str | Path | None = None,
        listen: str | Sequence[str] = _ANY_PORT,
        advertise: str | Sequence[str] = (),
        config: Mapping[str, Plain] | None = None,
        pipelining: bool = True,
        metrics_port: str | int | None = None,
        users: Mapping[str, str] | None = None,
        tls: bool = False,
        acls: Iterable[Acl] | None = None,
        clock: Clock | None = None,
        port: int | None = None,
    ) -> None:
        if isinstance(acls, Iterable) and not isinstance(acls, str):
            acls = tuple(acls)
        check_arguments(
            {"process": process, "tls": tls, "pipelining": pipelining, "users": users, "acls": acls}
            | {"listen": listen, "advertise": advertise, "config": config, "data": data}
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
            alone = {"listen": listen != _ANY_PORT, "advertise": advertise != ()}
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
        self._doors = None if not users and not tls else _doors(users or {}, tls, acls)
        self._arguments: dict[str, Any] = {
            "listen": [listen] if isinstance(listen, str) else list(listen),
            "advertise": [advertise] if isinstance(advertise, str) else list(advertise),
            "data": None if data is None else str(data),
            "settings": {
                **PROFILE,
                **({} if clock is None else _ANY_TIME),
                "pipelining": pipelining,
                **(config or {}),
            },
            "metrics": None,
        }
        if metrics_port is not None:
            from streamactors.broker.http.door import HttpDoor

            self._arguments["metrics"] = HttpDoor.of(str(metrics_port))
        if self._doors is not None:
            self._arguments["listen"] = self._doors.listen(self._arguments["listen"])
            made = self._doors.settings() if brokers == 1 else self._doors.between_nodes()
            self._arguments["settings"] = self._doors.with_given({**PROFILE, **made}, self._arguments["settings"])
            self._arguments["add_scram"] = self._doors.add_scram()
            self._arguments["acls"] = self._doors.acls or []
        self._running: Running | None = None
        self._finalizer: weakref.finalize[[int, Running], Cluster] | None = None

    def start(self, node: int | None = None) -> Self:
        """Start the broker or brokers; return when they accept connections. With `node`, start a node again that was killed or stopped."""
        if node is not None:
            self._several().start(node)
        elif self._running is None:
            if self._doors is not None:
                self._doors.check_open()
            if self._brokers > 1:
                from streamactors.broker.cluster.several import SeveralBrokers

                self._running = SeveralBrokers(
                    self._brokers, self._arguments, self._controllers, self._doors, self._port
                )
            elif self._in_own_process:
                from streamactors.broker.launch.child_process import ChildBroker

                self._running = ChildBroker(self._arguments)
            else:
                from streamactors.broker.launch.embedded import EmbeddedBroker

                self._running = EmbeddedBroker(self._arguments, self._clock)
            # closes the broker at the latest when this process ends
            self._finalizer = weakref.finalize(self, _close_in, os.getpid(), self._running)
        return self

    def close(self) -> None:
        """Stop the broker and remove its temporary folder. Further calls do nothing, nor do calls in a forked process."""
        self._running = None
        if self._finalizer is not None:
            self._finalizer()
        if self._doors is not None:
            self._doors.close()

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

    @property
    def pid(self) -> int:
        """The id of the broker's process."""
        return self._started().pid

    @property
    def metrics_token(self) -> str | None:
        """The token that `/metrics` and `/ready` ask for, as `Authorization: Bearer TOKEN`; None without `metrics_port`."""
        door = self._arguments["metrics"]
        return None if door is None else str(door[2])

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        config: Mapping[str, str] | None = None,
        *,
        replication_factor: int | None = None,
    ) -> None:
        """Create a topic and wait until it accepts records. It has the default number of replicas of the cluster unless told otherwise.

        Raises BrokerError with Kafka's error text."""
        from streamactors.broker.wire_request import create_topic

        running = self._started()
        replicas = -1 if replication_factor is None else replication_factor
        several = self._several() if self._brokers > 1 else None
        is_new = several is not None and not several.has_topic(name)
        try:
            create_topic(running.local_address, name, partitions, config or {}, self._door(), replicas)
        except Refusal as refusal:
            # The controller changed before it answered. The broker asked the next one, and that one has the topic.
            if not is_new or refusal.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                raise
        if several is not None:
            several.await_topic(name)

    def delete_topic(self, name: str) -> None:
        """Delete a topic if it exists."""
        from streamactors.broker.wire_request import delete_topic

        delete_topic(self._started().local_address, name, self._door())

    def client_properties(self, user: str | None = None, *, mechanism: str = "SCRAM-SHA-512") -> dict[str, str]:
        """Return librdkafka's properties of a client of this cluster: address, protocol, authority, and the user's login.

        `mechanism` is SCRAM-SHA-512, SCRAM-SHA-256 or PLAIN. Raises BrokerStartError for a user that the cluster does not have."""
        address = {"bootstrap.servers": self.bootstrap_servers}
        return address if self._doors is None else {**address, **self._doors.client_properties(user, mechanism)}

    def _door(self) -> Door | None:
        return None if self._doors is None else self._doors.owner()

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


def _doors(users: Mapping[str, str], tls: bool, acls: Iterable[Acl] | None) -> Doors:
    from streamactors.broker.cluster.doors import Doors

    return Doors(users, tls, acls)
