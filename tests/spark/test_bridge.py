"""The bridge: who has the token gets rows, who has not is dropped; nonsense harms nobody; the reader needs nothing of this package."""

from __future__ import annotations

import json
import logging
import socket
import ssl
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

from streamactors.spark.bridge import bridge as module
from streamactors.spark.bridge.bridge import (
    ROWS_PER_SLICE,
    SENT_BATCH,
    SENT_BYTES,
    SMALL_BATCH,
    Bridge,
    joined,
    parts,
    reachable,
    rows_of,
    slices,
)
from streamactors.spark.bridge.bridge_tls import tls_for_one_run
from streamactors.spark.bridge.reader import BridgeReader
from streamactors.spark.errors import CheckpointError
from tests.refused_accepts import EITHER, refused_accepts

SCHEMA = pa.schema([("n", pa.int64())])


def numbers(first: int, last: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"n": list(range(first, last))}, schema=SCHEMA)


class Answers:
    """Ten rows in three chunks."""

    def __init__(self) -> None:
        self.latest_asked: list[dict[str, int]] = []
        self.pending = 0
        self.ends = [{"0/0": 10}]

    def initial(self) -> dict[str, int]:
        return {"0/0": 0}

    def latest(self, start: dict[str, int]) -> tuple[dict[str, int], bool]:
        self.latest_asked.append(start)
        return (self.ends.pop(0), False) if self.ends else (start, True)

    def batch(self, start: dict[str, int], end: dict[str, int]) -> tuple[int, list[Any]] | None:
        if self.pending:
            self.pending -= 1
            return None
        if end == {"0/0": 99}:
            raise CheckpointError("no such batch")
        return 10, [numbers(0, 3), numbers(3, 4), numbers(4, 10)]


@pytest.fixture
def answers() -> Answers:
    return Answers()


@pytest.fixture
def bridge(answers: Answers) -> Iterator[Bridge]:
    made = Bridge(answers, SCHEMA, "127.0.0.1", slices=2)
    made.start()
    yield made
    made.close()


def reader_of(bridge: Bridge, **more: str) -> BridgeReader:
    host, port = bridge.address
    return BridgeReader({"host": host, "port": str(port), "token": bridge.token, **more})


def test_a_reader_gets_offsets_a_plan_and_rows(bridge: Bridge, answers: Answers) -> None:
    reader = reader_of(bridge)
    start = reader.initialOffset()
    end = reader.latestOffset(start, None)
    assert (start, end) == ({"0/0": 0}, {"0/0": 10})
    (part,) = reader.partitions(start, end)
    for _ in range(2):  # a second action of the user's reads again
        assert [n for batch in reader.read(part) for n in batch.column("n").to_pylist()] == list(range(10))
    assert reader.latestOffset(end, None) == end


@EITHER
def test_a_bridge_that_cannot_accept_says_so_and_accepts_later(
    answers: Answers,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    error: Callable[[], OSError],
    said: str,
) -> None:
    # It tried again at once, for as long as the error lasted, and said nothing.
    bridge = Bridge(answers, SCHEMA, "127.0.0.1", slices=2)
    left = refused_accepts(monkeypatch, lambda thread: thread is bridge._thread, error(), error())
    bridge.start()
    assert reader_of(bridge).initialOffset() == {"0/0": 0}
    bridge.close()
    assert not left
    assert caplog.text.count(said) == 1  # the second one is within the same second


def test_a_plan_that_is_not_ready_is_asked_for_again(bridge: Bridge, answers: Answers) -> None:
    answers.pending = 3
    assert len(reader_of(bridge).partitions({"0/0": 0}, {"0/0": 10})) == 1


def test_available_now_waits_for_the_end_and_not_only_for_a_silence(bridge: Bridge, answers: Answers) -> None:
    answers.ends = [{"0/0": 0}, {"0/0": 0}, {"0/0": 10}]
    reader = reader_of(bridge)
    reader.prepareForTriggerAvailableNow()
    assert reader.latestOffset({"0/0": 0}, None) == {"0/0": 10}
    assert reader.latestOffset({"0/0": 10}, None) == {"0/0": 10}


def test_what_the_run_refuses_is_told_in_its_words(bridge: Bridge) -> None:
    with pytest.raises(RuntimeError, match="no such batch"):
        reader_of(bridge).partitions({"0/0": 0}, {"0/0": 99})


