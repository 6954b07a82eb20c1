"""`Cluster`: a broker to connect to, for the length of a `with` block. In this process or in one of its own.

Owner: whoever made it. In this process it is up in milliseconds and shares the interpreter lock with the code around it; with
`process=True` it has a process and a lock to itself. Either way it leaves nothing behind: no thread, socket, process or file.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Protocol, Self

from streamactors.broker.errors import BrokerStartError

if TYPE_CHECKING:
    from streamactors.broker.config.broker_config import Plain

# what tests and demos want, and a long-lived broker does not
PROFILE: Final[Mapping[str, Plain]] = {
    "auto.create.topics.enable": True,
    "group.initial.rebalance.delay.ms": 0,
    "offsets.topic.num.partitions": 4,
    "transaction.state.log.num.partitions": 4,
}
_ANY_PORT: Final = "127.0.0.1:0"


class Running(Protocol):
    """A broker that has been started, wherever it runs."""

    bootstrap_servers: str
    local_address: str
    cluster_id: str
    data_folder: Path
    pid: int

    def close(self) -> None: ...


class Cluster:
    """One broker with real sockets on loopback; its data lies in a temporary folder unless `data` says where.

    `config` takes Apache Kafka's broker settings by name. `listen` is `host:port` or `NAME://host:port`, one or several; port 0
    is a free one. Raises InvalidSetting or BrokerStartError when it cannot start.

        with Cluster() as cluster:
            producer = confluent_kafka.Producer({"bootstrap.servers": cluster.bootstrap_servers})
    """

    def __init__(
        self,
        *,
        brokers: int = 1,
        process: bool = False,
        data: str | Path | None = None,
        listen: str | Sequence[str] = _ANY_PORT,
        advertise: str | Sequence[str] = (),
        config: Mapping[str, Plain] | None = None,
        pipelining: bool = True,
        metrics_port: str | int | None = None,
    ) -> None:
        if brokers != 1:
            raise BrokerStartError(f"Cluster(brokers={brokers}): several brokers are not there yet; use one")
        self._in_own_process = process
        self._arguments: dict[str, Any] = {
            "listen": [listen] if isinstance(listen, str) else list(listen),
            "advertise": [advertise] if isinstance(advertise, str) else list(advertise),
            "data": None if data is None else str(data),
            "settings": {**PROFILE, "pipelining": pipelining, **(config or {})},
            "metrics": None if metrics_port is None else str(metrics_port),
        }
        self._running: Running | None = None
        self._finalizer: weakref.finalize[[int, Running], Cluster] | None = None

    def start(self) -> Self:
        """Start the broker; return when it can be connected to."""
        if self._running is None:
            if self._in_own_process:
                from streamactors.broker.child_process import ChildBroker

                self._running = ChildBroker(self._arguments)
            else:
                from streamactors.broker.embedded import EmbeddedBroker

                self._running = EmbeddedBroker(self._arguments)
            # someone may never call close: at the latest, the end of this process does
            self._finalizer = weakref.finalize(self, _close_in, os.getpid(), self._running)
        return self

    def close(self) -> None:
        """Stop the broker and remove its temporary folder. More calls do nothing, nor do those of a forked process."""
        self._running = None
        if self._finalizer is not None:
            self._finalizer()

    @property
    def bootstrap_servers(self) -> str:
        """What clients are given as `bootstrap.servers`."""
        return self._started().bootstrap_servers

    @property
    def cluster_id(self) -> str:
        """The id of the cluster, kept in its data folder."""
        return self._started().cluster_id

    @property
    def data_folder(self) -> Path:
        """Where the logs are."""
        return self._started().data_folder

    @property
    def pid(self) -> int:
        """The process the broker runs in."""
        return self._started().pid

    def create_topic(self, name: str, partitions: int = 1, config: Mapping[str, str] | None = None) -> None:
        """Create a topic; it can be written to on return. Raises BrokerError with Kafka's text when it cannot be."""
        from streamactors.broker.wire_request import create_topic

        create_topic(self._started().local_address, name, partitions, config or {})

    def delete_topic(self, name: str) -> None:
        """Delete a topic if it is there."""
        from streamactors.broker.wire_request import delete_topic

        delete_topic(self._started().local_address, name)

    def _started(self) -> Running:
        if self._running is None:
            raise BrokerStartError("this Cluster does not run; use it as `with Cluster() as cluster:` or call start()")
        return self._running

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        import asyncio  # only for those who have it already

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
    """Close a broker, if this is the process that started it: a fork that ends must not take it from its parent."""
    if os.getpid() == pid:
        running.close()
