"""Sockets, frames, requests in flight and the purgatories.

Owner: the network layer. Names and defaults: Apache Kafka's broker configs; the ones that Kafka does not have say so.
"""

from __future__ import annotations

from streamactors.broker.config.checks import at_least, between
from streamactors.broker.config.declare import boolean, integer, long
from streamactors.broker.config.setting import INT_MAX, Settings


class NetworkSettings(Settings):
    """Limits of connections and requests."""

    __slots__ = ()

    connections_max_idle_ms = long(600_000, "Close a connection that has been silent for so long.")
    fetch_max_bytes = integer(57_671_680, "Most bytes of records in one fetch response.", at_least(1024))
    fetch_purgatory_purge_interval_requests = integer(
        1000, "Completed fetch requests that trigger a purge of the purgatory."
    )
    max_connections = integer(INT_MAX, "Most connections at one time.", at_least(0), dynamic=True)
    max_connections_per_ip = integer(INT_MAX, "Most connections from one address.", at_least(0), dynamic=True)
    max_in_flight_requests = integer(
        64,
        "Requests of one connection that are served at the same time before its socket is left unread. "
        "Apache Kafka has no such setting and serves one.",
        between(1, 4096),
    )
    pipelining = boolean(
        True,
        "Serve several requests of a connection at the same time, answering in their order; false serves them one by "
        "one as Apache Kafka does, which has no such setting.",
    )
    producer_purgatory_purge_interval_requests = integer(
        1000, "Completed produce requests that trigger a purge of the purgatory."
    )
    queued_max_request_bytes = long(
        -1, "Most bytes of requests that wait to be served, over all connections; -1 means no limit."
    )
    socket_listen_backlog_size = integer(50, "Connections that may wait to be accepted.", at_least(1))
    socket_receive_buffer_bytes = integer(102_400, "SO_RCVBUF of a connection; -1 leaves it to the operating system.")
    socket_request_max_bytes = integer(104_857_600, "Largest request; a larger one closes the connection.", at_least(1))
    socket_send_buffer_bytes = integer(102_400, "SO_SNDBUF of a connection; -1 leaves it to the operating system.")
