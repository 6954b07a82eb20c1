"""Frames: a stream of bytes that is cut anywhere gives the frames that went in, and bytes that are no frame are refused."""

from __future__ import annotations

import socket

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamactors.actors.workers import frames
from streamactors.actors.workers.frames import (
    HEADER,
    MAX_PAYLOAD,
    MOST_PARTS,
    BrokenFrame,
    Frame,
    WorkerFrameReader,
    after_sending,
    header,
)

SCRATCH = 256 * 1024
IN_RING = 0x80


class Pieces:
    """Stands for a socket that receives at most so many bytes at a time."""

    def __init__(self, data: bytes, pieces: list[int]) -> None:
        self.data, self.pieces = data, pieces

    def recv_into(self, into: memoryview) -> int:
        n = min(len(into), self.pieces.pop(0) if self.pieces else len(self.data), len(self.data))
        into[:n] = self.data[:n]
        self.data = self.data[n:]
        return n


def received(
    data: bytes, pieces: list[int], reader: WorkerFrameReader | None = None
) -> list[tuple[int, int, int, bytes]]:
    reader = reader or WorkerFrameReader()
    end = Pieces(data, [max(1, n) for n in pieces])
    out: list[Frame] = []
    while reader.receive(end, out):  # type: ignore[arg-type]
        pass
    return [(frame.kind, frame.count, frame.number, bytes(frame.payload)) for frame in out]


SIZES = st.sampled_from([0, 1, 2, 100, 5_000, SCRATCH - HEADER.size - 1, SCRATCH - HEADER.size, SCRATCH, SCRATCH + 1])
FRAME = st.tuples(st.integers(0, 127), st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1), SIZES)


@settings(max_examples=60, deadline=None)
@given(st.lists(FRAME, max_size=6), st.lists(st.integers(1, 300_000), max_size=40))
def test_frames_come_out_as_they_went_in_however_the_bytes_are_cut(
    sent: list[tuple[int, int, int, int]], pieces: list[int]
) -> None:
    told = [(kind, count, number, bytes([at + 1]) * size) for at, (kind, count, number, size) in enumerate(sent)]
    data = b"".join(header(kind, len(body), count, number) + body for kind, count, number, body in told)
    assert received(data, pieces) == told


def test_a_header_has_defaults_of_nothing() -> None:
    assert HEADER.unpack(header(5)) == (0, 5, 0, 0)
    assert HEADER.unpack(header(5, 6, 7, 8)) == (6, 5, 7, 8)
    assert HEADER.unpack(header(5, in_ring=True)) == (0, 5 | IN_RING, 0, 0)


def test_a_payload_that_is_too_long_is_refused_before_it_is_sent_and_when_it_comes() -> None:
    assert MAX_PAYLOAD == 1 << 30
    assert HEADER.unpack(header(1, MAX_PAYLOAD))[0] == MAX_PAYLOAD
    with pytest.raises(BrokenFrame, match=f"a frame of {MAX_PAYLOAD + 1} bytes; at most {MAX_PAYLOAD} go to a worker"):
        header(1, MAX_PAYLOAD + 1)
    with pytest.raises(
        BrokenFrame, match=f"a frame of {MAX_PAYLOAD + 1} bytes, where at most {MAX_PAYLOAD} are allowed"
    ):
        received(HEADER.pack(MAX_PAYLOAD + 1, 1, 0, 0), [])


def test_a_frame_in_a_ring_has_the_buffers_that_lie_there() -> None:
    reader = WorkerFrameReader(lambda told: [b"from ", bytes(told)])
    ring, plain = header(3, 4, 5, 6, in_ring=True) + b"ring", header(3, 4, 5, 6) + b"here"
    assert received(ring + plain, [], reader) == [(3, 5, 6, b"from ring"), (3, 5, 6, b"here")]


@pytest.mark.parametrize("length", [4 * (1 + MOST_PARTS) + 1])
def test_a_place_in_a_ring_that_is_too_long_is_refused(length: int) -> None:
    fits = header(3, length - 1, in_ring=True) + bytes(length - 1)
    assert len(received(fits, [], WorkerFrameReader(lambda told: [bytes(told)]))) == 1
    with pytest.raises(BrokenFrame, match=f"a frame that names a place in a ring has {length} bytes"):
        received(header(3, length, in_ring=True), [], WorkerFrameReader(lambda told: []))


def test_a_frame_in_a_ring_is_refused_where_there_is_none() -> None:
    with pytest.raises(BrokenFrame, match="names a place in a ring"):
        received(header(3, 4, in_ring=True) + b"ring", [])


def test_a_socket_without_bytes_is_told_apart_from_one_that_has_ended() -> None:
    here, there = socket.socketpair()
    with here:
        here.setblocking(False)
        reader = WorkerFrameReader()
        with pytest.raises(BlockingIOError):
            reader.receive(here, [])
        there.close()
        assert reader.receive(here, []) == 0


@given(st.lists(st.binary(max_size=5), max_size=6), st.integers(0, 40))
def test_what_is_left_after_a_part_was_sent(buffers: list[bytes], sent: int) -> None:
    whole = b"".join(buffers)
    left = after_sending([memoryview(each) for each in buffers], min(sent, len(whole)))
    assert b"".join(left) == whole[sent:]
    if sent >= len(whole):
        assert left == [] or not any(left)


def test_the_numbers_of_the_wire() -> None:
    assert (HEADER.size, MOST_PARTS, frames.MOST_BUFFERS) == (17, 1_024, 256)
