"""Dead letters: counted, shown, logged without flooding, and never sent in circles."""

from __future__ import annotations

import sys
import threading
from typing import Any

import pytest
import thespian.actors

from streamactors.actors.dead_letters import DeadLetters
from streamactors.actors.messages import (
    Actor,
    ActorExitRequest,
    DeadEnvelope,
)
from streamactors.actors.system import ActorSystem
from streamactors.clock import VirtualClock
from tests.actors.actor_classes import Echo
from tests.actors.eventually import eventually


def test_sending_to_an_address_of_another_base_is_a_dead_letter(actor_system: ActorSystem) -> None:
    class Sender(Actor):
        def receiveMessage(self, message: Any, sender: Any) -> None:
            if message == "go":
                self.send(thespian.actors.ActorAddress("elsewhere"), "lost")
                self.send(sender, "sent")

    assert actor_system.ask(actor_system.spawn(Sender), "go").result(10) == "sent"
    assert actor_system.dead_letters.count == 1


def test_dead_letters_are_counted_shown_and_logged_without_flooding(caplog: pytest.LogCaptureFixture) -> None:
    with ActorSystem("letters", clock=VirtualClock()) as system:
        seen: list[DeadEnvelope] = []
        subscription = system.dead_letters.subscribe(seen.append)
        system.dead_letters.subscribe(lambda envelope: 1 / 0)
        echo = system.spawn(Echo)
        echo.tell(ActorExitRequest())
        for k in range(500):
            echo.tell(k)
        eventually(lambda: system.dead_letters.count == 500)
        assert [envelope.deadMessage for envelope in seen] == list(range(500))
        assert seen[0].deadAddress is echo
        subscription.cancel()
        echo.tell("unseen")
        eventually(lambda: system.dead_letters.count == 501)
        assert len(seen) == 500
    assert [record.message.partition(" for ")[0] for record in caplog.records if "is stopped" in record.message] == [
        "actor system 'letters': dead letter 1: int"
    ]
    assert sum("a subscriber of dead letters raised" in record.message for record in caplog.records) == 1


def test_the_first_ten_kinds_of_dead_letters_are_logged_at_once_and_the_rest_every_ten_seconds(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = VirtualClock()
    letters = DeadLetters("kinds", clock)
    kinds = [type(f"Kind{n}", (), {}) for n in range(15)]
    for kind in kinds:
        letters.publish(thespian.actors.ActorAddress("gone"), kind())
    clock.advance("10s")
    letters.publish(thespian.actors.ActorAddress("gone"), kinds[0]())
    assert [message.split()[6] for message in caplog.messages] == [*(f"Kind{n}" for n in range(10)), "Kind0"]
    assert caplog.messages[-1].endswith("(5 more since the last line)")


def test_an_answer_to_nobody_is_a_dead_letter(actor_system: ActorSystem) -> None:
    actor_system.tell(actor_system.spawn(Echo), "no answer wanted")
    actor_system.spawn(Echo).tell("nor here")
    eventually(lambda: actor_system.dead_letters.count == 2)


def test_a_dead_letter_that_its_handler_cannot_get_goes_round_no_more(actor_system: ActorSystem) -> None:
    class Handler(Actor):
        def receiveMessage(self, message: Any, sender: Any) -> None:
            if message == "handle":
                self.handleDeadLetters()
                self.send(sender, "handling")

    handler, echo = actor_system.spawn(Handler), actor_system.spawn(Echo)
    actor_system.ask(handler, "handle").result(10)
    for ref in (handler, echo):
        ref.tell(ActorExitRequest())
    eventually(lambda: not actor_system.base.actors)
    echo.tell("lost")
    handler.tell("lost too")
    eventually(lambda: actor_system.dead_letters.count == 2)


def test_no_subscription_of_two_threads_is_lost() -> None:
    letters = DeadLetters("many subscribe", VirtualClock())
    begin = threading.Barrier(4)
    each: list[list[Any]] = [[] for _ in range(4)]

    def subscribe(mine: list[Any]) -> None:
        begin.wait(30)
        for _ in range(300):
            mine.append(letters.subscribe(lambda _: None))
            letters.subscribe(lambda _: None).cancel()

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=subscribe, args=(mine,)) for mine in each]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
    finally:
        sys.setswitchinterval(interval)
    assert set(letters._subscriptions) == {subscription for mine in each for subscription in mine}
