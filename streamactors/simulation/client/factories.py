"""Puts simulated clients in place of confluent-kafka's for the length of a run.

Owner: the simulation. The connector names the classes when it makes a client (`ck.Consumer`), so it makes simulated ones without knowing. A program that
took a class into a name of its own before (`from confluent_kafka import Producer`) keeps the real one. What the connector asks a listener by a socket,
after no broker has answered, finds nothing that takes connections."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from streamactors.kafka.client import connection
from streamactors.kafka.client.connection import ck, ck_admin
from streamactors.kafka.client.diagnosis import listener_probe
from streamactors.simulation.client.admin import SimAdmin
from streamactors.simulation.client.consumer import SimConsumer
from streamactors.simulation.client.producer import SimProducer

if TYPE_CHECKING:
    from streamactors.simulation.cluster.cluster import SimulatedCluster
    from streamactors.simulation.world.face import World


@contextmanager
def simulated_clients(world: World, cluster: SimulatedCluster) -> Iterator[None]:
    """Make clients of `cluster` instead of real ones inside this block."""

    def Consumer(properties: Mapping[str, Any], **more: Any) -> SimConsumer:
        return SimConsumer(world, cluster, {**properties, **more})

    def Producer(properties: Mapping[str, Any], **more: Any) -> SimProducer:
        return SimProducer(world, cluster, {**properties, **more})

    def AdminClient(properties: Mapping[str, Any], **more: Any) -> SimAdmin:
        return SimAdmin(world, cluster, {**properties, **more})

    def nothing_listens(addresses: Iterable[Any]) -> None:
        return None

    places = (
        (ck, "Consumer", Consumer),
        (ck, "Producer", Producer),
        (ck_admin, "AdminClient", AdminClient),
        (listener_probe, "listens", nothing_listens),
        (connection, "listens", nothing_listens),
    )
    real = [getattr(module, name) for module, name, _ in places]
    try:
        for module, name, simulated in places:
            setattr(module, name, simulated)
        yield
    finally:
        for (module, name, _), before in zip(places, real, strict=True):
            setattr(module, name, before)
