"""A quorum on real logs and vote files: alone, and three replicas that talk over a network of virtual time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from streamactors.broker.controller.metadata_log import MetadataLog
from streamactors.broker.errors import BrokerError, ErrorCode, StorageError, StorageShortage
from streamactors.broker.log.config import LogConfig
from streamactors.broker.log.manager import LogManager
from streamactors.broker.metadata.metadata_codec import encode_record
from streamactors.broker.metadata.metadata_record import FeatureLevel
from streamactors.broker.metadata.snapshot import encode_snapshot
from streamactors.broker.quorum.quorum import Quorum
from streamactors.broker.quorum.raft.raft_messages import (
    Answer,
    BeginEpoch,
    Fetch,
    FetchAnswer,
    FetchSnapshot,
    Request,
    SnapshotPiece,
)
from streamactors.broker.quorum.raft.roles import Timing
from streamactors.broker.records.builder import build_batch
from streamactors.broker.records.record import NewRecord
from tests.broker.log.forgetful_disk import ForgetfulDisk
from tests.simulation.scheduler import Scheduler

TIMING = Timing(election_ms=100.0, fetch_ms=200.0)


class VirtualTimer:
    """A timer of the scheduler."""

    def __init__(self, call: Callable[[], object]) -> None:
        self.call: Callable[[], object] | None = call

    def cancel(self) -> None:
        self.call = None

    def fire(self) -> None:
        call, self.call = self.call, None
        if call is not None:
            call()


class Timers:
    """Timers of one life of a replica, in the scheduler's time."""

    def __init__(self, world: Scheduler) -> None:
        self.world = world
        self.set: list[VirtualTimer] = []

    def under_way(self, call: Callable[[], object]) -> int:
        return sum(each.call == call for each in self.set)

    def call_later(self, delay_ms: float, fn: Callable[[], object]) -> Any:
        timer = VirtualTimer(fn)
        self.set.append(timer)
        self.world.later(delay_ms, timer.fire)
        return timer


class Replica:
    """One replica with its folder."""

    def __init__(self, world: World, number: int, folder: Path) -> None:
        self.world, self.number, self.folder = world, number, folder
        self.disk = ForgetfulDisk(folder)
        self.quorum: Quorum | None = None

    def start(self, failing: str = "") -> Quorum:
        """Start on what is on the disk. The next sync of the file `failing` fails."""
        world = self.world
        self.logs = LogManager(self.folder, default_config=LogConfig(), clock_ms=lambda: 0, disk=self.disk)
        self.logs.open()
        self.log = MetadataLog.open(self.logs, lambda: 0)
        if failing:
            self.disk.fail_next("sync", failing)
        self.timers = Timers(world)
        self.high_watermark = 0
        self.leaders: list[tuple[int | None, int]] = []
        self.error: BrokerError | None = None
        self.quorum = Quorum(
            self.timers,
            lambda: world.now,
            self.log,
            self,
            self.send,
            me=self.number,
            voters=frozenset(world.replicas),
            timing=TIMING,
            random=world.random,
        )
        self.quorum.start()
        return self.quorum

    def crash(self) -> None:
        """Lose what is not on the disk."""
        assert self.quorum is not None
        self.quorum._end()  # its process is gone, and with it its timers
        self.quorum = None
        self.disk.cut_power(self.world.random)
        self.logs.folders.unlock()

    def send(self, target: int, request: Request) -> None:
        asked, life = self.world.replicas[target], self.quorum

        def ask() -> None:
            if asked.quorum is not None:
                asked.quorum.asked(request, answer)

        def answer(found: Answer) -> None:
            self.world.send(target, self.number, deliver, found)

        def deliver(found: Answer) -> None:
            if self.quorum is not None and self.quorum is life:
                self.quorum.answered(target, found)

        self.world.send(self.number, target, ask)

    def committed(self, high_watermark: int) -> None:
        self.high_watermark = high_watermark
        self.log.commit(high_watermark)

    def leader_changed(self, leader: int | None, epoch: int) -> None:
        self.leaders.append((leader, epoch))

    def halted(self, error: BrokerError) -> None:
        self.error = error

    def features(self) -> set[str]:
        return set(self.log.load(up_to=self.high_watermark).image.features)


