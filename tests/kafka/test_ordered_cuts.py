"""What windows in order of time have dropped at a stop is not committed by others that had it."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from streamactors.engine.marks.part_state import PartState
from streamactors.kafka.errors import ProducerFailed
from streamactors.kafka.transactions.run_transaction import RunTransaction
from streamactors.windows.stage.keeper import Keeper

LEFT, RIGHT = ("s", "left"), ("s", "right")


class Stopped(Keeper):
    """A keeper whose stream was stopped while it held the rows from `dropped` on."""

    def __init__(self, dropped):
        self.stage = SimpleNamespace(name="windows", turns=SimpleNamespace(dropped_from=dropped))
        self.standing = PartState(frozenset("s"))

    def cut(self, target):
        pass


def transaction_of(*keepers):
    transaction = RunTransaction(SimpleNamespace(progress=None))
    for keeper in keepers:
        transaction._cut.add(keeper)
        transaction._keepers.append(keeper)
    return transaction


def test_a_stop_that_finds_two_computations_apart_commits_nothing():
    ahead, behind = Stopped({RIGHT: (1, 0)}), Stopped({LEFT: (1, 60)})
    transaction = transaction_of(ahead, behind)
    transaction.on_reached(ahead, {LEFT: (1, 100)}, ended=True)
    with pytest.raises(ProducerFailed, match="the next run does it again"):
        transaction.on_reached(behind, {LEFT: (1, 60), RIGHT: (1, 50)}, ended=True)


def test_a_stop_that_finds_them_together_commits(monkeypatch):
    committed = []
    monkeypatch.setattr(RunTransaction, "_settle", lambda self, target: committed.append(target))
    one, two = Stopped({LEFT: (1, 60)}), Stopped({LEFT: (1, 60), RIGHT: (1, 50)})
    transaction = transaction_of(one, two)
    at = {LEFT: (1, 60), RIGHT: (1, 50)}
    transaction.on_reached(one, at, ended=True)
    transaction.on_reached(two, at, ended=True)
    assert committed == [at]
