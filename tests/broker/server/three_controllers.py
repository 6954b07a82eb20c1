"""Nodes in one process that are the controllers of one cluster, over real sockets. By default each is a broker too."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from streamactors.broker.cluster.reserved_ports import HOST, free_port
from streamactors.broker.controller.controller import Controller
from streamactors.broker.helpers import call_on
from streamactors.broker.launch.storage_format import format_folder
from streamactors.broker.log.disk import Disk
from streamactors.broker.log.partition_metadata import encode_uuid
from streamactors.broker.metadata.image import MetadataImage
from streamactors.broker.quorum.quorum import Quorum
from tests.broker.controller.clusters import TOPIC_ID
from tests.broker.live_broker import LiveBroker
from tests.broker.wire import WireClient, wait_until

CLUSTER_ID = encode_uuid(TOPIC_ID)
QUICK = {
    "broker.heartbeat.interval.ms": 100,
    "broker.session.timeout.ms": 20_000,
    "controller.quorum.election.timeout.ms": 150,
    "controller.quorum.fetch.timeout.ms": 1_000,
}


class ThreeControllers:
    """Started when entered; `nodes` by id."""

    def __init__(self, folder: Path, *, roles: str = "broker,controller", **settings: Any) -> None:
        self.folder = folder
        self.ports: dict[int, int] = {}
        for node in (1, 2, 3):
            self.ports[node] = free_port(self.ports.values())
        self.nodes: dict[int, LiveBroker] = {}
        self.disks: dict[int, Disk] = {}
        """The disks of nodes that do not have an ordinary one."""
        self.settings = {
            **QUICK,
            "process.roles": roles,
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": ",".join(f"{node}@{HOST}:{port}" for node, port in self.ports.items()),
            **{name.replace("_", "."): value for name, value in settings.items()},
        }
        self._is_broker = "broker" in roles

    def __enter__(self) -> ThreeControllers:
        for node in self.ports:
            format_folder(self.folder / str(node), node, CLUSTER_ID)
        self.start(*self.ports)
        return self

    def __exit__(self, *_: object) -> None:
        self.stop(*self.nodes)

    def start(self, *nodes: int) -> None:
        """Start nodes side by side: no one leads before two of them run."""
        for node in nodes:
            listeners = f"CONTROLLER://{HOST}:{self.ports[node]}"
            if self._is_broker:
                listeners = f"PLAINTEXT://{HOST}:0,{listeners}"
            own = {"node.id": node, **self.settings, "listeners": listeners}
            self.nodes[node] = LiveBroker(self.folder / str(node), own, disk=self.disks.get(node))
        with ThreadPoolExecutor(len(nodes)) as pool:
            for started in [pool.submit(self.nodes[node].__enter__) for node in nodes]:
                started.result()

    def stop(self, *nodes: int) -> None:
        """Stop nodes in order, side by side."""
        stopping = [self.nodes.pop(node) for node in nodes]
        with ThreadPoolExecutor(max(len(stopping), 1)) as pool:
            list(pool.map(lambda node: node.__exit__(None, None, None), stopping))

    def controller(self, node: int) -> Controller:
        controller = self.nodes[node].node.controller
        assert isinstance(controller, Controller)
        return controller

    def quorum(self, node: int) -> Quorum:
        return self.controller(node)._quorum

    def on_controller(self, node: int, call: Callable[[], Any]) -> Any:
        return call_on(self.controller(node)._dispatcher, call)

    def leader(self) -> int:
        """Wait until one node leads, and return it."""
        found: list[int] = []

        def one_leads() -> bool:
            found[:] = [node for node in self.nodes if self.controller(node).active]
            return len(found) == 1

        wait_until(one_leads, "one controller leads", describe=self.describe)
        return found[0]

    def describe(self) -> str:
        """Return what each node knows of the quorum, for the error of a test."""
        return "\n".join(f"node {node}: {self._described(node)}" for node in self.nodes)

    def _described(self, node: int) -> str:
        controller = self.controller(node)
        quorum, replica = controller._quorum, controller._replica
        state, channels = quorum.state, replica._channels
        links = {
            f"{target} {purpose}": f"{channel.address} {channel.in_flight} in flight"
            for (target, purpose), channel in list(channels._channels.items())
        }
        return (
            f"{state.role.name}, active {controller.active}, broken {controller.broken}, {state.election}, voters {sorted(state.voters)} "
            f"at {state.voters_offset}, log end {quorum.end_offset}, high watermark {state.high_watermark}, acts in "
            f"{state.deadline_ms - controller._node.clock.now_ms():.0f} ms, lost {sorted(channels._lost)}, channels {links}"
        )

    def client(self, node: int) -> WireClient:
        """Connect to the listener for controllers."""
        return WireClient(HOST, self.ports[node])

    def image(self, node: int) -> MetadataImage:
        return self.nodes[node].node.metadata.image

    def await_topic(self, name: str) -> None:
        for node in self.nodes:
            wait_until(lambda node=node: name in self.image(node).topics, f"node {node} knows {name}")  # type: ignore[misc]
