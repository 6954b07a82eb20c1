"""Registers this controller with the active one, after each start and whenever the metadata does not have it as it is (KIP-919).

Owner: the controller, on its thread. A request that fails is sent again after a pause."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any, Final

from streamactors.actors.dispatching.dispatcher import Dispatcher
from streamactors.actors.dispatching.timing_wheel import Timer
from streamactors.broker.config.listeners import controller_spec
from streamactors.broker.controller.cluster_command import RegisterController
from streamactors.broker.controller.command import Command
from streamactors.broker.controller.own_replica import OwnReplica
from streamactors.broker.controller.rules.feature_rules import SUPPORTED
from streamactors.broker.controller.rules.plan_partitions import FIRST_WITH_CONTROLLERS
from streamactors.broker.metadata.image import METADATA_VERSION, MetadataImage
from streamactors.broker.metadata.metadata_record import ControllerRegistration, Endpoint
from streamactors.broker.runtime import Runtime
from streamactors.broker.security.protection import SecurityProtocol

CONTROLLER_REGISTRATION: Final = (70, 0)
RETRY_MS: Final = 500.0


class SelfRegistration:
    """See the module. `submit` carries out a command on this node, for when it leads."""

    def __init__(
        self, node: Runtime, dispatcher: Dispatcher, replica: OwnReplica, submit: Callable[[Command], object]
    ) -> None:
        self._node = node
        self._dispatcher = dispatcher
        self._replica = replica
        self._submit = submit
        self._incarnation = uuid.uuid4()
        self._image = MetadataImage()
        self._timer: Timer | None = None

    def look(self, image: MetadataImage) -> None:
        """The metadata are these now: register unless they have this start of the controller."""
        self._image = image
        if self._timer is None and self._is_missing():
            self._ask()

    def stop(self) -> None:
        """End the timer."""
        if self._timer is not None:
            self._timer.cancel()

    def _is_missing(self) -> bool:
        known = self._image.controllers.get(self._node.node_id)
        level = self._image.features.get(METADATA_VERSION, 0)
        return level >= FIRST_WITH_CONTROLLERS and (known is None or known.incarnation_id != self._incarnation)

    def _ask(self) -> None:
        self._timer = self._dispatcher.call_later(RETRY_MS, self._again)
        leader = self._replica.quorum.leader
        if leader == self._node.node_id:
            self._submit(RegisterController(self._registration()))
        elif leader is not None:
            self._replica.ask(leader, CONTROLLER_REGISTRATION, _body(self._registration()), lambda _: None)

    def _again(self) -> None:
        self._timer = None
        if self._is_missing():
            self._ask()

    def _registration(self) -> ControllerRegistration:
        spec = controller_spec(self._node.config)
        endpoints: tuple[Endpoint, ...] = ()
        if spec is not None:
            protocol = SecurityProtocol[spec.protocol]
            endpoints = (Endpoint(spec.name, spec.advertised_host, spec.advertised_port, protocol),)
        return ControllerRegistration(self._node.node_id, self._incarnation, False, endpoints, SUPPORTED)


def _body(registration: ControllerRegistration) -> dict[str, Any]:
    return {
        "controller_id": registration.controller_id,
        "incarnation_id": registration.incarnation_id,
        "zk_migration_ready": registration.zk_migration_ready,
        "listeners": [
            {"name": each.name, "host": each.host, "port": each.port, "security_protocol": each.protocol}
            for each in registration.endpoints
        ],
        "features": [
            {"name": each.name, "min_supported_version": each.min_level, "max_supported_version": each.max_level}
            for each in registration.features
        ],
    }