class World(Scheduler):
    """The replicas of one quorum."""

    def __init__(self, folder: Path, count: int, seed: int = 1) -> None:
        super().__init__(seed, loss=0.0)
        self.be_kind()
        self.replicas = {number: Replica(self, number, folder / str(number)) for number in range(1, count + 1)}
        for each in self.replicas.values():
            each.folder.mkdir()
            each.start()

    def leader(self) -> Replica:
        """Run until one replica leads, and return it."""
        for _ in range(1_000):
            leading = [each for each in self.replicas.values() if each.quorum is not None and each.quorum.leads]
            if len(leading) == 1:
                return leading[0]
            self.run(self.now + 10)
        raise AssertionError("the partition has no leader")

    def pass_ms(self, ms: float) -> None:
        self.run(self.now + ms)

    def close(self) -> None:
        for each in self.replicas.values():
            if each.quorum is not None:
                each.quorum._end()
                each.logs.close()


def feature(name: str) -> list[FeatureLevel]:
    return [FeatureLevel(name, 1)]


def write(replica: Replica, name: str) -> int:
    assert replica.quorum is not None
    return replica.quorum.append(feature(name))


# --- a quorum of one ---


def test_the_only_voter_leads_at_once_and_what_it_appends_is_committed(tmp_path: Path) -> None:
    world = World(tmp_path, 1)
    (one,) = world.replicas.values()
    assert one.quorum is not None
    assert (one.quorum.leads, one.quorum.leader, one.quorum.epoch) == (True, 1, 1)
    assert one.high_watermark == 1  # the record with which the epoch began
    assert write(one, "a") == 1
    assert (one.high_watermark, one.features()) == (2, {"a"})
    assert not one.timers.set  # it has nobody to watch, so it never wakes up
    world.close()


def test_every_start_is_an_epoch_of_its_own(tmp_path: Path) -> None:
    # The epoch is in the vote file before the log has a record of it: no epoch has two leaders, nor one leader twice.
    world = World(tmp_path, 1)
    (one,) = world.replicas.values()
    for epoch in range(2, 5):
        write(one, f"f{epoch}")
        one.crash()
        assert one.start().epoch == epoch
        assert one.features() == {f"f{each}" for each in range(2, epoch + 1)}
    world.close()


@pytest.mark.expects_log("the partition is offline for writes", "was not closed cleanly")
@pytest.mark.parametrize("file", ["quorum-state.tmp", "00000000000000000000.log"])
def test_a_voter_whose_disk_fails_does_not_lead(tmp_path: Path, file: str) -> None:
    world = World(tmp_path, 1)
    (one,) = world.replicas.values()
    one.crash()
    with pytest.raises(StorageError):
        one.start(file)
    assert one.quorum is not None
    assert not one.quorum.leads
    assert one.high_watermark == 0
    world.close()


# --- a quorum of three ---


@pytest.mark.parametrize("seed", range(5))
def test_three_elect_one_and_all_get_its_records(tmp_path: Path, seed: int) -> None:
    world = World(tmp_path, 3, seed)
    leader = world.leader()
    last_offset = write(leader, "a")
    assert leader.high_watermark <= last_offset  # a majority must have it first
    world.pass_ms(200)
    for each in world.replicas.values():
        assert each.features() == {"a"}
        assert each.quorum is not None
        assert each.quorum.leader == leader.number
        assert each.timers.under_way(each.quorum._tick) == 1
    world.close()


@pytest.mark.parametrize("seed", range(5))
def test_nothing_committed_is_lost_with_the_leader_and_the_rest_is_taken_back(tmp_path: Path, seed: int) -> None:
    world = World(tmp_path, 3, seed)
    first = world.leader()
    write(first, "kept")
    world.pass_ms(200)
    for other in world.replicas:
        if other != first.number:
            world.separate(first.number, other)
    lost = write(first, "lost")
    world.pass_ms(50)
    assert first.high_watermark <= lost
    first.crash()
    second = world.leader()
    assert second is not first
    write(second, "next")
    world.heal()
    first.start()
    world.pass_ms(1_000)
    for each in world.replicas.values():
        assert each.features() == {"kept", "next"}
        assert each.error is None
    world.close()


def test_a_leader_that_is_cut_off_resigns(tmp_path: Path) -> None:
    world = World(tmp_path, 3)
    first = world.leader()
    assert first.quorum is not None
    for other in world.replicas:
        if other != first.number:
            world.separate(first.number, other)
    world.pass_ms(2_000)
    assert not first.quorum.leads
    assert first.leaders[-1][0] is None
    assert world.leader() is not first
    world.close()


def test_a_leader_that_stops_says_so(tmp_path: Path) -> None:
    world = World(tmp_path, 3)
    first = world.leader()
    world.pass_ms(100)
    assert first.quorum is not None
    first.quorum.stop()
    world.pass_ms(90)  # less than any election timeout
    assert world.leader() is not first
    world.close()


