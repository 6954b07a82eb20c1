"""Topics that clients need and the controller refuses: one request for all clients, a pause, and one warning."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from streamactors.broker.controller import auto_creation as module
from streamactors.broker.controller.auto_creation import FIRST_PAUSE_MS, LONGEST_PAUSE_MS, AutoCreation
from streamactors.broker.controller.command import AutoCreate, Outcome, TopicCreated
from streamactors.broker.errors import ErrorCode

pytestmark = pytest.mark.expects_log("which clients need, cannot be created")


REFUSED = TopicCreated(Outcome(ErrorCode.INVALID_REPLICATION_FACTOR, "3 replicas, and 2 brokers"))
MADE = TopicCreated(Outcome())


class Rig:
    """A node whose controller answers when the test wants it."""

    def __init__(self) -> None:
        self.now_ms = 0.0
        self.tick_ms = 0.0
        """How far each look at the clock moves it."""
        self.brokers = [1, 2]
        self.asked: list[tuple[AutoCreate, Callable[[Any], object]]] = []
        image = SimpleNamespace(live_brokers=lambda: self.brokers)
        node: Any = SimpleNamespace(
            clock=SimpleNamespace(now_ms=self.look),
            metadata=SimpleNamespace(image=image),
            active_controller=SimpleNamespace(submit=lambda command, reply: self.asked.append((command, reply))),
        )
        self.creation = AutoCreation(node)
        self.found: list[dict[str, TopicCreated]] = []

    def look(self) -> float:
        now_ms, self.now_ms = self.now_ms, self.now_ms + self.tick_ms
        return now_ms

    def need(self, *names: str) -> None:
        self.creation.create(names, lambda found: self.found.append(dict(found)))

    def answer(self, created: TopicCreated) -> None:
        command, reply = self.asked.pop(0)
        reply(dict.fromkeys(command.names, created))


def test_clients_that_need_the_same_topic_wait_for_one_request() -> None:
    rig = Rig()
    rig.need("t")
    rig.need("u", "t")
    assert [command.names for command, _ in rig.asked] == [("t",), ("u",)]
    rig.answer(MADE)
    assert rig.found == [{"t": MADE}]
    rig.answer(MADE)
    assert rig.found[1:] == [{"t": MADE, "u": MADE}]


def test_a_refused_topic_is_not_asked_for_again_within_the_pause(caplog: pytest.LogCaptureFixture) -> None:
    # A broker in a cluster of two needed __transaction_state with three replicas: 128 CreateTopics requests in 13 s, and no line in the log.
    rig = Rig()
    requests = 0
    for _ in range(130):  # clients ask each 100 ms
        rig.need("t")
        if rig.asked:
            requests += 1
            rig.answer(REFUSED)
        rig.now_ms += 100
    assert rig.found == [{"t": REFUSED}] * 130
    assert requests == 5  # after 0, 0.5, 1.5, 3.5 and 7.5 s
    assert caplog.text.count("topic t, which clients need, cannot be created: 3 replicas, and 2 brokers") == 1


def test_the_pause_grows_to_its_bound_and_ends_with_a_success() -> None:
    rig = Rig()
    pauses = []
    for _ in range(8):
        rig.need("t")
        rig.answer(REFUSED)
        began = rig.now_ms
        while not rig.asked:
            rig.now_ms += 50
            rig.need("t")
        pauses.append(rig.now_ms - began)
        rig.answer(REFUSED)
        rig.now_ms += 2 * LONGEST_PAUSE_MS
    assert pauses[0] == FIRST_PAUSE_MS
    assert max(pauses) == LONGEST_PAUSE_MS
    rig.need("t")
    rig.answer(MADE)
    rig.need("t")
    assert rig.asked, "a success ends the pause"


def test_another_broker_ends_the_pause() -> None:
    rig = Rig()
    rig.need("t")
    rig.answer(REFUSED)
    rig.need("t")
    assert rig.asked == []
    rig.brokers = [1, 2, 3]
    rig.need("t")
    assert len(rig.asked) == 1


def test_another_reason_is_logged_too_and_the_failures_are_bounded(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "MOST_FAILURES", 2)
    rig = Rig()
    for code in (ErrorCode.INVALID_REPLICATION_FACTOR, ErrorCode.POLICY_VIOLATION):
        rig.now_ms += LONGEST_PAUSE_MS
        rig.need("t")
        rig.answer(TopicCreated(Outcome(code)))
    assert [record.getMessage().count("cannot be created") for record in caplog.records] == [1, 1]
    for name in ("u", "v"):
        rig.need(name)
        rig.answer(REFUSED)
    rig.need("t")
    assert len(rig.asked) == 1, "the oldest failure is forgotten"


def test_a_pause_that_ends_while_a_request_is_judged_leaves_it_not_without_an_answer() -> None:
    # The pause lasts: the topic is not asked for -> the pause is over: its failure is not passed on either -> the request waited forever.
    rig = Rig()
    rig.need("t")
    rig.answer(REFUSED)
    rig.now_ms, rig.tick_ms = FIRST_PAUSE_MS - 0.1, 0.2
    rig.need("t")
    assert rig.found == [{"t": REFUSED}] * 2
