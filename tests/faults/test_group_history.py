"""The checker of groups itself: it accepts what a coordinator may do, and names every anomaly."""

from __future__ import annotations

import pytest

from tests.faults.kinds.group_history import (
    Acknowledged,
    Began,
    Committed,
    Delivered,
    Entered,
    Gone,
    GroupEvent,
    Owned,
    check_groups,
)

P = ("t", 0)


def owned(member: str, epoch: int) -> Owned:
    return Owned(member, "g", P, epoch)


def commit(member: str, epoch: int, offset: int, at: float, *, lost: bool = False) -> Committed:
    return Committed(member, "g", P, epoch, offset, at, None if lost else at + 0.1)


def began(member: str, offset: int, at: float) -> Began:
    return Began(member, "g", P, offset, at)


def got(member: str, at: float, count: int = 1, epoch: int | None = 3) -> Delivered:
    return Delivered(member, "g", P, 7, "v", count, at, at + 0.1, epoch, 30.0)


def ack(member: str, at: float, *, done: bool = True, lost: bool = False) -> Acknowledged:
    return Acknowledged(member, "g", P, 7, done, at, None if lost else at + 0.1)


def kinds(*events: GroupEvent, visible: set[object] | None = None, ledgers: dict[str, int] | None = None) -> list[str]:
    return [each.kind for each in check_groups(events, visible or set(), ledgers)]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "events",
    [
        [owned("a", 2), owned("b", 3), owned("a", 2)],
        [commit("a", 2, 5, 1.0), began("b", 5, 2.0)],
        [commit("a", 2, 5, 1.0, lost=True), began("b", 0, 2.0)],
        [commit("a", 2, 5, 1.0, lost=True), began("b", 5, 2.0)],
        [commit("a", 2, 5, 1.0), commit("b", 4, 6, 2.0)],
        [commit("a", 2, 5, 1.0), began("b", 0, 0.9)],  # asked before
        [got("a", 1.0), ack("a", 2.0)],
        [got("a", 1.0), ack("a", 2.0, done=False), got("b", 3.0, 2)],
        [got("a", 1.0), got("b", 40.0, 2)],  # the lock had ended
        [got("a", 1.0), got("b", 3.0, 1, epoch=4)],  # another leader
        [got("a", 1.0), Gone("a", "g", 2.0), got("b", 3.0, 1)],
        [got("a", 1.0), ack("a", 2.0, lost=True), got("b", 3.0, 1, epoch=None)],
    ],
)
def test_what_may_be_is_clean(events: list[GroupEvent]) -> None:
    assert kinds(*events) == []


@pytest.mark.parametrize(
    ("kind", "events"),
    [
        ("two-owners", [owned("a", 2), owned("b", 2)]),
        ("lost-commit", [commit("a", 2, 5, 1.0), began("b", 0, 2.0)]),
        ("unheard-commit", [commit("a", 2, 5, 1.0), began("b", 6, 2.0)]),
        ("zombie-commit", [commit("b", 4, 6, 1.0), commit("a", 2, 6, 2.0)]),
        ("redelivered", [got("a", 1.0), ack("a", 2.0), got("b", 3.0, 2)]),
        ("forgotten-deliveries", [got("a", 1.0), ack("a", 2.0, done=False), got("b", 3.0, 1)]),
        ("delivered-twice", [got("a", 1.0), got("b", 3.0, 2)]),
    ],
)
def test_what_may_not_be_is_named(kind: str, events: list[GroupEvent]) -> None:
    assert kinds(*events) == [kind]


def test_the_offset_of_a_transaction_is_there_with_its_records() -> None:
    entries = [Entered("ledger", 1, (10, 11)), Entered("ledger", 2, (12,))]
    assert kinds(*entries, visible={10, 11, 12}, ledgers={"ledger": 2}) == []
    assert kinds(*entries, visible={10, 11}, ledgers={"ledger": 1}) == []
    assert kinds(*entries, visible={10, 11}, ledgers={"ledger": 2}) == ["torn-offsets"]
    assert kinds(*entries, visible={10, 11, 12}, ledgers={"ledger": 1}) == ["torn-offsets"]
    assert kinds(ledgers={"ledger": 0}) == []
