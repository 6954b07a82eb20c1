"""Frames: however a stream is cut into pieces, the same frames come out, and claims cost nobody but their sender."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamactors.broker.network.buffers import BufferPool
from streamactors.broker.network.frame_reader import BadFrame, FrameReader, OutOfBuffers

LIMIT = 1 << 20


class _Stream:
    """Gives at most so many bytes per call, as a socket does."""

    def __init__(self, content: bytes, cuts: list[int]) -> None:
        self.content = content
        self.cuts = cuts

    def receive_into(self, view: memoryview) -> int:
        cut = self.cuts.pop(0) if self.cuts else len(self.content)
        piece = self.content[: min(len(view), max(cut, 1))]
        view[: len(piece)] = piece
        self.content = self.content[len(piece) :]
        return len(piece)


def _framed(payloads: list[bytes]) -> bytes:
    return b"".join(struct.pack(">i", len(payload)) + payload for payload in payloads)


def _reader(scratch_bytes: int = 256, budget: int = LIMIT) -> tuple[FrameReader, memoryview, BufferPool]:
    scratch = memoryview(bytearray(scratch_bytes))
    pool = BufferPool(budget)
    return FrameReader(scratch, pool, LIMIT), scratch, pool


@given(
    payloads=st.lists(st.binary(max_size=40) | st.binary(min_size=200, max_size=3000), max_size=12),
    cuts=st.lists(st.integers(1, 900), max_size=60),
    served_per_turn=st.integers(1, 5),
    stays=st.lists(st.booleans(), max_size=60),
)
@settings(max_examples=200, deadline=None)
def test_frames_survive_any_cutting_and_any_stopping(
    payloads: list[bytes], cuts: list[int], served_per_turn: int, stays: list[bool]
) -> None:
    """`stays`: whether the connection receives again before another one uses the shared buffer."""
    reader, scratch, pool = _reader()
    stream = _Stream(_framed(payloads), cuts)
    frames: list[bytes] = []
    while stream.content or reader.pending:
        if stream.content:
            reader.receive(stream.receive_into)
        for _ in range(served_per_turn):  # then somebody mutes the connection
            frame = reader.next_frame()
            if frame is None:
                break
            frames.append(bytes(frame))
        if not stays or not stays.pop(0):
            reader.park()
            scratch[:] = b"\xee" * len(scratch)  # another connection uses the shared buffer
    assert frames == payloads
    reader.park()
    assert pool.in_use == 0


def test_a_claimed_size_costs_its_sender_the_bytes() -> None:
    reader, _, pool = _reader(scratch_bytes=64 << 10, budget=1 << 30)
    stream = _Stream(struct.pack(">i", LIMIT) + bytes(100), [104])
    reader.receive(stream.receive_into)
    assert reader.next_frame() is None
    reader.park()
    assert pool.in_use <= 16 << 10


def test_a_connection_that_has_sent_large_requests_gets_its_buffer_at_once() -> None:
    reader, _, pool = _reader(scratch_bytes=1024)
    stream = _Stream(_framed([bytes(100_000)] * 2), [])
    while reader.next_frame() is None:
        reader.receive(stream.receive_into)
    reader.park()
    copies = 0
    while reader.next_frame() is None:
        before = pool.in_use
        reader.receive(stream.receive_into)
        copies += pool.in_use not in (before, 100_004) or (before not in (0, 100_004))
    assert copies == 0


@pytest.mark.parametrize("size", [-1, -(2**31), LIMIT + 1, 2**31 - 1])
def test_a_size_that_cannot_be_one(size: int) -> None:
    reader, _, pool = _reader()
    stream = _Stream(struct.pack(">i", size) + b"rest", [])
    reader.receive(stream.receive_into)
    with pytest.raises(BadFrame) as caught:
        reader.next_frame()
    assert caught.value.size == size
    assert caught.value.head == struct.pack(">i", size) + b"rest"
    reader.close()
    assert pool.in_use == 0


def test_a_request_that_grows_waits_for_memory_and_loses_nothing() -> None:
    reader, scratch, pool = _reader(scratch_bytes=1024, budget=40 << 10)
    other = pool.take(39 << 10)
    content = bytes(range(250)) * 120
    stream = _Stream(_framed([content]), [500])
    reader.receive(stream.receive_into)
    assert reader.next_frame() is None
    reader.park()
    assert pool.overdrawn  # what has arrived is kept all the same
    with pytest.raises(OutOfBuffers):
        while reader.next_frame() is None:
            reader.receive(stream.receive_into)
    pool.give_back(other)
    while (frame := reader.next_frame()) is None:
        reader.receive(stream.receive_into)
    assert bytes(frame) == content
    reader.close()
    assert (pool.in_use, len(scratch)) == (0, 1024)


def test_the_largest_request_is_admitted_when_no_other_buffer_is_in_use() -> None:
    pool = BufferPool(10)
    assert pool.admits(1_000_000)
    buffer = pool.take(5)
    assert not pool.admits(6)
    pool.give_back(buffer)
    assert pool.admits(6)


def test_buffers_are_used_again() -> None:
    pool = BufferPool(1 << 30)
    first = pool.take(1_000_000)
    pool.give_back(first)
    assert pool.take(900_000) is first
    assert pool.take(10) is not first
