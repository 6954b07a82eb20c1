"""Ports for brokers on 127.0.0.1: no two brokers of a cluster get the same port, and a broker that starts again finds its port free.

A cluster chooses its ports before its nodes listen. The port of a killed node has no listener until the node starts again. In both cases another
process could take the port. So `ReservedPorts` binds a socket to each chosen port, and never listens with that socket. Another process that looks for
a free port finds the port in use. A broker of the cluster can still listen on the port, because the broker's socket and the bound socket both have
SO_REUSEADDR. While no broker listens, the system refuses connections to the port."""

from __future__ import annotations

import random
import socket
from collections.abc import Collection
from typing import Final

from streamactors.accepting import OUT_OF_FILES
from streamactors.broker.errors import BrokerStartError

HOST: Final = "127.0.0.1"
_RANGE: Final = range(20_000, 32_000)
"""Below the ports that Linux gives to outgoing connections by default."""
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
                self._sockets += bound
                for each in bound:
                    self._let_brokers_listen(each)
                return first
        raise BrokerStartError(f"no free port was found between {_RANGE.start} and {_RANGE.stop}")

    def close(self) -> None:
        """Give the ports back. A fork of this process keeps its copies of the sockets until it ends."""
        while self._sockets:
            self._sockets.pop().close()

    def _let_brokers_listen(self, bound: socket.socket) -> None:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if not _lets_listen(bound.getsockname()):
            # On other systems than Linux no broker can listen beside a bound socket. Without the socket another process may choose the port.
            self._sockets.remove(bound)
            bound.close()


def free_port(others: Collection[int] = (), in_a_row: int = 1) -> int:
    """Return the first of `in_a_row` consecutive ports that are free now, and not in `others`. Nothing keeps them. Raises BrokerStartError."""
    ports = ReservedPorts(others)
    try:
        return ports.reserve(in_a_row)
    finally:
        ports.close()


def _bind(ports: range) -> list[socket.socket]:
    """Return a socket bound to each of the ports; none if one of them is in use or reserved. Raises BrokerStartError without descriptors."""
    bound: list[socket.socket] = []
    try:
        for port in ports:
            bound.append(socket.socket())
            bound[-1].bind((HOST, port))
    except OSError as error:
        for each in bound:
            each.close()
        if error.errno in OUT_OF_FILES:
            raise BrokerStartError(
                f"cannot look for a free port: {error.strerror}; raise the limit of open files (ulimit -n)"
            ) from None
        return []
    return bound


def _lets_listen(address: tuple[str, int]) -> bool:
    try:
        with socket.socket() as broker:
            broker.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            broker.bind(address)
            broker.listen(1)
    except OSError:
        return False
    return True
