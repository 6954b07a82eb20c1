"""The members of `streamactors run --processes`: which are started again and when, who gives up, and what their metrics say.

The processes and the time are the test's."""

from __future__ import annotations

import signal
import socket
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from streamactors.cli.graphs import members
from streamactors.cli.graphs.member import ASK, LENGTH, MAX_ANSWER
from streamactors.cli.graphs.members import FIRST_BACKOFF_S, LONGEST_BACKOFF_S, STEADY_S, MemberProcess, Members


class Process:
    """Runs until the test gives it an exit code."""

    def __init__(self, pid: int, environment: dict[str, str]) -> None:
        self.pid, self.environment = pid, environment
        self.returncode: int | None = None
        self.signals: list[int] = []

    def poll(self) -> int | None:
        return self.returncode

    def send_signal(self, number: int) -> None:
        self.signals.append(number)
        if number == signal.SIGKILL:
            self.returncode = -number

    def wait(self) -> int:
        assert self.returncode is not None, "nobody ends this process"
        return self.returncode


class World:
    def __init__(self) -> None:
        self.now_s = 100.0
        self.started: list[Process] = []
        self.commands: list[list[str]] = []
        self.said: list[str] = []

    def popen(self, command: list[str], *, env: dict[str, str], **_: Any) -> Process:
        self.commands.append(command)
        self.started.append(Process(1_000 + len(self.started), env))
        return self.started[-1]


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    world = World()
    monkeypatch.setattr(members.subprocess, "Popen", world.popen)
    monkeypatch.setattr(members, "time", SimpleNamespace(monotonic=lambda: world.now_s))
    monkeypatch.setattr(members, "random", SimpleNamespace(random=lambda: 0.5))
    return world


@pytest.fixture
def two(world: World) -> Iterator[Members]:
    with Members(["app:graph"], 2, 3, world.said.append) as made:
        yield made


def test_each_member_is_a_process_that_knows_its_number(world: World, two: Members) -> None:
    assert [each.environment[members.NUMBER] for each in world.started] == ["0", "1"]
    assert [command[-2:] for command in world.commands] == [["run", "app:graph"]] * 2
    assert not two.look()
    assert (two.codes, two.failed, len(world.started)) == (set(), [], 2)


@pytest.mark.parametrize("code", [0, 2])
def test_a_member_that_is_through_or_cannot_run_is_not_started_again(world: World, two: Members, code: int) -> None:
    world.started[0].returncode = code
    assert not two.look()
    world.now_s += 1_000
    assert not two.look()
    assert (len(world.started), two.codes) == (2, {code})
    world.started[1].returncode = 0
    assert two.look()
    assert two.failed == ([] if code == 0 else ["member 0 ended with exit code 2"])
    assert world.said == []


def test_a_member_that_has_failed_is_started_again_after_a_delay_that_doubles(world: World, two: Members) -> None:
    for restart in range(3):
        before = len(world.started)
        world.started[-1 if restart else 0].returncode = -9
        delay_s = FIRST_BACKOFF_S * 2**restart * 1.1
        assert not two.look()
        world.now_s += delay_s - 0.001
        assert not two.look()
        assert len(world.started) == before
        world.now_s += 0.002
        assert not two.look()
        assert len(world.started) == before + 1
        assert world.started[-1].environment[members.NUMBER] == "0"
        assert world.said[-1].endswith(f"; started again in {delay_s:.1f} s")
    assert world.said[0].startswith("member 0 (process 1000) ")


def test_a_member_that_fails_too_often_ends_all(world: World, two: Members) -> None:
    world.started[0].returncode = 1
    for _ in range(3):
        two.look()
        world.now_s += LONGEST_BACKOFF_S * 2
        two.look()
        world.started[-1].returncode = 1
    assert not two.look()
    assert world.said[-1] == "member 0 (process 1004) ended with exit code 1, after 3 restarts in a row; given up"
    assert world.started[1].signals == [signal.SIGTERM]
    world.started[1].returncode = 0
    assert two.look()
    assert (two.codes, two.failed) == ({0, 1}, ["member 0 ended with exit code 1"])


