"""The telemetry of a broker: serves what clients ask and push (KIP-714), and keeps one entry for each client.

Owner: the node, on the data plane's thread. The receiver is the broker's own /metrics: without it the two APIs are not listed, so no client asks.
The subscriptions are read again when the image has other client-metrics resources."""

from __future__ import annotations

import uuid
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from streamactors.broker.errors import BrokerError, ErrorCode, Refusal
from streamactors.broker.log.partition_metadata import encode_uuid
from streamactors.broker.metadata.metadata_record import CLIENT_METRICS_RESOURCE
from streamactors.broker.records.compression import decompress
from streamactors.broker.telemetry.client_instance import ClientInstance
from streamactors.broker.telemetry.otlp import read_metrics
from streamactors.broker.telemetry.pushed_metrics import PushedFamily, PushedMetrics
from streamactors.broker.telemetry.subscriptions import Subscription, Wanted, subscription_of, wanted_of

if TYPE_CHECKING:
    from streamactors.broker.metadata.image import ResourceKey
    from streamactors.broker.node import Node
    from streamactors.broker.requests.request import Request

MAX_INSTANCES: Final = 16_384
_KEPT_MS: Final = 60_000
_KEPT_INTERVALS: Final = 3
_RESERVED: Final = frozenset({uuid.UUID(int=0), uuid.UUID(int=1)})  # Kafka's ids for "none" and for the metadata log


class Telemetry:
    """Clients and what they sent. `pushed` is what /metrics shows."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._instances: OrderedDict[uuid.UUID, ClientInstance] = OrderedDict()
        self._configs: Mapping[ResourceKey, Mapping[str, str]] = {}
        self._resources: Mapping[str, Mapping[str, str]] = {}
        self._subscriptions: list[Subscription] = []
        self._version = 0
        self.pushed = PushedMetrics()

    def get(self, request: Request, asked: uuid.UUID | None) -> tuple[uuid.UUID, Wanted]:
        """Return the client's id, a new one if it has none, and what it shall push. Raises Refusal."""
        instance = asked if asked else uuid.uuid4()
        return instance, self._instance(request, instance).get(self._now_ms())

    def push(self, request: Request, instance: uuid.UUID | None) -> None:
        """Take the metrics of a client. Raises Refusal."""
        if instance is None or instance in _RESERVED:
            raise Refusal(
                ErrorCode.INVALID_REQUEST, f"Invalid request from the client [{instance}], invalid client instance id"
            )
        message = request.message
        max_bytes = self._node.config.telemetry_max_bytes
        client = self._instance(request, instance)
        client.push(
            message.subscription_id,
            message.compression_type,
            len(message.metrics or b""),
            max_bytes,
            self._now_ms(),
            terminating=message.terminating,
        )
        if message.metrics and self._node.receives_telemetry:
            try:
                read = read_metrics(decompress(message.compression_type, message.metrics, max_bytes))
            except BrokerError as error:
                client.failed(ErrorCode.INVALID_RECORD)
                raise Refusal(ErrorCode.INVALID_RECORD, f"[{instance}] pushed what is no OTLP: {error}") from None
            self.pushed.dropped += read.dropped
            self.pushed.add(instance, request.client_id, read.points, client.expires_at_ms)

    def families(self) -> Iterator[PushedFamily]:
        """Yield what clients have pushed, without those that have fallen silent."""
        self.pushed.expire(self._now_ms())
        return self.pushed.families()

    def _now_ms(self) -> float:
        return self._node.clock.now_ms()

    def _instance(self, request: Request, instance: uuid.UUID) -> ClientInstance:
        """Return the entry of a client, made or renewed when the subscriptions have changed."""
        self._read_subscriptions()
        now_ms, found = self._now_ms(), self._instances.get(instance)
        if found is not None and found.expires_at_ms <= now_ms:
            found = None
        if found is None or found.version < self._version:
            client = _client_of(request, instance) if found is None else found.client
            wanted = wanted_of(self._subscriptions, client, instance)
            found = self._instances[instance] = ClientInstance(instance, client, wanted, self._version)
        found.expires_at_ms = now_ms + max(_KEPT_MS, _KEPT_INTERVALS * found.wanted.interval_ms)
        self._instances.move_to_end(instance)
        self._make_room(now_ms)
        return found

    def _make_room(self, now_ms: float) -> None:
        """Forget the clients that have been silent for the longest time: those whose time is over, and those beyond the bound."""
        while self._instances:
            oldest = next(iter(self._instances.values()))
            if oldest.expires_at_ms > now_ms and len(self._instances) <= MAX_INSTANCES:
                return
            del self._instances[oldest.instance]

    def _read_subscriptions(self) -> None:
        configs = self._node.metadata.image.configs
        if configs is self._configs:
            return
        self._configs = configs
        resources = {name: settings for (kind, name), settings in configs.items() if kind == CLIENT_METRICS_RESOURCE}
        if resources != self._resources:
            self._resources = resources
            self._subscriptions = [subscription_of(settings) for settings in resources.values()]
            self._version += 1


def _client_of(request: Request, instance: uuid.UUID) -> dict[str, str | None]:
    """Return the values that a `match` looks at. The id is as Kafka prints it."""
    connection = request.connection
    software, _, version = connection.client_software.partition(" ")
    return {
        "client_instance_id": encode_uuid(instance),
        "client_id": request.client_id,
        "client_software_name": software or None,
        "client_software_version": version or None,
        "client_source_address": connection.host,
        "client_source_port": str(connection.port),
    }
