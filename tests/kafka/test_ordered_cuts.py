"""What windows in order of time have dropped at a stop is not committed by others that had it."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from streamactors.kafka.errors import ProducerFailed
from streamactors.kafka.transaction import RunTransaction
from streamactors.windows.keeper import Keeper

LEFT, RIGHT = ("s", "left"), ("s", "right")


class Stopped(Keeper):
    """A keeper whose stream was stopped while it held the rows from `dropped` on."""

    def __init__(self, dropped):
        self.stage = SimpleNamespace(name="windows", turns=SimpleNamespace(dropped_from=dropped))
        self.carried, self.follows = frozenset("s"), False

    def cut(self, target):
        pass


def test_a_stop_that_finds_two_computations_apart_commits_nothing():
    ahead, behind = Stopped({RIGHT: (1, 0)}), Stopped({LEFT: (1, 60)})
    transaction = RunTransaction(None)
    transaction._participants = [ahead, behind]
    transaction.on_reached(ahead, {LEFT: (1, 100)}, ended=True)
    with pytest.raises(ProducerFailed, match="the next run does it again"):
        transaction.on_reached(behind, {LEFT: (1, 60), RIGHT: (1, 50)}, ended=True)


def test_a_stop_that_finds_them_together_commits(monkeypatch):
    committed = []
    monkeypatch.setattr(RunTransaction, "_commit_when_others_are_done", lambda self, target: committed.append(target))
    one, two = Stopped({LEFT: (1, 60)}), Stopped({LEFT: (1, 60), RIGHT: (1, 50)})
    transaction = RunTransaction(None)
    transaction._participants = [one, two]
    at = {LEFT: (1, 60), RIGHT: (1, 50)}
    transaction.on_reached(one, at, ended=True)
    transaction.on_reached(two, at, ended=True)
    assert committed == [at]
