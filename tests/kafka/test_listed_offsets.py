"""A broker that answers late, beside one that never answers: how long each attempt waits for offsets."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest

from streamactors.kafka.client.connection import ck
from streamactors.kafka.client.offsets import listed_offsets as module
from streamactors.kafka.client.offsets.listed_offsets import ListedOffset, listed_offsets
from streamactors.kafka.subscriptions import TopicPartition

KEY = TopicPartition("rows", 0)


class Clock:
    """Time that passes in `sleep` and in requests."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class Client:
    """Answers a request that may take `needs_s`; every other one is over after its timeout."""

    def __init__(self, clock: Clock, needs_s: float) -> None:
        self.clock = clock
        self.needs_s = needs_s
        self.timeouts: list[float] = []

    def list_offsets(self, wanted: Any, *, isolation_level: Any, request_timeout: float) -> Any:
        self.timeouts.append(request_timeout)
        self.clock.sleep(min(request_timeout, self.needs_s))
        answer: Future[Any] = Future()
        if request_timeout < self.needs_s:
            answer.set_exception(ck.KafkaException(ck.KafkaError(ck.KafkaError._TIMED_OUT)))
        else:
            answer.set_result(SimpleNamespace(offset=7, leader_epoch=3))
        return dict.fromkeys(wanted, answer)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    return clock


def asked(client: Client) -> Any:
    return listed_offsets(client, {KEY: None}, None, again=lambda: client)[KEY]


def test_a_slow_broker_answers_the_second_attempt(clock: Clock) -> None:
    # A machine with a load of 25: each client needed more than 2.5 s for its connection and the answer -> no attempt of 2.5 s had one
    client = Client(clock, needs_s=4.0)
    assert asked(client) == ListedOffset(7, 3)
    assert client.timeouts == [2.5, 5.0]


def test_a_broker_that_never_answers_is_given_up_when_the_time_of_a_request_is_over(clock: Clock) -> None:
    client = Client(clock, needs_s=1e9)
    assert isinstance(asked(client), ck.KafkaException)
    assert client.timeouts == pytest.approx([2.5, 5.0, 2.1])
    assert clock.now == pytest.approx(10.0)
