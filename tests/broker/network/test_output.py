"""What leaves by a socket: files in pieces, and a full socket that is left in peace."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from streamactors.broker.network.output import Output, RegionTooShort
from streamactors.broker.network.tls.tls_output import TlsOutput


class Region:
    """A whole file, as a log's slice."""

    def __init__(self, path: Path, length: int | None = None) -> None:
        self.fd = os.open(path, os.O_RDONLY)
        self.position = 0
        self.length = path.stat().st_size if length is None else length
        self.released = False

    def release(self) -> None:
        self.released = True
        os.close(self.fd)


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 64 << 10)  # full soon, whatever the machine's default
    ours.setblocking(False)
    theirs.setblocking(False)
    with ours, theirs:
        yield ours, theirs


@pytest.fixture
def sendfiles(pair: tuple[socket.socket, socket.socket], monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The bytes that `pair` was asked to send, call by call; a broker of another test may send meanwhile."""
    asked: list[int] = []
    sendfile = os.sendfile

    def counting(out: int, source: int, offset: int, count: int) -> int:
        if out == pair[0].fileno():
            asked.append(count)
        return sendfile(out, source, offset, count)

    monkeypatch.setattr(os, "sendfile", counting)
    return asked


def drain(sock: socket.socket) -> bytes:
    received = bytearray()
    while True:
        try:
            received += sock.recv(1 << 20)
        except BlockingIOError:
            return bytes(received)


def test_a_response_goes_in_pieces_and_a_full_socket_is_not_asked_again(
    tmp_path: Path, pair: tuple[socket.socket, socket.socket], sendfiles: list[int]
) -> None:
    ours, theirs = pair
    content = os.urandom(3 << 20)
    (tmp_path / "segment").write_bytes(content)
    region, output = Region(tmp_path / "segment"), Output(ours)
    output.extend([b"before", region, b"after"])
    received, rounds = b"", 0
    while True:
        rounds += 1
        done = output.flush()
        assert len(sendfiles) <= rounds
        received += drain(theirs)
        if done:
            break
    assert received == b"before" + content + b"after"
    assert region.released
    assert output.size == 0
    assert rounds > 2


def test_a_file_that_is_too_short_is_an_error(tmp_path: Path, pair: tuple[socket.socket, socket.socket]) -> None:
    (tmp_path / "segment").write_bytes(b"short")
    region, output = Region(tmp_path / "segment", length=10), Output(pair[0])
    output.extend([region])
    assert not output.flush()
    with pytest.raises(RegionTooShort):
        output.flush()
    output.discard()
    assert region.released
    assert output.size == 0


class Taking:
    """A socket whose kernel takes everything."""

    def __init__(self) -> None:
        self.taken = bytearray()

    def send(self, data: bytes, flags: int = 0) -> int:
        self.taken += data
        return len(data)


def test_a_tls_connection_sends_four_megabytes_in_its_turn_and_the_rest_in_the_next() -> None:
    for parts, turns in ((3, 1), (4, 1), (5, 2), (9, 3)):
        sock = Taking()
        output = TlsOutput(sock)  # type: ignore[arg-type]
        content = [bytes([number]) * (1 << 20) for number in range(parts)]
        output.extend(content)
        made = [output.flush()]
        while not made[-1]:
            assert len(sock.taken) >= len(made) * (4 << 20)
            made.append(output.flush())
        assert len(made) == turns
        assert bytes(sock.taken) == b"".join(content)
        assert output.size == 0