def test_the_last_piece_of_an_earlier_leaders_snapshot_changes_nothing(tmp_path: Path) -> None:
    # 1 reads a snapshot of 2 -> 3 leads, and 1 stores and acknowledges its records -> the last piece of 2 arrives: it took the place of these
    # records, which may have been committed with this acknowledgement.
    world = World(tmp_path, 3)
    one = world.replicas[1]
    one.crash()
    sent: list[tuple[int, Any]] = []
    one.send = lambda target, request: sent.append((target, request))  # type: ignore[method-assign]
    quorum = one.start()
    quorum.asked(BeginEpoch(4, 2), lambda _: None)
    quorum.answered(2, FetchAnswer(ErrorCode.NONE, 4, 2, sent[-1][1], snapshot=(3, 18)))
    target, piece = sent[-1]
    assert (target, piece) == (2, FetchSnapshot(4, 1, (3, 18), 0))
    quorum.asked(BeginEpoch(5, 3), lambda _: None)
    target, fetch = sent[-1]
    assert (target, fetch.offset) == (3, 0)
    record = NewRecord(None, encode_record(FeatureLevel("new", 1)), 0)
    quorum.answered(3, FetchAnswer(ErrorCode.NONE, 5, 3, fetch, batches=[build_batch([record], leader_epoch=5)]))
    assert sent[-1][1].offset == 1  # acknowledged
    content = encode_snapshot(feature("old"), 3, 0)
    quorum.answered(2, SnapshotPiece(ErrorCode.NONE, 4, 2, piece, len(content), content))
    assert (one.log.end_offset, one.log.newest_snapshot, one.error) == (1, None, None)
    world.close()


# --- a leader that cannot read ---


def unreadable(monkeypatch: pytest.MonkeyPatch, name: str, error: StorageError) -> list[float]:
    """Let a method of the metadata log fail; return a list that gets an entry with each attempt."""
    attempts: list[float] = []

    def fail(*_: object) -> None:
        attempts.append(0.0)
        raise error

    monkeypatch.setattr(MetadataLog, name, fail)
    return attempts


def test_a_fetch_that_no_descriptor_is_left_for_is_tried_again_for_as_long_as_it_may_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # It was tried again ten times a second until a descriptor was free, beside each fetch that the same node had sent meanwhile.
    world = World(tmp_path, 1)
    (one,) = world.replicas.values()
    write(one, "a")
    assert one.quorum is not None
    answers: list[Any] = []
    attempts = unreadable(monkeypatch, "batches", StorageShortage("no descriptor"))
    one.quorum.asked(Fetch(one.quorum.epoch, 9, 0, 0, 0, 500), answers.append)
    world.pass_ms(10_000)
    assert len(attempts) == 6  # at once, and after each 100 ms
    monkeypatch.undo()
    world.pass_ms(10_000)
    assert not answers
    one.quorum.asked(Fetch(one.quorum.epoch, 9, 0, 0, 0, 500), answers.append)
    assert len(answers) == 1
    world.close()


@pytest.mark.expects_log("no longer takes part in the quorum of the metadata log")
@pytest.mark.parametrize(("error", "ends"), [(StorageShortage("no descriptor"), False), (StorageError("EIO"), True)])
def test_a_leader_that_cannot_read_its_snapshot_gives_way_to_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: StorageError, ends: bool
) -> None:
    # The error went to the log of the dispatcher, for each node that needed the snapshot, each time that it asked.
    world = World(tmp_path, 1)
    (one,) = world.replicas.values()
    assert one.quorum is not None
    unreadable(monkeypatch, "snapshot_piece", error)
    one.quorum.asked(FetchSnapshot(one.quorum.epoch, 9, (1, 1), 0), lambda _: None)
    assert one.error is (error if ends else None)
    world.close()


@pytest.mark.parametrize("work", ["write_election", "sync"])
def test_the_time_that_the_own_disk_takes_is_not_the_silence_of_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, work: str
) -> None:
    # A write that took longer than a timeout had its node begin an election before it had read what came meanwhile.
    world = World(tmp_path, 3)
    leader = world.leader()
    world.pass_ms(200)
    follower, other = (each for each in world.replicas.values() if each is not leader)
    quorum = follower.quorum
    assert quorum is not None
    genuine = getattr(follower.log, work)

    def slow(*arguments: Any) -> None:
        world.now += 10 * TIMING.fetch_ms
        genuine(*arguments)

    monkeypatch.setattr(follower.log, work, slow)
    quorum.asked(BeginEpoch(quorum.epoch + 1, other.number), lambda _: None)
    assert quorum.state.deadline_ms >= world.now + TIMING.fetch_ms / 2
    world.now = quorum.state.deadline_ms
    quorum._tick()
    assert quorum.leader == other.number
    world.close()
