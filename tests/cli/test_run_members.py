"""`streamactors run --processes N` without processes: when it ends, what it says, and how it drains. Members and time are the test's."""

from __future__ import annotations

import signal
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from streamactors.broker.http.endpoint_address import MetricsEndpoint
from streamactors.cli.graphs import members, run
from streamactors.cli.graphs.exit_codes import INTERRUPTED, TERMINATED
from streamactors.cli.graphs.members import MembersFailed
from streamactors.cli.graphs.run import DidNotDrain


class FakeMembers:
    """Members that end after some looks, or after they were asked."""

    made: FakeMembers
    ended_with: ClassVar[set[int]] = {0}

    def __init__(self, arguments: list[str], processes: int, restarts: int, say: Any) -> None:
        FakeMembers.made = self
        self.given = (arguments, processes, restarts)
        self.looks_left: float = 3
        self.failed = self.fails
        self.codes = self.ended_with
        self.stopped = self.left = False

    def __enter__(self) -> FakeMembers:
        return self

    def __exit__(self, *_: object) -> None:
        self.left = True

    def look(self) -> bool:
        self.looks_left -= 1
        return self.looks_left < 0

    def stop(self) -> None:
        self.stopped = True
        self.looks_left = self.after_stop

    after_stop: float = 2
    fails: tuple[str, ...] = ()

    def describe(self) -> list[Any]:
        return []

    def collect(self) -> list[Any]:
        return []


class FakeSignals:
    """Stands for the signals: one comes when the command has waited so often."""

    number = signal.SIGTERM

    def __init__(self) -> None:
        self.waits_left = float("inf")

    def __enter__(self) -> FakeSignals:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def wait(self, seconds: float) -> bool:
        self.waits_left -= 1
        return self.is_set()

    def is_set(self) -> bool:
        return self.waits_left <= 0


class World:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked = FakeSignals()
        self.slept_s = 0.0
        monkeypatch.setattr(members, "Members", FakeMembers)
        monkeypatch.setattr(members, "check_shared", lambda graph, processes: None)
        monkeypatch.setattr(run, "_signals", lambda: self.asked)
        monkeypatch.setattr(run, "time", SimpleNamespace(monotonic=lambda: self.slept_s, sleep=self._sleep))

    def _sleep(self, seconds: float) -> None:
        self.slept_s += seconds

    def run(self, door: MetricsEndpoint | None = None) -> int:
        return run._run_members(["app:graph", "more"], None, 2, 7, door, 1.5, None)  # type: ignore[arg-type]


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


def test_it_ends_when_all_members_have_ended(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    assert world.run() == 0
    made = FakeMembers.made
    assert (made.given, made.stopped, made.left) == ((["app:graph", "more"], 2, 7), False, True)
    assert capsys.readouterr().err.splitlines() == [
        "streamactors: running app:graph in 2 processes",
        "streamactors: app:graph has ended in 2 processes",
    ]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, INTERRUPTED)])
def test_a_signal_drains_all_members(
    world: World, number: signal.Signals, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    world.asked.number, world.asked.waits_left = number, 2
    assert world.run() == code
    assert FakeMembers.made.stopped
    assert capsys.readouterr().err.splitlines()[1:] == [
        f"streamactors: {number.name}: draining 2 processes for at most 1.5 s",
        "streamactors: app:graph is drained in 2 processes",
    ]


def test_members_that_were_stopped_before_the_end_of_their_sources_say_so(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    world.asked.number, world.asked.waits_left = signal.SIGTERM, 2
    FakeMembers.ended_with = {0, TERMINATED}
    try:
        assert world.run() == TERMINATED
    finally:
        FakeMembers.ended_with = {0}
    assert (
        capsys.readouterr().err.splitlines()[-1]
        == "streamactors: app:graph was stopped before its sources had ended in 2 processes"
    )


def test_members_that_do_not_drain_in_time_are_left(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.asked.waits_left = 1
    monkeypatch.setattr(FakeMembers, "after_stop", float("inf"))
    with pytest.raises(DidNotDrain, match=r"app:graph did not end within 1\.5 s of being asked; raise --drain-timeout"):
        world.run()
    assert FakeMembers.made.left
    assert world.slept_s == pytest.approx(6.5, abs=0.11), "five seconds more than a member has"


def test_a_member_that_has_failed_fails_the_command(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FakeMembers, "fails", ("member 0 was killed",))
    with pytest.raises(MembersFailed, match="app:graph: member 0 was killed; its own lines above say why"):
        world.run()


def test_metrics_of_the_members_are_served_and_a_new_token_is_told(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    door = MetricsEndpoint.of("0")
    assert door.made
    world.run(door)
    assert f"Bearer {door.token}" in capsys.readouterr().err
