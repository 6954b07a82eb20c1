"""The membership of one of our brokers, without its listeners: what an Apache controller sees of it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

from streamactors.actors.dispatching.dispatcher import Dispatcher, DispatcherStopped
from streamactors.broker.config.broker_config import BrokerConfig
from streamactors.broker.log.config import LogConfig
from streamactors.broker.log.manager import LogManager
from streamactors.broker.membership.controller_channels import ControllerChannels, NoController
from streamactors.broker.membership.lifecycle import Lifecycle
from streamactors.broker.membership.lifecycle_state import Times
from streamactors.broker.membership.member import Member
from streamactors.broker.metadata.delta import ImageDelta
from streamactors.broker.metadata.image import MetadataImage
from streamactors.broker.metadata.metadata_record import Endpoint
from streamactors.broker.replication.no_replicas import NoReplicas
from streamactors.broker.replication.partition_table import PartitionTable
from streamactors.broker.runtime import Runtime
from streamactors.broker.server.metadata_publisher import MetadataPublisher
from streamactors.errors import StreamActorsError


class MemberNode:
    """Started when entered: caught up, registered and unfenced."""

    def __init__(
        self, folder: Path, node_id: int, cluster_id: str, *controllers: int, session_ms: float = 9_000
    ) -> None:
        config = BrokerConfig.of({"node.id": node_id})
        self.failures: list[StreamActorsError] = []
        self.runtime = node = Runtime(config, Dispatcher(f"broker-{node_id}"))
        node.logs = LogManager(
            folder, default_config=LogConfig(), clock_ms=node.clock.wall_ms, node_id=node_id, cluster_id=cluster_id
        )
        node.node_id, node.cluster_id = node_id, cluster_id
        self._at = [("127.0.0.1", port) for port in controllers]
        self._times = Times(heartbeat_ms=session_ms / 5, session_ms=session_ms)

    def __enter__(self) -> MemberNode:
        self.runtime.data_plane.start()
        node = self.runtime
        node.logs.open()
        self.dispatcher = Dispatcher(f"{node.data_plane.name}-member")
        self.channels = channels = ControllerChannels(node, self.dispatcher, NoController())
        self.life = Lifecycle(node, self.dispatcher, channels, self._at, times=self._times, previous_epoch=-1)
        self.life.on_failure(self.failures.append)
        node.replication = NoReplicas(self.life)
        publisher = MetadataPublisher(node, PartitionTable(node))
        self.member = Member(node, publisher, self.dispatcher, channels, self.life, self._at)
        node.metadata.subscribe(self._applied)
        try:
            self.member.start()
            self.member.await_metadata(60)
            self.life.register([Endpoint("PLAINTEXT", "127.0.0.1", 9999)])
            self.life.ready()
        except BaseException:
            self.close()
            raise
        return self

    def _applied(self, delta: ImageDelta) -> None:
        with suppress(DispatcherStopped):  # the node is closing
            self.dispatcher.execute(partial(self.life.applied, delta.image))

    def __exit__(self, *_: object) -> None:
        self.close()

    def await_image(self, wanted: Callable[[MetadataImage], bool]) -> MetadataImage:
        """Return the first published image that is as wanted."""
        found = threading.Event()

        def look(_: object = None) -> None:
            if wanted(self.runtime.metadata.image):
                found.set()

        self.runtime.data_plane.execute(lambda: (self.runtime.metadata.subscribe(look), look()))
        assert found.wait(30), self.runtime.metadata.image
        return self.runtime.metadata.image

    def close(self) -> None:
        self.member.stop()
        self.dispatcher.execute(self.channels.close)
        self.dispatcher.execute(self.life.close)
        self.dispatcher.stop()
        self.runtime.helpers.stop()
        self.runtime.data_plane.stop()
        self.runtime.logs.close()
