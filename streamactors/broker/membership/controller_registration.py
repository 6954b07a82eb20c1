"""Registers this controller with the active one, after each start and whenever the metadata does not have it as it is (KIP-919).

Owner: the membership, on the thread of its dispatcher. A request that fails is sent again after a pause."""

from __future__ import annotations

import uuid
from typing import Final

from streamactors.actors.dispatching.dispatcher import Dispatcher
from streamactors.actors.dispatching.timing_wheel import Timer
from streamactors.broker.config.listeners import controller_spec
from streamactors.broker.controller.cluster_command import RegisterController
from streamactors.broker.controller.rules.feature_rules import SUPPORTED
from streamactors.broker.controller.rules.plan_partitions import FIRST_WITH_CONTROLLERS
from streamactors.broker.membership.controller_channels import ControllerChannels
from streamactors.broker.metadata.image import METADATA_VERSION, MetadataImage
from streamactors.broker.metadata.metadata_record import ControllerRegistration as Registration
from streamactors.broker.metadata.metadata_record import Endpoint
from streamactors.broker.runtime import Runtime
from streamactors.broker.security.protection import SecurityProtocol

RETRY_MS: Final = 500.0


class ControllerRegistration:
    """The registration of this start of the controller."""

    def __init__(self, node: Runtime, dispatcher: Dispatcher, channels: ControllerChannels) -> None:
        self._node = node
        self._dispatcher = dispatcher
        self._channels = channels
        self._incarnation = uuid.uuid4()
        self._image = MetadataImage()
        self._timer: Timer | None = None

    def look(self, image: MetadataImage) -> None:
        """Register this start of the controller unless the metadata, which is `image` now, has it."""
        self._image = image
        if self._timer is None and self._is_missing():
            self._ask()

    def _is_missing(self) -> bool:
        known = self._image.controllers.get(self._node.node_id)
        level = self._image.features.get(METADATA_VERSION, 0)
        return level >= FIRST_WITH_CONTROLLERS and (known is None or known.incarnation_id != self._incarnation)

    def _ask(self) -> None:
        self._timer = self._dispatcher.call_later(RETRY_MS, self._again)
        self._channels.submit(RegisterController(self._registration()), lambda _: None)

    def _again(self) -> None:
        self._timer = None
        if self._is_missing():
            self._ask()

    def _registration(self) -> Registration:
        spec = controller_spec(self._node.config)
        endpoints: tuple[Endpoint, ...] = ()
        if spec is not None:
            protocol = SecurityProtocol[spec.protocol]
            endpoints = (Endpoint(spec.name, spec.advertised_host, spec.advertised_port, protocol),)
        return Registration(self._node.node_id, self._incarnation, False, endpoints, SUPPORTED)