@pytest.mark.parametrize("shown", [b"", b"x" * 10, b"0" * 64, b"\x00" * 4096])
def test_a_connection_without_the_token_is_dropped_and_logged(
    bridge: Bridge, answers: Answers, shown: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    with (
        caplog.at_level(logging.WARNING, "streamactors.spark"),
        socket.create_connection(bridge.address, 10) as intruder,
    ):
        intruder.sendall(shown)
        question = json.dumps({"ask": "initial"}).encode()
        try:
            intruder.sendall(struct.pack(">I", len(question)) + question)
            intruder.shutdown(socket.SHUT_WR)
            answer = intruder.recv(100)
        except OSError:
            answer = b""
        assert answer == b""
    assert "without the token" in caplog.text
    assert bridge.token not in caplog.text
    assert reader_of(bridge).initialOffset() == {"0/0": 0}  # others are served as before


@pytest.mark.parametrize(
    "sent",
    [
        struct.pack(">I", 0xFFFFFFFF),
        struct.pack(">I", 4) + b"nope",
        struct.pack(">I", 2) + b"[]",
        struct.pack(">I", 14) + b'{"ask":"junk"}',
        struct.pack(">I", 32) + b'{"ask":"latest","start":"here"}  ',
    ],
)
@pytest.mark.expects_log("bridge: dropped")
def test_nonsense_ends_its_connection_and_nothing_else(bridge: Bridge, answers: Answers, sent: bytes) -> None:
    with socket.create_connection(bridge.address, 10) as connection:
        connection.sendall(bridge.token.encode() + sent)
        connection.settimeout(30)
        try:
            answer = connection.recv(1 << 16)
        except ConnectionResetError:  # it had not read everything
            answer = b""
        assert answer == b""
    assert reader_of(bridge).initialOffset() == {"0/0": 0}
    assert answers.latest_asked == []


def test_the_bridge_listens_on_loopback(bridge: Bridge) -> None:
    assert bridge.address[0] == "127.0.0.1"


@pytest.mark.parametrize(
    ("rows", "most", "count"), [(0, 4, 0), (1, 4, 1), (ROWS_PER_SLICE * 3, 2, 2), (ROWS_PER_SLICE * 3, 9, 3)]
)
def test_a_batch_is_split_into_tasks_that_are_worth_it(rows: int, most: int, count: int) -> None:
    found = slices(rows, most)
    assert len(found) == count
    assert [n for first, last in found for n in (first, last)][1:-1:2] == [first for first, _ in found[1:]]
    assert sum(last - first for first, last in found) == rows


@pytest.mark.parametrize("first", range(11))
def test_slices_of_chunks_are_those_rows(first: int) -> None:
    chunks = [numbers(0, 3), numbers(3, 4), numbers(4, 10)]
    for last in range(first, 11):
        found = [n for batch in rows_of(chunks, first, last) for n in batch.column("n").to_pylist()]
        assert found == list(range(first, last))


def test_small_batches_are_sent_together_and_large_ones_as_they_are() -> None:
    large = [numbers(0, SMALL_BATCH), numbers(SMALL_BATCH, 3 * SMALL_BATCH)]
    assert all(sent is given for sent, given in zip(joined(large, SCHEMA), large, strict=True))
    small = [numbers(i, i + 1) for i in range(SENT_BATCH + 7)]
    together = list(joined(small, SCHEMA))
    assert [batch.num_rows for batch in together] == [SENT_BATCH, 7]
    assert [n for batch in together for n in batch.column("n").to_pylist()] == list(range(SENT_BATCH + 7))
    assert list(joined([], SCHEMA)) == []
    mixed = [numbers(0, 1), numbers(1, 3), numbers(3, 3 + SMALL_BATCH), numbers(3 + SMALL_BATCH, 5 + SMALL_BATCH)]
    assert [batch.num_rows for batch in joined(mixed, SCHEMA)] == [3, SMALL_BATCH, 2]
    assert [n for batch in joined(mixed, SCHEMA) for n in batch.column("n").to_pylist()] == list(range(5 + SMALL_BATCH))


def test_small_batches_are_not_copied_before_they_are_sent() -> None:
    # a slice of a million rows was copied as a whole, in fresh memory for each slice, before its first row went out
    small = (numbers(i, i + 1) for i in range(10 * SENT_BATCH))
    first = next(iter(joined(small, SCHEMA)))
    assert first.num_rows == SENT_BATCH
    assert next(small)["n"][0].as_py() == SENT_BATCH


class Context:
    def __init__(self, master: str) -> None:
        self.master = master

    def getConf(self) -> dict[str, str]:
        return {"spark.driver.host": "driver"}


@pytest.mark.parametrize("rows", [1, 7, 1_000])
def test_a_batch_of_many_bytes_is_sent_in_parts(rows: int) -> None:
    wide = pa.RecordBatch.from_pydict({"v": [f"{i:06d}" + "x" * 9_994 for i in range(rows)]})
    sent = list(parts(wide))
    assert pa.Table.from_batches(sent) == pa.Table.from_batches([wide])
    assert max(part.nbytes for part in sent) <= 2 * SENT_BYTES
    assert (len(sent) > 1) == (rows == 1_000)


def test_executors_are_told_an_address_that_they_can_reach(caplog: pytest.LogCaptureFixture) -> None:
    assert reachable(Context("local[2]"), "127.0.0.1", None) == "127.0.0.1"
    assert reachable(Context("spark://far:7077"), "0.0.0.0", None) == "driver"
    assert reachable(Context("spark://far:7077"), "0.0.0.0", "here") == "here"
    assert caplog.text == ""
    assert reachable(Context("spark://far:7077"), "127.0.0.1", None) == "127.0.0.1"
    assert "executors of spark://far:7077 on other hosts cannot reach" in caplog.text


def test_the_reader_needs_no_other_part_of_this_package() -> None:
    said = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys, streamactors.spark.bridge.reader; "
            "print(sorted(n for n in sys.modules if n.startswith('streamactors')), 'reactivex' in sys.modules, 'thespian' in sys.modules)",
        ],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert said.strip() == (
        "['streamactors', 'streamactors.lazy_names', 'streamactors.spark', 'streamactors.spark.bridge', 'streamactors.spark.bridge.reader'] False False"
    )


