"""Three nodes of Apache Kafka and three of ours, of one shape: node 1 is the controller and a broker, nodes 2 and 3 are brokers."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Final

from confluent_kafka.admin import AdminClient

from tests.differential.apache_kafka.broker import _free_ports
from tests.differential.apache_kafka.cluster import ApacheNode
from tests.differential.mixed_cluster import wait_until
from tests.differential.our_node import OurController, OurNode

SETTINGS: Final = {
    "broker.heartbeat.interval.ms": "500",
    "broker.session.timeout.ms": "3000",
    "auto.create.topics.enable": "false",
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
}


class ThreeNodes:
    """Started when entered. `controller` is the address of the controllers' listener."""

    def __init__(self, folder: Path, *, ours: bool, count: int = 3) -> None:
        (port,) = _free_ports(1)
        self.controller = f"127.0.0.1:{port}"
        self.nodes: dict[int, ApacheNode | OurNode] = {}
        folder.mkdir()
        for node_id in range(1, count + 1):
            at = folder / str(node_id)
            if ours and node_id == 1:
                self.nodes[1] = OurController(at, 1, port, SETTINGS)
            elif ours:
                self.nodes[node_id] = OurNode(at, node_id, self.controller, dict(SETTINGS))
            else:
                self.nodes[node_id] = ApacheNode(
                    at,
                    node_id,
                    "broker,controller" if node_id == 1 else "broker",
                    voters=f"1@{self.controller}",
                    settings=SETTINGS,
                    controller_port=port if node_id == 1 else None,
                )
        self.servers = ",".join(each.address for each in self.nodes.values())

    def __enter__(self) -> ThreeNodes:
        for node in self.nodes.values():
            node.start()
        for node in self.nodes.values():
            if isinstance(node, ApacheNode):
                node.await_broker()
        return self

    def await_isr(self, topic: str, isr: set[int]) -> None:
        """Wait until every partition of a topic has this ISR."""
        admin = AdminClient({"bootstrap.servers": self.servers, "log_level": 0})

        def there() -> bool:
            partitions = admin.list_topics(topic, timeout=10).topics[topic].partitions.values()
            return all(set(each.isrs) == isr for each in partitions)

        wait_until(there, lambda: f"the ISR of {topic} is not {isr}")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for node in reversed(self.nodes.values()):
            node.stop() if isinstance(node, OurNode) else node.kill()
