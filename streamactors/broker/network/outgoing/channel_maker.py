"""Makes this node's connections to other nodes of its cluster, with the TLS and the login that the listener of those nodes requires.

Owner: `Runtime`, which has one maker for connections to brokers and one for connections to controllers. When another node refuses the TLS
handshake or the login, the log gets one line. The next line comes when the reason changes, or when the node refuses again after a success."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from streamactors.actors.dispatching.dispatcher import Dispatcher
from streamactors.broker.network.buffers import Buffers
from streamactors.broker.network.listener import address as address_text
from streamactors.broker.network.outgoing.channel import REQUEST_TIMEOUT_MS, Channel
from streamactors.broker.network.outgoing.opening import OPEN, Address, Entrance
from streamactors.log_limit import log_limited

if TYPE_CHECKING:
    from streamactors.broker.config.broker_config import BrokerConfig
    from streamactors.broker.config.listeners import PeerListener
    from streamactors.broker.security.client_login import ListenerCredentials

_log = logging.getLogger("streamactors.broker.network")


class ChannelMaker:
    """Makes the connections to one listener of the other nodes. Without credentials they use neither TLS nor a login."""

    def __init__(self, listener: str = "PLAINTEXT", credentials: ListenerCredentials | None = None) -> None:
        self.listener = listener
        """The name of the other nodes' listener for these connections."""
        self.credentials = credentials
        self._entrance = OPEN if credentials is None else self._entrance_of(credentials)
        self._told: dict[Address, str] = {}

    @classmethod
    def of(cls, config: BrokerConfig, listener: PeerListener) -> ChannelMaker:
        """Return the maker of connections to a listener of other nodes. Raises InvalidSetting."""
        if listener.protocol == "PLAINTEXT":
            return cls(listener.name)
        from streamactors.broker.security.node_credentials import credentials_of_nodes  # loads OpenSSL

        return cls(listener.name, credentials_of_nodes(config, listener))

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
        """Return a connection. Its first request opens it."""
        return Channel(
            dispatcher,
            address,
            client_id,
            buffers,
            asks_versions=asks_versions,
            timeout_ms=timeout_ms,
            entrance=self._entrance,
        )

    def _entrance_of(self, credentials: ListenerCredentials) -> Entrance:
        from streamactors.broker.security.client_login import login_steps  # loads OpenSSL

        trust = credentials.tls
        return Entrance(
            None if trust is None else trust.context,
            (lambda: login_steps(credentials)) if credentials.mechanism else None,
            self._outcome,
            credentials.prepare,
        )

    def _outcome(self, address: Address, why: str | None) -> None:
        if why is None:
            self._told.pop(address, None)
        elif self._told.get(address) != why:
            self._told[address] = why
            log_limited(
                _log,
                logging.WARNING,
                (address, why),
                "%s refuses this node: %s",
                address_text(*address),
                why.strip(": "),
            )
