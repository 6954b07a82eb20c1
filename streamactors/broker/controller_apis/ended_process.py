"""Notices that the process of a broker has ended: its heartbeat connection is closed, and its listener refuses connections.

Owner: the data plane; the listener is tried on a helper thread. A live broker that only reconnects, or that is paused, accepts
connections and keeps its session."""

from __future__ import annotations

import logging
import socket
import time
from typing import Final

from streamactors.broker.controller.cluster_command import ProcessEnded
from streamactors.broker.helpers import Outcome
from streamactors.broker.network.outgoing.opening import Address
from streamactors.broker.node import Node
from streamactors.broker.requests.request import Request

_log = logging.getLogger("streamactors.broker.controller")

TRY_S: Final = 0.2
TRIES: Final = 5
PAUSE_S: Final = 0.01


class HeartbeatConnection:
    """The broker that sends its heartbeats over one connection. `force_complete` is called when the connection ends."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self.broker_id = self.broker_epoch = -1

    def force_complete(self) -> bool:
        """Look whether the broker's process has ended, and have the broker fenced if so."""
        self._look()
        return True

    def _look(self) -> None:
        node = self._node
        broker = node.metadata.image.brokers.get(self.broker_id)
        if broker is None or broker.fenced or broker.broker_epoch != self.broker_epoch or not broker.endpoints:
            return
        address = (broker.endpoints[0].host, broker.endpoints[0].port)
        command = ProcessEnded(self.broker_id, self.broker_epoch)

        def tried(outcome: Outcome[bool]) -> None:
            if outcome.value:
                node.controller.submit(command, lambda _: None)

        try:
            node.helpers.run(lambda: refuses(address), tried)
        except RuntimeError:
            pass  # the helpers have ended: this node is stopping


def watch(request: Request, broker_id: int, broker_epoch: int) -> None:
    """Remember whose heartbeats come over the connection of a request."""
    unfinished = request.connection.unfinished
    for each in unfinished:
        if isinstance(each, HeartbeatConnection):
            each.broker_id, each.broker_epoch = broker_id, broker_epoch
            return
    made = HeartbeatConnection(request.node)
    made.broker_id, made.broker_epoch = broker_id, broker_epoch
    unfinished.add(made)


def refuses(address: Address) -> bool:
    """Whether nobody listens at an address. Blocks for at most a second."""
    for _ in range(TRIES):
        try:
            with socket.create_connection(address, TRY_S) as connection:
                if connection.recv(1):
                    return False
        except ConnectionRefusedError:
            return True
        except ConnectionResetError:
            pass  # the process is about to end: its sockets are closed one after the other
        except OSError:
            return False  # accepted and silent, or not reachable: it may be alive
        time.sleep(PAUSE_S)
    return False
