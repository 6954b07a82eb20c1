"""The same actor classes, unchanged, on our base and on Thespian's multiprocTCPBase."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import pytest
from thespian.actors import ActorExitRequest, ActorSystem, PoisonMessage

from streamactors.actors.local_system import LocalSystemBase
from streamactors.broker.cluster.reserved_ports import free_port
from tests.actors import actor_classes as actors

PATIENCE_S = 20


@pytest.fixture(params=["streamactors", "multiprocTCPBase"])
def system(request: pytest.FixtureRequest) -> Iterator[Any]:
    if request.param == "streamactors":
        system = ActorSystem(LocalSystemBase("both"), transientUnique=True)
    else:
        system = ActorSystem(
            "multiprocTCPBase", {"Admin Port": free_port()}, logDefs={"version": 1}, transientUnique=True
        )
    yield system
    system.shutdown()


def test_echo(system: Any) -> None:
    echo = system.createActor(actors.Echo)
    for message in ("hello", 7, {"a": [1, None]}, b"bytes"):
        assert system.ask(echo, message, PATIENCE_S) == message


def test_an_actor_given_by_its_name(system: Any) -> None:
    assert system.ask(system.createActor("tests.actors.actor_classes.Echo"), "hello", PATIENCE_S) == "hello"


def test_wakeups_arrive_in_order_with_their_payload(system: Any, request: pytest.FixtureRequest) -> None:
    alarm = system.createActor(actors.Alarm)
    heard = system.ask(alarm, [(60, "third"), (5, "first"), (30, "second")], PATIENCE_S)
    if request.node.callspec.params["system"] == "multiprocTCPBase":
        # Thespian delivers wakeups that are due together in the order in which they were set: on a slow machine that is another.
        heard.sort(key=lambda wakeup: wakeup[1])
    assert heard == [("first", 5, True), ("second", 30, True), ("third", 60, True)]


def test_a_parent_replaces_a_child_that_exited(system: Any) -> None:
    boss = system.createActor(actors.Boss)
    assert system.ask(boss, "work", PATIENCE_S) == ("count", 1)
    assert system.ask(boss, "work", PATIENCE_S) == ("count", 2)
    assert system.ask(boss, "die", PATIENCE_S) == ("deaths", 1)
    assert system.ask(boss, "work", PATIENCE_S) == ("count", 1)
    assert system.ask(boss, "die", PATIENCE_S) == ("deaths", 2)
    assert system.ask(boss, "work", PATIENCE_S) == ("count", 1)


@pytest.mark.expects_log("returned as poison", "trying once more")
def test_a_message_that_fails_is_tried_twice_and_returned_as_poison_and_the_actor_lives_on(system: Any) -> None:
    failing = system.createActor(actors.Failing)
    poison = system.ask(failing, "fail", PATIENCE_S)
    assert isinstance(poison, PoisonMessage)
    assert poison.poisonMessage == "fail"
    assert "told to fail" in poison.details
    assert system.ask(failing, "calls", PATIENCE_S) == 3


@pytest.mark.expects_log("trying once more")
def test_a_message_that_fails_once_is_served_by_the_second_try(system: Any) -> None:
    failing = system.createActor(actors.Failing)
    assert system.ask(failing, "fail once", PATIENCE_S) == 2


def test_dead_letters_reach_the_actor_that_handles_them(system: Any) -> None:
    undertaker = system.createActor(actors.Undertaker)
    assert system.ask(undertaker, "make and kill a child", PATIENCE_S) == "are you there?"
    assert system.ask(undertaker, "letters", PATIENCE_S) == ["are you there?"]


@pytest.mark.expects_log("cannot create its child")
def test_a_child_that_cannot_start_exits_for_its_parent(system: Any) -> None:
    assert system.ask(system.createActor(actors.ParentOfCannotStart), "try", PATIENCE_S) == "child exited"


def test_handlers_by_type_go_up_the_classes_of_the_message_and_of_the_actor(system: Any) -> None:
    handler = system.createActor(actors.DogHandler)
    assert system.ask(handler, actors.Animal(), PATIENCE_S) == "base saw Animal"
    assert system.ask(handler, actors.Dog(), PATIENCE_S) == "dog handler passes on"
    assert system.listen(PATIENCE_S) == "base saw Dog"
    assert system.ask(handler, 5, PATIENCE_S) == "unrecognized int"


def test_a_global_name_stands_for_one_actor(system: Any) -> None:
    first, second = system.createActor(actors.Namesake), system.createActor(actors.Namesake)
    assert system.ask(first, "count", PATIENCE_S) == 1
    assert system.ask(second, "count", PATIENCE_S) == 2
    assert system.ask(system.createActor(actors.Worker, globalName="the one worker"), "count", PATIENCE_S) == 3


def test_children_exit_with_their_parent(system: Any) -> None:
    family = system.createActor(actors.Family)
    child = system.ask(family, "grow", PATIENCE_S)
    assert system.ask(child, "here", PATIENCE_S) == "here"
    system.tell(family, ActorExitRequest())
    for _ in range(200):  # each base takes its own time to end an actor
        if system.ask(child, "still here?", 0.05) is None:
            return
    pytest.fail("the child outlived its parent")


def test_a_socket_server_on_thespian_watch(system: Any) -> None:
    port = system.ask(system.createActor(actors.SocketEcho), "listen", PATIENCE_S)
    clients = [socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) for _ in range(3)]
    for turn in range(3):
        for number, client in enumerate(clients):
            message = f"{turn} from {number}".encode()
            client.sendall(message)
            assert client.recv(100) == message
    clients.pop().close()
    clients[0].sendall(b"others go on")
    assert clients[0].recv(100) == b"others go on"
    for client in clients:
        client.close()


def test_a_troupe_shares_the_work(system: Any) -> None:
    crew = system.createActor(actors.Crew)
    for number in range(1, 11):
        system.tell(crew, number)
    assert sorted(system.listen(PATIENCE_S) for _ in range(10)) == [2 * number for number in range(1, 11)]


def test_private_contexts_get_their_own_answers(system: Any) -> None:
    echo = system.createActor(actors.Echo)
    with system.private() as one, system.private() as two:
        one.tell(echo, "for one")
        two.tell(echo, "for two")
        assert two.listen(PATIENCE_S) == "for two"
        assert one.listen(PATIENCE_S) == "for one"
    assert system.listen(0.01) is None


def test_an_ask_that_nobody_answers_ends_with_none(system: Any) -> None:
    assert system.ask(system.createActor(actors.Alarm), "no handler for this", 0.05) is None
