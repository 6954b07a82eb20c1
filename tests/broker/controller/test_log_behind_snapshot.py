"""The metadata log and its newest snapshot: where the log begins, which epoch it ends in, and what a follower reads of a snapshot."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from streamactors.broker.controller.metadata_log import MAX_PIECE_BYTES, MetadataLog
from streamactors.broker.log.disk import Disk
from streamactors.broker.log.manager import LogManager
from streamactors.broker.metadata.delta import apply_records
from streamactors.broker.metadata.image import MetadataImage
from streamactors.broker.metadata.snapshot import snapshot_name
from streamactors.broker.quorum.raft.raft_messages import Vote
from streamactors.broker.quorum.raft.raft_state import RaftState
from streamactors.broker.quorum.raft.roles import Timing
from streamactors.broker.quorum.vote_file import Election
from tests.broker.controller.test_metadata_log import manager, opened, play, topic


def crash(logs: LogManager) -> None:
    """End the process without a stop. The files keep what was written."""
    logs.folders.unlock()


def snapshot_of_epoch_7(folder: Path) -> tuple[int, bytes]:
    """Return the end offset and the content of a snapshot whose records are all of epoch 7."""
    logs = manager(folder)
    log = opened(logs)
    image = MetadataImage()
    for number in range(6):
        image = apply_records(image, topic(number), log.append(topic(number), 7)).image
    log.commit(18)
    log.snapshot(image, 1)
    assert log.newest_snapshot == (7, 18)
    found = log.snapshot_piece((7, 18), 0)
    assert found is not None
    crash(logs)
    return 18, found[1]


def vote_for(log: MetadataLog, last_epoch: int, end_offset: int) -> bool:
    state = RaftState(2, {1, 2, 3}, Election(7, leader=1), log, Timing(100, 200), random.Random(1), 0.0)
    return state.vote(Vote(8, 3, last_epoch, end_offset, False), 1.0)[0].granted


# The log ended where its snapshot did -> kill -9 -> recovery removed the epoch that begins at the end of the log -> the voter named
# epoch 0, and voted for a candidate without the records of the snapshot: committed metadata was truncated everywhere.
@pytest.mark.parametrize("installed", [False, True], ids=["own snapshot", "snapshot of the leader"])
@pytest.mark.parametrize("stop", [crash, LogManager.close], ids=["crash", "clean stop"])
def test_a_log_that_ends_with_its_snapshot_keeps_the_last_epoch(
    tmp_path: Path, installed: bool, stop: Callable[[LogManager], None]
) -> None:
    other = tmp_path / "other"
    end, content = snapshot_of_epoch_7(other)
    if installed:
        logs = manager(tmp_path / "node")
        opened(logs).install(7, end, content)
    else:
        other.rename(tmp_path / "node")
        logs = manager(tmp_path / "node")
        opened(logs).finish_installing()
    stop(logs)
    again = manager(tmp_path / "node")
    log = opened(again)
    log.finish_installing()
    assert (log.start_offset, log.end_offset, log.last_epoch) == (end, end, 7)
    assert (log.end_of_epoch(7), log.end_of_epoch(9)) == ((7, end), (7, end))
    assert not vote_for(log, 5, 3)
    assert not vote_for(log, 7, 17)
    assert vote_for(log, 7, 18)
    again.close()


def test_a_log_whose_records_behind_the_snapshot_are_truncated_keeps_the_last_epoch(tmp_path: Path) -> None:
    end, content = snapshot_of_epoch_7(tmp_path / "other")
    logs = manager(tmp_path / "node")
    log = opened(logs)
    log.install(7, end, content)
    log.append(topic(8), 8)
    assert log.last_epoch == 8
    log.truncate(end)
    assert (log.start_offset, log.end_offset, log.last_epoch) == (end, end, 7)
    logs.close()


def test_a_snapshot_takes_the_place_of_a_longer_log_though_the_node_stopped_in_between(tmp_path: Path) -> None:
    end, content = snapshot_of_epoch_7(tmp_path / "other")
    logs = manager(tmp_path / "node")
    log = opened(logs)
    for number in range(10):
        log.append(topic(number), 5)
    log.sync()
    (tmp_path / "node" / "__cluster_metadata-0" / snapshot_name(end, 7)).write_bytes(content)
    crash(logs)
    again = manager(tmp_path / "node")
    log = opened(again)
    log.finish_installing()
    assert (log.start_offset, log.end_offset, log.last_epoch) == (end, end, 7)
    again.close()


def test_a_snapshot_that_the_log_goes_on_behind_changes_nothing_at_a_start(tmp_path: Path) -> None:
    end, _ = snapshot_of_epoch_7(tmp_path / "node")
    logs = manager(tmp_path / "node")
    log = opened(logs)
    log.append(topic(8), 9)
    log.sync()
    crash(logs)
    again = manager(tmp_path / "node")
    log = opened(again)
    log.finish_installing()
    assert (log.start_offset, log.end_offset, log.last_epoch) == (end, end + 3, 9)
    # No record is of epoch 8: a replica that has one truncates to where its epoch 7 ends.
    assert [log.end_of_epoch(epoch) for epoch in (7, 8, 9, 10)] == [(7, end), (7, end), (9, end + 3), (9, end + 3)]
    again.close()


def test_a_snapshot_is_not_written_twice_while_nothing_is_committed_behind_it(tmp_path: Path) -> None:
    logs = manager(tmp_path)
    log = opened(logs)
    image = play(log, MetadataImage(), range(3), 1)
    before = log.newest_snapshot
    log.append(topic(5), 2)
    log.snapshot(image, 1)
    assert log.newest_snapshot == before
    logs.close()


def test_a_snapshot_is_not_written_again_after_a_crash_before_the_log_was_cut(tmp_path: Path) -> None:
    # The snapshot was written and the epochs before its end were dropped -> kill -9 before the checkpoint of the log's start -> the log begins
    # at 0 again: the same snapshot was written a second time, as one of epoch 0.
    logs = manager(tmp_path)
    log = opened(logs)
    image = MetadataImage()
    for number in range(3):
        image = apply_records(image, topic(number), log.append(topic(number), 7)).image
    log.sync()
    log.snapshot(image, 1)
    log.append(topic(5), 8)
    log.sync()
    crash(logs)
    again = manager(tmp_path)
    log = opened(again)
    log.finish_installing()
    assert (log.start_offset, log.end_offset) == (0, 12)
    log.snapshot(image, 1)
    assert [path.name for path in (tmp_path / "__cluster_metadata-0").glob("*.checkpoint")] == [snapshot_name(9, 7)]
    again.close()


class Watched(Disk):
    """Notes which files are read as a whole."""

    def __init__(self) -> None:
        super().__init__()
        self.whole: list[str] = []

    def read(self, path: Path) -> bytes:
        self.whole.append(path.name)
        return super().read(path)


def test_a_piece_of_a_snapshot_is_read_without_the_rest(tmp_path: Path) -> None:
    # The leader read all of the snapshot for each piece, on the thread of the controller: 200 times 200 MB for one follower.
    disk = Watched()
    logs = manager(tmp_path, disk)
    log = opened(logs)
    content = random.Random(1).randbytes(2 * MAX_PIECE_BYTES + 5)
    (tmp_path / "__cluster_metadata-0" / snapshot_name(50, 7)).write_bytes(content)
    disk.whole.clear()
    read = bytearray()
    while len(read) < len(content):
        found = log.snapshot_piece((7, 50), len(read))
        assert found is not None
        assert found[0] == len(content)
        assert 0 < len(found[1]) <= MAX_PIECE_BYTES
        read += found[1]
    assert read == content
    for position in (len(content), 2**63 - 1):
        assert log.snapshot_piece((7, 50), position) == (len(content), b"")
    assert log.snapshot_piece((7, 49), 0) is None
    assert disk.whole == []
    logs.close()
