"""The bridge: a small server in the streaming process that Spark's Python processes ask for offsets and rows.

It listens on loopback by default, with TLS if asked to. A connection begins with the token of the run, compared in constant time; a connection without the token
is dropped and logged. Requests are JSON after their length, whose limit is checked before memory is allocated; rows go out as an Arrow
stream. There is one thread per connection: connections are few, and sending rows releases the interpreter lock."""

from __future__ import annotations

import hmac
import logging
import secrets
import socket
import ssl
import threading
import time
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from streamactors.accepting import pause_after
from streamactors.engine.marks.ownership import Positions
from streamactors.errors import StreamActorsError
from streamactors.log_limit import log_limited
from streamactors.spark.bridge.bridge_tls import BridgeTls
from streamactors.spark.bridge.reader import LARGEST_REQUEST, TOKEN_BYTES, receive, receive_exactly, send

if TYPE_CHECKING:
    from streamactors.spark.sink.sink_logic import SparkSinkLogic

_log = logging.getLogger("streamactors.spark")

ANY_ADDRESS: Final = ("0.0.0.0", "::")  # noqa: S104  # compared, not bound
TOKEN_S: Final = 5.0
SEND_S: Final = 60.0
MOST_CONNECTIONS: Final = 256

SMALL_BATCH: Final = 1_024
SENT_BATCH: Final = 10_000
SENT_BYTES: Final = 4 << 20
"""Rows go from here to a worker and from there to the JVM. They are sent in parts, so that all three work at the same time."""
ROWS_PER_SLICE: Final = 8_192
"""Fewer rows than this are not worth another task."""

Slices = list[tuple[int, int]]


class Bridge:
    """The server. `address` and `token` are what a reader needs."""

    def __init__(
        self, answering: SparkSinkLogic, schema: pa.Schema, host: str, slices: int, tls: BridgeTls | None = None
    ) -> None:
        self._answering = answering
        self._tls = tls
        self._schema = schema
        self._slices = max(1, slices)
        self.token = secrets.token_hex(TOKEN_BYTES // 2)
        self._server = socket.create_server((host, 0), backlog=64)
        self.address: tuple[str, int] = self._server.getsockname()[:2]
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._closed = False
        self._dropped = 0
        self._thread = threading.Thread(target=self._accept, name="spark bridge", daemon=True)

    def start(self) -> None:
        """Begin to listen."""
        self._thread.start()

    @property
    def options(self) -> dict[str, str]:
        """What a reader needs beside the address."""
        certificate = {} if self._tls is None else {"certificate": self._tls.authority}
        return {"token": self.token, **certificate}

    def close(self) -> None:
        """Stop listening and drop the connections. Idempotent."""
        with self._lock:
            self._closed = True
            connections, self._open = self._open, set()
        for connection in (self._server, *connections):
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # it was not connected, or is gone
            connection.close()

    # ── connections ───────────────────────────────────────────────────────────────────────────────────────────────

    def _accept(self) -> None:
        while True:
            try:
                connection, peer = self._server.accept()
            except OSError as error:
                if self._closed:
                    return
                time.sleep(pause_after(_log, "bridge", error))
                continue
            self._take(connection, peer)

    def _take(self, connection: socket.socket, peer: Any) -> None:
        """Start a thread that serves the connection. If that fails, close the connection; the bridge accepts others."""
        try:
            if self._tls is not None:  # its handshake happens on the connection's own thread
                connection.settimeout(TOKEN_S)
                connection = self._tls.server.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)
            with self._lock:
                refuse = self._closed or len(self._open) >= MOST_CONNECTIONS
                if not refuse:
                    self._open.add(connection)
            if not refuse:
                thread = threading.Thread(
                    target=self._serve, args=(connection, peer), name="spark bridge connection", daemon=True
                )
                thread.start()
                return
        except OSError as error:  # a port scan resets its connection before it is accepted
            _log.debug("bridge: %s: %s", peer, error)
        except RuntimeError as error:  # the process has too many threads
            log_limited(_log, logging.WARNING, (peer[0], type(error)), "bridge: dropped %s: %s", peer, error)
        self._drop(connection)

    def _drop(self, connection: socket.socket) -> None:
        with self._lock:
            self._open.discard(connection)
        connection.close()

    def _serve(self, connection: socket.socket, peer: Any) -> None:
        try:
            if self._has_token(connection, peer):
                connection.settimeout(None)
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                while self._answer(connection):
                    pass
        except OSError as error:  # Spark stops its readers without closing the connection
            _log.debug("bridge: %s: %s", peer, error)
        except ValueError as error:
            log_limited(_log, logging.WARNING, (peer[0], type(error)), "bridge: dropped %s: %s", peer, error)
        finally:
            self._drop(connection)

    def _has_token(self, connection: socket.socket, peer: Any) -> bool:
        connection.settimeout(TOKEN_S)
        try:
            if isinstance(connection, ssl.SSLSocket):
                connection.do_handshake()
            shown = receive_exactly(connection, TOKEN_BYTES)
        except OSError:
            shown = b""
        if hmac.compare_digest(shown, self.token.encode("ascii")):
            return True
        self._dropped += 1
        log_limited(
            _log, logging.WARNING, ("no token", peer[0]),
            "bridge: dropped a connection from %s without the token of this run (%d so far)", peer, self._dropped,
        )  # fmt: skip
        return False

    # ── questions ─────────────────────────────────────────────────────────────────────────────────────────────────

    def _answer(self, connection: socket.socket) -> bool:
        try:
            question = receive(connection, LARGEST_REQUEST)
        except ConnectionError:
            return False
        ask = question.get("ask")
        try:
            if ask == "initial":
                send(connection, {"offset": self._answering.initial()})
            elif ask == "latest":
                offset, over = self._answering.latest(_positions(question, "start"))
                send(connection, {"offset": offset, "over": over})
            elif ask == "plan":
                found = self._answering.batch(_positions(question, "start"), _positions(question, "end"))
                send(connection, {"pending": True} if found is None else {"slices": slices(found[0], self._slices)})
            elif ask == "read":
                self._send_rows(connection, question)
                return False
            else:
                raise ValueError(f"an unknown request: {str(ask)[:40]}")
        except StreamActorsError as error:
            send(connection, {"error": str(error)})
        return True

    def _send_rows(self, connection: socket.socket, question: dict[str, Any]) -> None:
        start, end = _positions(question, "start"), _positions(question, "end")
        first, last = question.get("first"), question.get("last")
        if not isinstance(first, int) or not isinstance(last, int) or not 0 <= first <= last:
            raise ValueError("a range of rows must be two numbers")
        found = self._answering.batch(start, end)
        if found is None or last > found[0]:
            send(connection, {"error": f"rows {first} to {last} of the batch that ends at {end} are not retained"})
            return
        connection.settimeout(SEND_S)
        send(connection, {})
        with connection.makefile("wb", buffering=1 << 18) as stream, pa.ipc.new_stream(stream, self._schema) as out:
            for batch in joined(rows_of(found[1], first, last), self._schema):
                for part in parts(batch):
                    out.write_batch(part)


