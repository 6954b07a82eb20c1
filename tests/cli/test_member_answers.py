"""A member of `streamactors run --processes` answers its parent, and drains when the parent has ended. The parent is the test's."""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from streamactors.cli.graphs import member, members
from streamactors.cli.graphs.member import ASK, LENGTH, NUMBER, SOCKET, answering, member_name, member_number


class Killed(list[Any]):
    """Notes the signals that are sent."""

    def __init__(self) -> None:
        super().__init__()
        self.any = threading.Event()

    def __call__(self, *given: Any) -> None:
        self.append(given)
        self.any.set()


@pytest.fixture
def parent(monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """The parent's end of the socket of member 2."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.settimeout(30)
        monkeypatch.setenv(NUMBER, "2")
        monkeypatch.setenv(SOCKET, str(theirs.fileno()))
        yield ours


@pytest.fixture
def killed(monkeypatch: pytest.MonkeyPatch) -> Killed:
    found = Killed()
    monkeypatch.setattr(member.os, "kill", found)
    return found


def received(end: socket.socket, n: int) -> bytes:
    data = b""
    while len(data) < n:
        data += end.recv(n - len(data))
    return data


def test_each_question_has_an_answer_until_the_block_ends(parent: socket.socket, killed: Killed) -> None:
    answers = [b"first", b"", b"x" * 200_000]
    with answering(lambda: answers.pop(0)):
        for length in (5, 0, 200_000):
            parent.sendall(ASK)
            (told,) = LENGTH.unpack(received(parent, LENGTH.size))
            assert (told, len(received(parent, told))) == (length, length)
    assert killed == []


def test_two_questions_at_once_have_two_answers(parent: socket.socket, killed: Killed) -> None:
    with answering(lambda: b"ab"):
        parent.sendall(ASK * 2)
        assert received(parent, 12) == (LENGTH.pack(2) + b"ab") * 2


def test_a_member_whose_parent_has_ended_drains(parent: socket.socket, killed: Killed) -> None:
    with answering(lambda: b""):
        parent.close()
        assert killed.any.wait(30)
    assert killed == [(os.getpid(), signal.SIGTERM)]


def test_the_socket_is_not_inherited_by_what_the_member_starts(parent: socket.socket) -> None:
    fd = int(os.environ[SOCKET])
    os.set_inheritable(fd, True)
    with answering(lambda: b""):
        assert not os.get_inheritable(fd)


def test_an_ordinary_run_answers_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SOCKET, raising=False)
    with answering(lambda: b""):
        pass
    assert member_name() == ""


@pytest.mark.parametrize(
    ("number", "fd", "name"), [("2", "7", "[2]"), ("2", None, ""), (None, "7", ""), (None, None, "")]
)
def test_a_member_puts_its_number_into_its_lines(
    monkeypatch: pytest.MonkeyPatch, number: str | None, fd: str | None, name: str
) -> None:
    for variable, value in ((NUMBER, number), (SOCKET, fd)):
        if value is None:
            monkeypatch.delenv(variable, raising=False)
        else:
            monkeypatch.setenv(variable, value)
    assert member_name() == name
    assert member_number() == ("2" if name else None)


def test_a_late_answer_is_dropped_and_the_member_is_not_asked_to_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """The page asked a member that had just started, waited two seconds, and closed the socket: the member drained."""
    ours, theirs = socket.socketpair()
    asker = members.MemberProcess(0)
    monkeypatch.setattr(asker, "_end", ours)
    ours.settimeout(0.05)
    with ours, theirs:
        theirs.settimeout(30)
        assert asker.metrics() is None
        assert asker.metrics() is None, "nor is it asked again while it owes an answer"
        assert theirs.recv(9) == ASK
        theirs.sendall(LENGTH.pack(4) + b"la")
        assert asker.metrics() is None
        theirs.sendall(b"te" + LENGTH.pack(4) + b"next")  # the second answer is there before its question is
        ours.settimeout(30)
        assert asker.metrics() == "next"
        assert theirs.recv(9) == ASK


def test_an_answer_that_is_too_long_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(members, "MAX_ANSWER", 10)
    ours, theirs = socket.socketpair()
    asker = members.MemberProcess(0)
    monkeypatch.setattr(asker, "_end", ours)
    with ours, theirs:
        ours.settimeout(30)
        theirs.sendall(LENGTH.pack(100_000) + b"x" * 100_000 + LENGTH.pack(2) + b"ok")
        assert asker.metrics() is None
        assert asker.metrics() == "ok"