@pytest.mark.expects_log("bridge: dropped")
def test_with_tls_only_a_reader_with_the_certificate_and_the_token_gets_rows() -> None:
    bridge = Bridge(Answers(), SCHEMA, "127.0.0.1", 4, tls_for_one_run())
    bridge.start()
    try:
        address = {"host": "127.0.0.1", "port": str(bridge.address[1])}
        reader = BridgeReader({**address, **bridge.options})
        (partition,) = reader.partitions({"0/0": 0}, {"0/0": 10})
        assert pa.Table.from_batches(list(reader.read(partition))).column("n").to_pylist() == list(range(10))
        other = BridgeReader({**address, **bridge.options, "certificate": tls_for_one_run().authority})
        with pytest.raises(ssl.SSLCertVerificationError):
            other.initialOffset()
        with pytest.raises(OSError):  # closed or reset, as the system likes it
            BridgeReader({**address, "token": bridge.token}).initialOffset()
        with pytest.raises(OSError):
            BridgeReader({**address, **bridge.options, "token": "0" * 64}).initialOffset()
        reader.stop()
    finally:
        bridge.close()


@pytest.mark.parametrize("sent", [b"", b"x"])
def test_a_connection_that_was_reset_before_it_is_accepted_does_not_end_the_bridge(sent: bytes) -> None:
    # wrapping such a connection in TLS raises ConnectionResetError: the thread ended, and each later reader waited for 60 s
    bridge = Bridge(Answers(), SCHEMA, "127.0.0.1", 4, tls_for_one_run())
    scan = socket.create_connection(bridge.address)  # the bridge listens, and does not accept yet
    scan.sendall(sent)
    scan.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    scan.close()
    bridge.start()
    try:
        host, port = bridge.address
        reader = BridgeReader({"host": host, "port": str(port), **bridge.options})
        assert reader.initialOffset() == {"0/0": 0}
        reader.stop()
    finally:
        bridge.close()


@pytest.mark.expects_log("bridge: dropped")
def test_a_connection_for_which_no_thread_starts_does_not_end_the_bridge(
    bridge: Bridge, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = threading.Thread.start

    def fails_once(thread: threading.Thread) -> None:
        if thread.name != "spark bridge connection":  # other parts of the process start threads too
            return start(thread)
        monkeypatch.setattr(threading.Thread, "start", start)
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", fails_once)
    with socket.create_connection(bridge.address, 10) as refused:
        assert refused.recv(1) == b""
    assert reader_of(bridge).initialOffset() == {"0/0": 0}


def test_a_bridge_serves_so_many_connections_and_no_more(bridge: Bridge, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_CONNECTIONS", 2)
    readers = [reader_of(bridge) for _ in range(2)]
    assert [reader.initialOffset() for reader in readers] == [{"0/0": 0}] * 2
    with pytest.raises(OSError):
        reader_of(bridge).initialOffset()
    assert readers[0].initialOffset() == {"0/0": 0}
    for reader in readers:
        reader.stop()


@pytest.mark.expects_log("bridge: dropped")
def test_closing_a_bridge_ends_the_connections_that_are_open_and_may_be_repeated(
    bridge: Bridge, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "TOKEN_S", 600)  # nothing else ends a connection that sends no token
    with socket.create_connection(bridge.address, 10) as silent:
        reader = reader_of(bridge)
        assert reader.initialOffset() == {"0/0": 0}  # the silent one was accepted before it
        bridge.close()
        bridge.close()
        assert silent.recv(1) == b""
    bridge._thread.join(30)
    assert not bridge._thread.is_alive()
    reader.stop()
