"""A snapshot of the metadata log from replica to replica: which pieces a replica gives, and when a reader has all or gives up."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from streamactors.broker.errors import ErrorCode
from streamactors.broker.quorum.raft.raft_messages import FetchSnapshot, SnapshotPiece
from streamactors.broker.quorum.raft.roles import Role
from streamactors.broker.quorum.snapshot_transfer import MAX_SNAPSHOT_BYTES, SnapshotReader, piece_of

SNAPSHOT = (3, 40)
CONTENT = b"abcdef"


class Log:
    """Has one snapshot and gives at most four bytes of it."""

    def snapshot_piece(self, snapshot: tuple[int, int], position: int) -> tuple[int, bytes] | None:
        assert position >= 0
        return (len(CONTENT), CONTENT[position : position + 4]) if snapshot == SNAPSHOT else None


def given_to(asked: FetchSnapshot, *, epoch: int = 4, role: Role = Role.LEADER) -> SnapshotPiece:
    state: Any = SimpleNamespace(epoch=epoch, leader=1, role=role)
    return piece_of(Log(), state, asked)  # type: ignore[arg-type]


@pytest.mark.parametrize(("position", "content"), [(0, b"abcd"), (1, b"bcde"), (4, b"ef"), (5, b"f")])
def test_a_leader_gives_the_piece_at_a_position(position: int, content: bytes) -> None:
    asked = FetchSnapshot(4, 7, SNAPSHOT, position)
    assert given_to(asked) == SnapshotPiece(ErrorCode.NONE, 4, 1, asked, len(CONTENT), content)


@pytest.mark.parametrize("position", [-1, 6, 7])
def test_a_position_outside_of_the_snapshot_is_refused_with_its_size(position: int) -> None:
    asked = FetchSnapshot(4, 7, SNAPSHOT, position)
    assert given_to(asked) == SnapshotPiece(ErrorCode.POSITION_OUT_OF_RANGE, 4, 1, asked, len(CONTENT))


@pytest.mark.parametrize(
    ("asked_epoch", "role", "snapshot", "error"),
    [
        (3, Role.LEADER, SNAPSHOT, ErrorCode.FENCED_LEADER_EPOCH),
        (5, Role.LEADER, SNAPSHOT, ErrorCode.UNKNOWN_LEADER_EPOCH),
        (4, Role.FOLLOWER, SNAPSHOT, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (4, Role.LEADER, (3, 41), ErrorCode.SNAPSHOT_NOT_FOUND),
    ],
)
def test_a_replica_refuses_what_it_cannot_give(
    asked_epoch: int, role: Role, snapshot: tuple[int, int], error: ErrorCode
) -> None:
    asked = FetchSnapshot(asked_epoch, 7, snapshot, 0)
    assert given_to(asked, role=role) == SnapshotPiece(error, 4, 1, asked)


class Reading:
    def __init__(self) -> None:
        self.sent: list[tuple[int, Any]] = []
        self.reader = SnapshotReader(7, lambda leader, asked: self.sent.append((leader, asked)))
        self.reader.begin(4, 1, SNAPSHOT)

    def got(self, content: bytes, size: int = 6, error: ErrorCode = ErrorCode.NONE, asked: Any = None) -> bytes | None:
        asked = asked or self.sent[-1][1]
        found = self.reader.got(1, SnapshotPiece(error, 4, 1, asked, size, content))
        return None if found is None else bytes(found)


def test_a_reader_asks_for_piece_after_piece() -> None:
    reading = Reading()
    assert reading.sent == [(1, FetchSnapshot(4, 7, SNAPSHOT, 0))]
    assert reading.got(b"abcd") is None
    assert reading.sent[1:] == [(1, FetchSnapshot(4, 7, SNAPSHOT, 4))]
    assert reading.got(b"ef") == CONTENT
    assert reading.got(b"ef") is None, "nothing is under way"
    assert len(reading.sent) == 2


@pytest.mark.parametrize(
    ("content", "size", "error"),
    [
        (b"ab", 6, ErrorCode.SNAPSHOT_NOT_FOUND),
        (b"", 6, ErrorCode.NONE),
        (b"abcdefg", 6, ErrorCode.NONE),
        (b"ab", MAX_SNAPSHOT_BYTES + 1, ErrorCode.NONE),
    ],
)
def test_a_reading_ends_in_vain_with_a_wrong_piece(content: bytes, size: int, error: ErrorCode) -> None:
    reading = Reading()
    assert reading.got(content, size, error) == b""
    assert reading.got(CONTENT, asked=reading.sent[0][1]) is None
    assert len(reading.sent) == 1


def test_the_largest_snapshot_is_read() -> None:
    assert MAX_SNAPSHOT_BYTES == 1 << 30
    reading = Reading()
    assert reading.got(b"ab", MAX_SNAPSHOT_BYTES) is None
    assert len(reading.sent) == 2


def test_a_reading_that_begins_anew_takes_no_piece_of_the_one_before() -> None:
    reading = Reading()
    first = reading.sent[-1][1]
    reading.got(b"abcd")
    reading.reader.begin(5, 2, SNAPSHOT)
    assert reading.sent[-1] == (2, FetchSnapshot(5, 7, SNAPSHOT, 0))
    assert reading.got(b"ef", asked=first) is None
    assert reading.got(CONTENT) == CONTENT