def test_restarts_count_anew_after_a_steady_run(world: World, two: Members) -> None:
    def fail_after(run_s: float) -> str:
        world.now_s += run_s
        world.started[-1].returncode = 1
        two.look()
        world.now_s += LONGEST_BACKOFF_S * 2
        two.look()
        return world.said[-1]

    world.started[0].returncode = 0
    assert fail_after(1).endswith(f"in {FIRST_BACKOFF_S * 1.1:.1f} s")
    assert fail_after(STEADY_S).endswith(f"in {FIRST_BACKOFF_S * 2.2:.1f} s")
    assert fail_after(STEADY_S + 0.1).endswith(f"in {FIRST_BACKOFF_S * 1.1:.1f} s")


def test_a_stop_asks_all_to_drain_and_starts_none_again(world: World, two: Members) -> None:
    world.started[0].returncode = 1
    two.look()  # it waits for its restart
    two.stop()
    assert world.started[1].signals == [signal.SIGTERM]
    world.now_s += 1_000
    world.started[1].returncode = 3
    assert two.look()
    assert (two.codes, two.failed, len(world.started)) == ({0, 3}, ["member 1 ended with exit code 3"], 2)


def test_a_member_that_was_stopped_before_the_end_of_its_sources_has_not_failed(world: World, two: Members) -> None:
    two.stop()
    world.started[0].returncode, world.started[1].returncode = 143, 1
    assert two.look()
    assert (two.codes, two.failed) == ({143, 1}, ["member 1 ended with exit code 1"])


def test_a_member_that_was_asked_before_it_had_a_handler_ends_well(world: World, two: Members) -> None:
    two.stop()
    world.started[0].returncode, world.started[1].returncode = -signal.SIGTERM, -signal.SIGKILL
    assert two.look()
    assert two.codes == {0, -9}


def test_at_the_end_no_process_is_left(world: World) -> None:
    with Members(["app:graph"], 2, 3, world.said.append):
        world.started[0].returncode = 0
    assert [each.signals for each in world.started] == [[], [signal.SIGKILL]]


def answering(end: socket.socket, *answers: bytes) -> threading.Thread:
    """Answer each question with these bytes; then close."""

    def run() -> None:
        with end:
            for each in answers:
                assert end.recv(len(ASK)) == ASK
                end.sendall(each)

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def connected(*answers: bytes) -> tuple[MemberProcess, threading.Thread]:
    member = MemberProcess(0)
    ours, theirs = socket.socketpair()
    ours.settimeout(30)
    member._end = ours
    return member, answering(theirs, *answers)


def test_a_member_answers_with_its_metrics() -> None:
    text = "x" * 100_000
    member, thread = connected(LENGTH.pack(len(text)) + text.encode(), LENGTH.pack(0))
    assert member.metrics() == text
    assert member.metrics() == ""
    thread.join()
    assert member.metrics() is None, "it has ended"
    assert member.metrics() is None
    assert MemberProcess(1).metrics() is None


def test_an_answer_that_is_too_long_is_left() -> None:
    member, thread = connected(LENGTH.pack(MAX_ANSWER + 1))
    assert member.metrics() is None
    member.forget()
    member.forget()
    thread.join()
    assert MAX_ANSWER == 64 << 20


def test_metrics_of_all_members_are_merged_under_their_numbers(world: World, two: Members) -> None:
    told = '# HELP rows Rows.\n# TYPE rows gauge\nrows{topic="a"} 5.0\n'
    for member, text in zip(two._members, (told, None), strict=True):
        member.metrics = lambda text=text: text  # type: ignore[method-assign,misc]
    world.started[1].returncode = 1
    two.look()
    families = {family.name: family for family in two.collect()}
    found = {
        name: [(tuple(sorted(sample.labels.items())), sample.value) for sample in family.samples]
        for name, family in families.items()
    }
    assert found == {
        "streamactors_member_up": [((("member", "0"),), 1.0), ((("member", "1"),), 0.0)],
        "streamactors_member_restarts": [((("member", "0"),), 0.0), ((("member", "1"),), 1.0)],
        "rows": [((("member", "0"), ("topic", "a")), 5.0)],
    }
    assert families["rows"].documentation == "Rows."
    assert two.describe() == []
