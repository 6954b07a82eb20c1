"""The data source that Spark's own processes run: asks the bridge of the streaming process for offsets, plans and rows.

It needs the standard library, pyarrow and PySpark's base class, nothing else of this package: executors get it by value.

Spark calls, in this order: initialOffset (empty checkpoint) or partitions (a batch that a crash interrupted); then, again and again,
latestOffset(start), by which the checkpoint covers everything before `start`, and partitions(start, end). `read` runs in the workers, any
number of times per range."""

from __future__ import annotations

import json
import socket
import ssl
import struct
import sys
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, SupportsTriggerAvailableNow

FORMAT = "streamactors"
TOKEN_BYTES = 64
LARGEST_REQUEST = 1 << 20
LARGEST_ANSWER = 16 << 20
CONNECT_S = 10.0
ANSWER_S = 60.0  # the bridge answers within seconds, also when there is no batch yet


class StreamActorsSource(DataSource):
    """Options: host, port, token; certificate (PEM) if the bridge has TLS."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def streamReader(self, schema: Any) -> DataSourceStreamReader:
        return BridgeReader(self.options)


class BridgeReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Spark's reader of one stream. It holds one connection for the calls of the driver; each `read` makes its own."""

    def __init__(self, options: Any) -> None:
        self._address = (options["host"], int(options["port"]))
        self._token = options["token"]
        self._certificate = options.get("certificate")
        self._calls: Any = None
        self._available_now = False

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_calls": None}

    def prepareForTriggerAvailableNow(self) -> None:
        self._available_now = True

    def getDefaultReadLimit(self) -> Any:
        return ReadAllAvailable()  # the bridge knows how many rows a batch may have

    def initialOffset(self) -> dict[str, int]:
        return self._ask({"ask": "initial"})["offset"]  # type: ignore[no-any-return]

    def latestOffset(self, start: dict[str, int], limit: Any) -> dict[str, int]:
        while True:
            answer = self._ask({"ask": "latest", "start": start})
            if answer["offset"] != start:
                return answer["offset"]  # type: ignore[no-any-return]
            if answer["over"] or not self._available_now:
                return start  # unchanged to the letter: Spark compares the text

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        while True:
            answer = self._ask({"ask": "plan", "start": start, "end": end})
            if not answer.get("pending"):
                return [InputPartition((start, end, first, last)) for first, last in answer["slices"]]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        start, end, first, last = partition.value
        with connected(self._address, self._token, self._certificate) as connection:
            send(connection, {"ask": "read", "start": start, "end": end, "first": first, "last": last})
            answer = receive(connection, LARGEST_ANSWER)
            if "error" in answer:
                raise RuntimeError(answer["error"])
            with connection.makefile("rb", buffering=1 << 18) as stream, pa.ipc.open_stream(stream) as batches:
                rows = 0
                for batch in batches:
                    rows += batch.num_rows
                    yield batch
            if rows != last - first:
                raise RuntimeError(f"the bridge sent {rows} rows instead of {last - first}")

    def stop(self) -> None:
        """The query has ended, and with it the process that Spark runs this in."""
        if self._calls is not None:
            self._calls.close()
        # the query is interrupted -> Spark drops this process's connection -> PySpark reports that over the same connection, which
        # fails, too, and Python would show both on the terminal of whoever stopped the query
        if getattr(sys.modules["__main__"].__spec__, "name", "").startswith("pyspark"):
            sys.excepthook = end_quietly

    def _ask(self, question: dict[str, Any]) -> dict[str, Any]:
        if self._calls is None:
            self._calls = connected(self._address, self._token, self._certificate)
        send(self._calls, question)
        answer = receive(self._calls, LARGEST_ANSWER)
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer


def end_quietly(kind: type[BaseException], error: BaseException, trace: Any) -> None:
    """An excepthook that prints the error that ends the process, unless the other side has closed the connection."""
    if not issubclass(kind, (ConnectionError, EOFError)):
        sys.__excepthook__(kind, error, trace)


def connected(address: tuple[str, int], token: str, certificate: str | None = None) -> socket.socket:
    """Connect to the bridge and send the token. With a certificate the bridge must have one that it has signed."""
    connection = socket.create_connection(address, timeout=CONNECT_S)
    if certificate is not None:
        trusted = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        trusted.check_hostname = False  # the certificate is made for one run, and no other is trusted
        trusted.load_verify_locations(cadata=certificate)
        connection = trusted.wrap_socket(connection)
    connection.settimeout(ANSWER_S)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.sendall(token.encode("ascii"))
    return connection


def send(connection: socket.socket, message: dict[str, Any]) -> None:
    """Send a message: its length in 4 bytes, then JSON."""
    body = json.dumps(message).encode()
    connection.sendall(struct.pack(">I", len(body)) + body)


def receive(connection: socket.socket, largest: int) -> dict[str, Any]:
    """Receive a message of at most `largest` bytes. Raises ConnectionError when the other side has closed, or sends no such message."""
    (size,) = struct.unpack(">I", receive_exactly(connection, 4))
    if size > largest:
        raise ConnectionError(f"a message of {size} bytes, at most {largest} are taken")
    message = json.loads(receive_exactly(connection, size))
    if not isinstance(message, dict):
        raise ConnectionError("a message that is not a JSON object")
    return message


def receive_exactly(connection: socket.socket, n: int) -> bytes:
    """Receive n bytes. Raises ConnectionError when the other side has closed."""
    parts = []
    while n:
        part = connection.recv(min(n, 1 << 16))
        if not part:
            raise ConnectionError("the streaming process has closed the connection")
        parts.append(part)
        n -= len(part)
    return b"".join(parts)
