"""The link to a worker process sends what its socket takes, and says whether frames are left."""

from __future__ import annotations

import socket
from collections import deque
from typing import Any

import pytest

from streamactors.actors.workers.link import WorkerLink


class Ring:
    """Takes a frame as long as it has room."""

    def __init__(self, room: int) -> None:
        self.room = room

    def place(self, frame: Any) -> Any:
        if not self.room:
            return None
        self.room -= 1
        return [b"placed"]


@pytest.fixture
def ends() -> Any:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    yield ours, theirs
    ours.close()
    theirs.close()


def link_of(end: socket.socket, ring: Ring | None = None) -> Any:
    link: Any = WorkerLink.__new__(WorkerLink)
    link._socket, link._ring, link._frames, link._left = end, ring, deque(), []
    return link


def test_everything_is_sent_at_once_if_there_is_room(ends: Any) -> None:
    ours, theirs = ends
    link = link_of(ours)
    assert link._push()  # nothing to send
    link._frames.extend([b"%d," % number, b"", b"x;"] for number in range(2_000))  # more buffers than one call takes
    assert link._push()
    assert not link._frames
    assert not link._left
    wanted, got = b"".join(b"%d,x;" % number for number in range(2_000)), b""
    while len(got) < len(wanted):
        got += theirs.recv(1 << 20)
    assert got == wanted


def test_what_a_full_socket_does_not_take_follows_when_it_has_room(ends: Any) -> None:
    ours, theirs = ends
    link = link_of(ours)
    sent = bytes(range(256)) * 8_192
    link._frames.append([sent, b"end"])
    assert not link._push()
    assert link._left
    got = b""
    while not link._push():
        got += theirs.recv(1 << 20)
    while len(got) < len(sent) + 3:
        got += theirs.recv(1 << 20)
    assert got == sent + b"end"


def test_a_frame_waits_for_room_in_the_ring_and_the_socket_is_not_watched_for_it(ends: Any) -> None:
    ours, theirs = ends
    ring = Ring(1)
    link = link_of(ours, ring)
    link._frames.extend([[b"a"], [b"b"]])
    assert not link._push()
    assert (len(link._frames), link._left, theirs.recv(100)) == (1, [], b"placed")
    ring.room = 1
    assert link._push()
    assert theirs.recv(100) == b"placed"


def test_what_a_process_that_has_ended_cannot_receive_is_dropped(ends: Any) -> None:
    ours, theirs = ends
    theirs.close()
    link = link_of(ours)
    link._frames.extend([[b"a"], [b"b"]])
    assert link._push()
    assert not link._frames
