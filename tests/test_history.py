"""The history checker itself: it accepts everything that a log may do, and names every anomaly."""

from __future__ import annotations

import pytest

from tests.history import Anomaly, Event, Outcome, Poll, Read, Repositioned, Send, Transaction, Write, check

OK, FAIL, UNKNOWN = Outcome.OK, Outcome.FAIL, Outcome.UNKNOWN
P, Q = ("t", 0), ("t", 1)


def send(*values: int, at: int = 0, client: str = "w", outcome: Outcome = OK) -> Send:
    known = outcome is OK
    return Send(client, outcome, tuple(Write(P, v, at + i if known else None) for i, v in enumerate(values)))


def poll(*reads: tuple[int, int], client: str = "r", final: bool = False) -> Poll:
    return Poll(client, tuple(Read(P, offset, value) for offset, value in reads), final)


def kinds(*history: Event) -> list[str]:
    return [anomaly.kind for anomaly in check(history)]


def test_a_plain_history_is_clean() -> None:
    assert (
        check([send(1, 2, 3), poll((0, 1), (1, 2)), poll((2, 3)), poll((0, 1), (1, 2), (2, 3), client="f", final=True)])
        == []
    )


def test_gaps_in_offsets_are_no_skips() -> None:
    """Markers and aborted records have offsets too."""
    assert kinds(send(1, at=0), send(2, at=5), poll((0, 1), (5, 2), final=True)) == []


def test_what_nobody_knows_may_be_there_or_not() -> None:
    assert kinds(send(1, outcome=UNKNOWN), poll((0, 1), final=True)) == []
    assert kinds(send(1, outcome=UNKNOWN), send(2), poll((0, 2), final=True)) == []


def test_a_rebalance_may_go_back() -> None:
    assert kinds(send(1, 2), poll((0, 1), (1, 2)), Repositioned("r"), poll((0, 1), (1, 2), final=True)) == []


def test_a_rebalance_of_one_partition_leaves_the_others_bound() -> None:
    history = [send(1, 2), poll((0, 1), (1, 2)), Repositioned("r", frozenset({Q})), poll((0, 1), (1, 2), final=True)]
    assert kinds(*history) == ["nonmonotonic-poll"]


def test_two_consumers_do_not_bind_each_other() -> None:
    assert kinds(send(1, 2), poll((0, 1), (1, 2)), poll((0, 1), client="s")) == []


@pytest.mark.parametrize(
    ("kind", "history"),
    [
        ("lost-write", [send(1, 2, 3), poll((0, 1), (2, 3))]),
        ("unseen", [send(1, 2), poll((0, 1), final=True)]),
        ("aborted-read", [send(1, outcome=FAIL), poll((0, 1))]),
        ("aborted-read", [Transaction("w", FAIL, (Write(P, 1),)), poll((0, 1))]),
        ("torn-transaction", [Transaction("w", UNKNOWN, (Write(P, 1), Write(P, 2))), poll((0, 1), final=True)]),
        ("duplicate", [send(1), poll((0, 1), (1, 1))]),
        ("inconsistent-offset", [send(1), poll((0, 2))]),
        ("nonmonotonic-poll", [send(1, 2), poll((1, 2), (0, 1))]),
        ("nonmonotonic-poll", [send(1, 2), poll((1, 2)), poll((0, 1))]),
        ("poll-skip", [send(1, 2, 3), poll((0, 1), (2, 3)), poll((1, 2), client="s")]),
        ("poll-skip", [send(1, 2, 3), poll((0, 1)), poll((2, 3)), poll((1, 2), client="s")]),
        ("nonmonotonic-send", [send(1, at=5), send(2, at=3), poll((3, 2), (5, 1), final=True)]),
    ],
)  # fmt: skip
def test_an_impossible_history_is_named(kind: str, history: list[Event]) -> None:
    assert kind in kinds(*history)


def test_a_committed_transaction_must_be_there_whole() -> None:
    both = Transaction("w", OK, (Write(P, 1, 0), Write(P, 2, 1)))
    assert kinds(both, poll((0, 1), (1, 2), final=True)) == []
    assert kinds(both, poll((1, 2), final=True)) == ["lost-write"]


def test_an_anomaly_says_where_and_what() -> None:
    (lost,) = check([send(1, 2), poll((1, 2))])
    assert lost == Anomaly("lost-write", P, "1 was acknowledged at 0; offsets up to 1 were read")


def test_a_skip_between_polls_says_so() -> None:
    skips = check([send(1, 2, 3), poll((0, 1)), poll((2, 3)), poll((1, 2), client="s")])
    assert "(external)" in skips[0].what
