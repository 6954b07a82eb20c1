"""What windows in order of time have dropped at a stop is not committed by others that had it."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace

import pytest

from streamactors.engine.marks.part_state import PartState
from streamactors.kafka.errors import ProducerFailed
from streamactors.kafka.settings import ProducerSettings
from streamactors.kafka.transactions import run_transaction
from streamactors.kafka.transactions.run_transaction import RunTransaction
from streamactors.windows.stage.keeper import Keeper

LEFT, RIGHT = ("s", "left"), ("s", "right")


class Stopped(Keeper):
    """A keeper whose stream was stopped while it held the rows from `dropped` on."""

    def __init__(self, dropped):
        turns = SimpleNamespace(dropped_from=dropped)
        self.stage = SimpleNamespace(name="windows", state=SimpleNamespace(turns=turns))
        self.part_state = PartState(frozenset("s"))

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


class NotedProducer:
    """Does at once what it is told, and notes that it is closed."""

    def __init__(self):
        self.is_closed = False
        self.started = Future()
        self.started.set_result(None)

    def start(self):
        return self.started

    def call(self, fn, *arguments):
        fn(*arguments)
        return self.started

    def close(self, *, drop=False):
        self.is_closed = True


def test_a_part_that_stops_before_another_one_begins_the_transaction_has_left_it(monkeypatch):
    # A stage that failed to start had stopped the sink before the transaction began. It waited for the sink, and its producer stayed open.
    one, two = Stopped({}), Stopped({})
    transaction = transaction_of(one, two)
    transaction._settings = ProducerSettings("localhost:9092", transactional_id="tx")
    made = NotedProducer()
    monkeypatch.setattr(run_transaction, "producer_of", lambda settings, **how: made)
    for name in ("_let_keepers_join", "_begin"):
        monkeypatch.setattr(RunTransaction, name, lambda self: None)
    aborted = []
    monkeypatch.setattr(RunTransaction, "_abort", lambda self, error: aborted.append(error))
    transaction._run = SimpleNamespace(system=SimpleNamespace(member=None))
    error = ValueError("it cannot start")
    transaction.leave(one, error)
    transaction.start(lambda error: None)
    assert not made.is_closed
    transaction.leave(two, error)
    assert made.is_closed
    assert aborted[0] is error
