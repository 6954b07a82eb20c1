"""Ports for brokers on loopback: no two brokers get the same one, and a broker that starts again finds its own free.

The ports of a cluster are chosen before its nodes listen, and a killed node leaves its port for a while. So `ReservedPorts` binds a socket to each port
it has chosen, and never listens on it. Whoever looks for a free port finds that port in use. A broker can listen there all the same, because both
sockets have SO_REUSEADDR. Clients are refused while no broker listens."""

from __future__ import annotations

import random
import socket
from collections.abc import Collection
from typing import Final

from streamactors.broker.errors import BrokerStartError

HOST: Final = "127.0.0.1"
_RANGE: Final = range(20_000, 32_000)
"""Below the ports that systems give to outgoing connections: only another choice can take one."""
_TRIES: Final = 200
_DICE: Final = random.SystemRandom()
"""A test runner seeds `random` alike in each of its processes; all of them would choose the same ports at the same time."""


class ReservedPorts:
    """Reserves ports until `close`. None of them is in `others`."""

    def __init__(self, others: Collection[int] = ()) -> None:
        self._taken = set(others)
        self._sockets: list[socket.socket] = []

    def reserve(self, in_a_row: int = 1) -> int:
        """Reserve `in_a_row` consecutive ports; return the first. Raises BrokerStartError."""
        starts = range(_RANGE.start, _RANGE.stop - in_a_row + 1)
        for first in _DICE.sample(starts, min(len(starts), _TRIES)):
            ports = range(first, first + in_a_row)
            bound = [] if self._taken.intersection(ports) else _bind(ports)
            if bound:
                self._taken.update(ports)
                for each in bound:
                    self._keep(each)
                return first
        raise BrokerStartError(f"no free port was found between {_RANGE.start} and {_RANGE.stop}")

    def close(self) -> None:
        """Give the ports back."""
        while self._sockets:
            self._sockets.pop().close()

    def _keep(self, bound: socket.socket) -> None:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if _lets_listen(bound.getsockname()):
            self._sockets.append(bound)
        else:
            bound.close()  # Linux lets a broker listen there. Other systems do not: others may choose the port, this object does not.


def free_port(others: Collection[int] = (), in_a_row: int = 1) -> int:
    """Return the first of `in_a_row` consecutive ports that are free now, and not in `others`. Nothing keeps them. Raises BrokerStartError."""
    ports = ReservedPorts(others)
    try:
        return ports.reserve(in_a_row)
    finally:
        ports.close()


def _bind(ports: range) -> list[socket.socket]:
    """Return a socket bound to each of the ports; none if one of them is in use or reserved."""
    bound: list[socket.socket] = []
    for port in ports:
        bound.append(socket.socket())
        try:
            bound[-1].bind((HOST, port))
        except OSError:
            for each in bound:
                each.close()
            return []
    return bound


def _lets_listen(address: tuple[str, int]) -> bool:
    with socket.socket() as broker:
        broker.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            broker.bind(address)
            broker.listen(1)
        except OSError:
            return False
    return True