def _positions(question: dict[str, Any], name: str) -> Positions:
    given = question.get(name)
    if not isinstance(given, dict) or not all(type(place) is int for place in given.values()):
        raise ValueError(f"{name} must be positions")
    return given


def slices(rows: int, most: int) -> Slices:
    """Split a batch into at most this many tasks of about the same size: (first row, row after the last)."""
    if not rows:
        return []
    count = max(1, min(most, rows // ROWS_PER_SLICE))
    edges = [rows * i // count for i in range(count + 1)]
    return list(pairwise(edges))


def rows_of(chunks: list[Any], first: int, last: int) -> list[Any]:
    """Return the rows `first` to `last` of record batches in a row; no copy."""
    found = []
    at = 0
    for chunk in chunks:
        n = chunk.num_rows
        low, high = max(first - at, 0), min(last - at, n)
        if low < high:
            found.append(chunk if high - low == n else chunk.slice(low, high - low))
        at += n
        if at >= last:
            break
    return found


def joined(batches: Iterable[Any], schema: pa.Schema) -> Iterator[Any]:
    """Give the rows in batches large enough for Spark's cost per batch. Rows are copied only where the batches are small, about SENT_BATCH at a
    time: the memory of one copy serves the next."""
    small: list[Any] = []
    rows = 0
    for batch in batches:
        large = batch.num_rows >= SMALL_BATCH
        if not large:
            small.append(batch)
            rows += batch.num_rows
        if small and (large or rows >= SENT_BATCH):
            yield from _together(small, schema)
            small, rows = [], 0
        if large:
            yield batch
    if small:
        yield from _together(small, schema)


def _together(batches: list[Any], schema: pa.Schema) -> list[Any]:
    return batches if len(batches) == 1 else pa.Table.from_batches(batches, schema).combine_chunks().to_batches()


def parts(batch: Any) -> Iterator[Any]:
    """Give a record batch in parts of about SENT_BYTES; no copy."""
    rows = batch.num_rows
    step = max(1, rows * SENT_BYTES // max(batch.nbytes, 1))
    if step * 2 > rows:
        yield batch
        return
    for at in range(0, rows, step):
        yield batch.slice(at, step)


def reachable(context: Any, host: str, advertised: str | None) -> str:
    """Return the address by which the executors of a Spark context reach a bridge that listens on `host`."""
    if advertised is not None:
        return advertised
    if host in ANY_ADDRESS:
        return str(context.getConf().get("spark.driver.host", socket.getfqdn()))
    if host.startswith("127.") and not context.master.startswith("local"):
        _log.warning(
            "the rows are served at %s, which executors of %s on other hosts cannot reach; "
            'give SparkSinkSettings(bind="0.0.0.0", advertise="the name of this host")',
            host,
            context.master,
        )
    return host
