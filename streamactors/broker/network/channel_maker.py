"""Makes this node's connections to other nodes of its cluster, each with the TLS and the login that their listener asks for.

Owner: `Runtime`, which has one maker for the connections to brokers and one for those to controllers. A node that does not let this one
in is named in a line of the log once, until the reason changes or the connection succeeds."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from streamactors.actors.dispatcher import Dispatcher
from streamactors.broker.network.channel import REQUEST_TIMEOUT_MS, Buffers, Channel
from streamactors.broker.network.listener import address as address_text
from streamactors.broker.network.opening import OPEN, Address, Entrance

if TYPE_CHECKING:
    from streamactors.broker.config.broker_config import BrokerConfig
    from streamactors.broker.config.listeners import Entered
    from streamactors.broker.security.client_login import Door

_log = logging.getLogger("streamactors.broker.network")


class ChannelMaker:
    """See the module. Without a door the connections are neither encrypted nor logged in."""

    def __init__(self, listener: str = "PLAINTEXT", door: Door | None = None) -> None:
        self.listener = listener
        """The name of the listener that the other nodes have for these connections."""
        self.door = door
        self._entrance = OPEN if door is None else self._entrance_of(door)
        self._told: dict[Address, str] = {}

    @classmethod
    def of(cls, config: BrokerConfig, entered: Entered) -> ChannelMaker:
        """Return the maker for a listener of other nodes. Raises InvalidSetting."""
        if entered.protocol == "PLAINTEXT":
            return cls(entered.name)
        from streamactors.broker.security.node_doors import door_of_nodes  # loads OpenSSL

        return cls(entered.name, door_of_nodes(config, entered))

    def channel(
        self,
        dispatcher: Dispatcher,
        address: Address,
        client_id: str,
        buffers: Buffers,
        *,
        asks_versions: bool = True,
        timeout_ms: float = REQUEST_TIMEOUT_MS,
    ) -> Channel:
        """Return a connection, which its first request opens."""
        return Channel(
            dispatcher,
            address,
            client_id,
            buffers,
            asks_versions=asks_versions,
            timeout_ms=timeout_ms,
            entrance=self._entrance,
        )

    def _entrance_of(self, door: Door) -> Entrance:
        from streamactors.broker.security.client_login import login_steps  # loads OpenSSL

        trust = door.tls
        return Entrance(
            None if trust is None else trust.context,
            (lambda: login_steps(door)) if door.mechanism else None,
            self._outcome,
        )

    def _outcome(self, address: Address, why: str | None) -> None:
        if why is None:
            self._told.pop(address, None)
        elif self._told.get(address) != why:
            self._told[address] = why
            _log.warning("%s does not let this node in: %s", address_text(*address), why.strip(": "))
