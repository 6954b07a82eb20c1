"""What the consumer's actor does at once when it is told something: it delivers and polls, and does not wait for its next tick."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from streamactors.kafka.reading.consumer_actor import ConsumerActor
from streamactors.kafka.reading.messages import (
    HoldBack,
    PausePartitions,
    RequestRecords,
    ResumePartitions,
    StartAt,
    StopAtEnd,
)
from streamactors.kafka.subscriptions import TopicPartition

A, B = TopicPartition("a", 0), TopicPartition("a", 1)


class Noted:
    """Notes every call of any name."""

    def __init__(self, calls: list[Any]) -> None:
        self._calls = calls

    def __getattr__(self, name: str) -> Any:
        return lambda *arguments: self._calls.append((name, *arguments))


def told(message: Any, *, starving: bool = False, hungry: bool = False, by_user: set[Any] | None = None) -> list[Any]:
    """Return what the actor's parts are called with, in order."""
    calls: list[Any] = []
    pausing = SimpleNamespace(
        by_user=by_user if by_user is not None else set(), hold_back=lambda keys: calls.append(("hold_back", keys))
    )
    state = SimpleNamespace(
        pausing=pausing,
        starving=starving,
        hungry=hungry,
        requested=lambda feed, n: calls.append(("requested", feed, n)),
    )
    actor: Any = object.__new__(ConsumerActor)
    actor._context = SimpleNamespace(state=state)
    actor._polling = actor._rebalances = actor._bounded = Noted(calls)
    handler = {
        RequestRecords: actor._on_request,
        StartAt: actor._on_start_at,
        HoldBack: actor._on_hold_back,
        PausePartitions: actor._on_pause,
        ResumePartitions: actor._on_resume,
        StopAtEnd: actor._on_stop_at_end,
    }[type(message)]
    handler(message)
    return calls


DELIVERS: list[Any] = [("deliver",), ("soon",)]


def test_a_pause_ends_at_once() -> None:
    paused = {A, B}
    assert told(ResumePartitions((A,)), by_user=paused) == DELIVERS
    assert paused == {B}


def test_a_pause_counts_from_the_next_delivery_on() -> None:
    paused = {B}
    assert told(PausePartitions((A,)), by_user=paused) == []
    assert paused == {A, B}


def test_a_start_and_what_is_held_back_are_looked_at_at_once() -> None:
    start: Any = object.__new__(StartAt)
    assert told(start) == [("start_at", start), *DELIVERS]
    assert told(HoldBack(frozenset({A}))) == [("hold_back", {A}), *DELIVERS]


@pytest.mark.parametrize(("starving", "hungry"), [(False, False), (True, False), (False, True)])
def test_demand_is_met_with_what_is_there_and_polls_when_that_is_little(starving: bool, hungry: bool) -> None:
    feed: Any = object()
    calls = told(RequestRecords(feed, 5), starving=starving, hungry=hungry)
    assert calls == [("requested", feed, 5), ("deliver",), *([("soon",)] if starving or hungry else [])]


def test_an_end_that_is_asked_for_is_looked_for_at_once() -> None:
    assert told(StopAtEnd()) == [("begin_at_end",), ("soon",)]
