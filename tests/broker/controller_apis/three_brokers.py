"""Three brokers in one process: broker 1 is the controller of the others, which join over loopback."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from streamactors.broker.log.disk import Disk
from streamactors.broker.metadata.image import MetadataImage
from streamactors.broker.metadata.metadata_record import PartitionRecord
from tests.broker.live_broker import LiveBroker
from tests.broker.wire import WireClient, wait_until

QUICK = {"broker.heartbeat.interval.ms": 100, "broker.session.timeout.ms": 20_000}


class ThreeBrokers:
    """Started when entered; `brokers` by id."""

    def __init__(self, folder: Path, protocol: str = "PLAINTEXT", **settings: Any) -> None:
        self._folder = folder
        self._protocol = protocol
        self._settings = {
            **QUICK,
            **{name.replace("__", "/").replace("_", ".").replace("/", "_"): value for name, value in settings.items()},
        }
        self.brokers: dict[int, LiveBroker] = {}
        self.disks: dict[int, Disk] = {}
        """The disks of brokers that do not have an ordinary one."""

    def __enter__(self) -> ThreeBrokers:
        controller = {
            "listeners": f"{self._protocol}://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
            "controller.listener.names": "CONTROLLER",
        }
        self._start(1, controller)
        for broker in (2, 3):
            self.join(broker)
        return self

    def __exit__(self, *_: object) -> None:
        for broker in sorted(self.brokers, reverse=True):
            self.stop(broker)

    def join(self, broker: int) -> None:
        self._start(
            broker,
            {
                "process.roles": "broker",
                "listeners": f"{self._protocol}://127.0.0.1:0",
                "controller.quorum.bootstrap.servers": f"127.0.0.1:{self.controller_port}",
            },
        )

    def _start(self, broker: int, settings: dict[str, Any]) -> None:
        folder = self._folder / str(broker)
        live = LiveBroker(folder, {"node.id": broker, **self._settings, **settings}, disk=self.disks.get(broker))
        live.__enter__()
        self.brokers[broker] = live

    def stop(self, broker: int) -> None:
        """Leave the cluster in order."""
        self.brokers.pop(broker).__exit__(None, None, None)

    @property
    def controller_port(self) -> int:
        listener = self.brokers[1].node.controller_listener
        assert listener is not None
        return listener.port

    def controller_client(self) -> WireClient:
        return WireClient("127.0.0.1", self.controller_port)

    @property
    def image(self) -> MetadataImage:
        return self.brokers[1].node.metadata.image

    def partition(self, topic: str, index: int = 0, *, seen_by: int = 1) -> PartitionRecord:
        return self.brokers[seen_by].node.metadata.image.topics[topic].partitions[index]

    def await_partition(
        self, topic: str, wanted: Callable[[PartitionRecord], bool], what: str, seen_by: int = 1
    ) -> None:
        def there() -> bool:
            topics = self.brokers[seen_by].node.metadata.image.topics
            return topic in topics and wanted(topics[topic].partitions[0])

        wait_until(there, what)
