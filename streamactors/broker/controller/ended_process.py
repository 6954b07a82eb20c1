"""Finds out whether the process of a broker has ended: its listener refuses connections.

Owner: the controller; with `controller.fence.closed.connections` only. The listener is tried on a helper thread. A live broker that only
reconnects, or that is paused, accepts connections and keeps its session."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from typing import Final

from streamactors.broker.helpers import HelperOutcome, Helpers
from streamactors.broker.metadata.metadata_record import BrokerRegistration

TRY_S: Final = 0.2
TRIES: Final = 5
PAUSE_S: Final = 0.01


def when_ended(helpers: Helpers, broker: BrokerRegistration, then: Callable[[], object]) -> None:
    """Call `then` on the data plane if the listener of a broker refuses connections."""
    if not broker.endpoints:
        return
    address = (broker.endpoints[0].host, broker.endpoints[0].port)

    def tried(outcome: HelperOutcome[bool]) -> None:
        if outcome.value:
            then()

    try:
        helpers.run(lambda: refuses(address), tried)
    except RuntimeError:
        pass  # the helpers have ended: this node is stopping


def refuses(address: tuple[str, int]) -> bool:
    """Return whether an address refuses connections. Blocks for at most a second."""
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
