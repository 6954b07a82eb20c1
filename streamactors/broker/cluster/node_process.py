"""One node of a `Cluster` of several brokers: its address, its folder, and its process while it runs.

Owner: `SeveralBrokers`. A node keeps its address and its folder when it is started again."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from streamactors.broker.cluster.reserved_ports import HOST
from streamactors.broker.errors import BrokerStartError
from streamactors.broker.launch.child_process import ChildBroker


class NodeProcess:
    """One node. `arguments` are those of a broker process, without its folder and its listeners."""

    def __init__(
        self,
        node_id: int,
        folder: Path,
        arguments: Mapping[str, Any],
        port: int,
        controller_port: int | None,
        protocol: str = "PLAINTEXT",
    ) -> None:
        self.node_id = node_id
        self.folder = folder
        self.port = port
        self.controller_port = controller_port  # None for a node that is not a controller
        self._arguments = arguments
        self._protocol = protocol  # the protocol of the listener for clients and brokers, and the name of that listener
        self._child: ChildBroker | None = None
        self._starting: ChildBroker | None = None  # not ready yet: it takes no orders
        self._paused = False

    @property
    def address(self) -> str:
        """The address for clients."""
        return f"{HOST}:{self.port}"

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """Every address that other nodes send requests to."""
        ports = [self.port] if self.controller_port is None else [self.port, self.controller_port]
        return [(HOST, port) for port in ports]

    @property
    def running(self) -> bool:
        """Whether the process exists and is not paused."""
        return self.alive and not self._paused

    @property
    def alive(self) -> bool:
        """Whether the process exists and has been ready. It can end by itself, for example when its disk is full."""
        return self._child is not None and self._child.exit_code is None

    @property
    def started(self) -> bool:
        """Whether a process was started that has not been killed or stopped. It may have ended by itself."""
        return self._child is not None

    @property
    def child(self) -> ChildBroker:
        """The process. Raises BrokerStartError if the node is down."""
        if self._child is None:
            raise BrokerStartError(f"node {self.node_id} is not running; start({self.node_id}) starts it again")
        return self._child

    def start(self, links: Mapping[str, Any]) -> None:
        """Start the process with these cut and slow links; return when it serves clients. Raises BrokerStartError."""
        self.launch(links)
        self.await_ready()

    def launch(self, links: Mapping[str, Any]) -> None:
        """Start the process with these cut and slow links, without waiting for it. Raises BrokerStartError if it runs."""
        if self.alive:
            raise BrokerStartError(f"node {self.node_id} is running already")
        if self._starting is not None:
            raise BrokerStartError(f"node {self.node_id} is being started already")
        if self._child is not None:
            self.kill()
        listen = [f"{self._protocol}://{self.address}"]
        if self.controller_port is not None:
            listen.append(f"CONTROLLER://{HOST}:{self.controller_port}")
        own = {**self._arguments, "listen": listen, "data": str(self.folder), "links": links}
        self._starting = ChildBroker(own, wait=False)

    def await_ready(self) -> None:
        """Return when the launched process serves clients. Raises BrokerStartError when it cannot; then the node is down."""
        child = self._starting
        assert child is not None
        try:
            child.await_ready()
        finally:
            self._starting = None
        self._child = child

    def abandon(self) -> None:
        """End the process at once and do not wait for its end. A thread that waits for its start gets the error."""
        for child in (self._starting, self._child):
            if child is not None:
                child.abandon()

    def kill(self) -> None:
        """End the process at once, with SIGKILL."""
        child, self._child = self.child, None
        self._paused = False
        child.kill()

    def stop(self) -> None:
        """Have the node leave the cluster and end."""
        self.resume()
        child, self._child = self.child, None
        child.close()

    def pause(self) -> None:
        """Stop the process's threads, with SIGSTOP. Returns when they have stopped; the connections stay open."""
        self.child.pause()
        self._paused = True

    def resume(self) -> None:
        """Let a paused process continue. Returns when the process has cut and healed its links as it was asked to during the pause."""
        if self._paused:
            self._paused = False
            self.child.resume()
            self.child.await_followed()
