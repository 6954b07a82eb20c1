"""The rings of shared memory beside the socket of a worker process."""

from __future__ import annotations

import os
import socket
import sys
import threading
from collections import deque
from collections.abc import Iterator
from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamactors.actors.workers.channel import Channel
from streamactors.actors.workers.frames import HEADER, BrokenFrame, Frame, header
from streamactors.actors.workers.rings import RING_BYTES, Places, Rings, inherited_rings, make_rings

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="rings are used on Linux only")
LONG = 64 * 1024


@given(st.lists(st.integers(min_value=0, max_value=60), max_size=60))
def test_frames_in_a_ring_never_overlap_and_leave_in_order(steps: list[int]) -> None:
    """A step of 0 reads the oldest frame; any other step places a frame of that size."""
    places = Places(100)
    held: deque[tuple[int, int]] = deque()
    for n in steps:
        if n == 0:
            if held:
                held.popleft()
                places.free(1)
            continue
        at = places.take(n)
        if at is None:
            assert held
            continue
        assert 0 <= at <= 100 - n
        assert all(at + n <= first or first + length <= at for first, length in held)
        held.append((at, n))


def test_more_frames_cannot_be_read_than_were_placed() -> None:
    places = Places(100)
    places.take(10)
    with pytest.raises(BrokenFrame, match="2 frames were read of 1"):
        places.free(2)


@pytest.fixture
def ends() -> Iterator[tuple[Channel, Channel, Rings]]:
    """Two channels over a socket pair with rings, and the rings of the first."""
    made = make_rings()
    assert made is not None
    ours, (memory, *freed) = made
    theirs = inherited_rings(memory, *map(os.dup, freed))
    a, b = socket.socketpair()
    with a, b:
        yield Channel(a, ours), Channel(b, theirs), ours
    ours.close()
    theirs.close()


def chunk(parts: list[bytes], number: int) -> list[bytes]:
    return [header(4, sum(map(len, parts)), len(parts), number), *parts]


def test_a_long_frame_arrives_as_the_buffers_that_were_sent_and_only_its_place_crosses_the_socket(
    ends: tuple[Channel, Channel, Rings],
) -> None:
    ours, theirs, _ = ends
    parts = [b"head", bytes(range(256)) * 256, b"x" * LONG]
    frames: list[Frame] = []
    ours.send(chunk(parts, 7))
    assert theirs.receive(frames) == HEADER.size + 4 * (1 + len(parts))
    assert [(frame.kind, frame.count, frame.number, frame.parts) for frame in frames] == [(4, 3, 7, parts)]
    assert bytes(frames[0].payload) == b"".join(parts)


def test_a_sender_waits_while_the_ring_is_full_and_loses_nothing(ends: tuple[Channel, Channel, Rings]) -> None:
    ours, theirs, _ = ends
    n = 3 * RING_BYTES // LONG
    sender = threading.Thread(target=lambda: [ours.send(chunk([pack("<I", i) + b"x" * LONG], i)) for i in range(n)])
    sender.start()
    frames: list[Frame] = []
    while len(frames) < n:
        assert theirs.receive(frames)
    sender.join()
    assert [int.from_bytes(bytes(frame.payload[:4]), "little") for frame in frames] == list(range(n))


def test_a_sender_that_waits_for_room_learns_that_the_parent_has_gone() -> None:
    made = make_rings()
    assert made is not None
    rings, (memory, *_) = made
    os.close(memory)
    a, b = socket.socketpair()
    with a:
        channel = Channel(a, rings)
        while rings.writer.place(chunk([b"x" * LONG], 0)) is not None:
            pass  # nobody reads: the ring is full in the end
        b.close()
        with pytest.raises(OSError, match="closed the socket"):
            channel.send(chunk([b"x" * LONG], 0))
    rings.close()


@pytest.mark.parametrize("place", [pack("=2I", 0, LONG), pack("=2I", 2 * RING_BYTES - 1, LONG), b"12345", b""])
def test_a_place_outside_the_ring_is_refused(place: bytes) -> None:
    made = make_rings()
    assert made is not None
    rings, (memory, *_) = made
    os.close(memory)
    with pytest.raises(BrokenFrame):
        rings.reader.read(place)
    rings.close()


def test_a_frame_in_a_ring_is_refused_where_there_is_no_ring() -> None:
    a, b = socket.socketpair()
    with a, b:
        a.sendall(header(4, 8, in_ring=True) + pack("=2I", 0, 4))
        with pytest.raises(BrokenFrame, match="names a place in a ring"):
            Channel(b, None).receive([])
