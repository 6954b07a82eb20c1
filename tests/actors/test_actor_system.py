"""The actor system: creating, asking, dispatchers, isolation, the end."""

from __future__ import annotations

import copy
import logging
import pickle
import threading
from typing import Any

import pytest
import thespian.actors
from thespian.system.messages.status import Thespian_StatusReq

from streamactors.actors.external import AskTimeout
from streamactors.actors.local_system import LocalSystemBase
from streamactors.actors.messages import (
    Actor,
    ActorExitRequest,
    ActorTypeDispatcher,
    InvalidActorSpecification,
    NoCompatibleSystemForActor,
    PoisonMessage,
    WakeupMessage,
    requireCapability,
)
from streamactors.actors.system import ActorSystem
from streamactors.actors.threads import current_owner
from streamactors.actors.waits import WouldBlock
from streamactors.clock import VirtualClock
from streamactors.errors import ActorError
from tests.actors.actor_classes import Alarm, Echo, Failing, Worker
from tests.actors.blocker import Blocker
from tests.actors.eventually import eventually
from tests.own_process import own_process


class Owner(Actor):
    """Answers with the name of the thread owner."""

    def receiveMessage(self, message: Any, sender: Any) -> None:
        if message == "owner":
            self.send(sender, current_owner())


class OwnOwner(Owner):
    actor_dispatcher = "own"


@own_process
def test_starting_a_system_starts_no_thread_and_leaving_it_ends_all() -> None:
    before = set(threading.enumerate())
    with ActorSystem("lazy") as system:
        assert set(threading.enumerate()) == before
        assert system.ask(system.create_actor(Echo), 1).result(10) == 1
        assert set(threading.enumerate()) != before
        assert system.running
    assert not system.running
    assert set(threading.enumerate()) == before


def test_a_message_is_passed_by_reference(actor_system: ActorSystem) -> None:
    message = {"some": ["mutable", "thing"]}
    assert actor_system.ask(actor_system.spawn(Echo), message).result(10) is message


def test_spawn_takes_an_instance_a_class_and_a_factory(actor_system: ActorSystem) -> None:
    for what in (Echo(), Echo, lambda: Echo()):
        assert actor_system.ask(actor_system.spawn(what), 5).result(10) == 5


def test_a_name_is_given_or_made(actor_system: ActorSystem) -> None:
    assert actor_system.spawn(Echo, "my echo").name == "my echo"
    first, second = actor_system.spawn(Echo), actor_system.spawn(Echo)
    assert "Echo" in first.name
    assert first.name != second.name
    assert first.name in str(first)


def test_addresses_are_equal_only_to_themselves_hashable_and_survive_deepcopy(actor_system: ActorSystem) -> None:
    one, two = actor_system.spawn(Echo), actor_system.spawn(Echo)
    assert {one: 1, two: 2}[one] == 1
    assert one != two
    assert copy.deepcopy([one])[0] is one
    assert copy.copy(one) is one
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(one)


def test_an_ask_nobody_answers_fails_after_its_timeout(virtual: VirtualClock) -> None:
    with ActorSystem("asked", clock=virtual) as system:
        future = system.ask(system.create_actor(Worker), 5, timeout="2s")
        virtual.advance("1999ms")
        assert not future.done()
        virtual.advance("1ms")
        with pytest.raises(AskTimeout, match="Worker-1 did not answer within 2000 ms"):
            future.result(0)
        assert system.timers.pending_timers == 0


def test_an_answer_cancels_the_timeout(actor_system: ActorSystem) -> None:
    assert actor_system.ask(actor_system.spawn(Echo), 1, timeout="1h").result(10) == 1
    eventually(lambda: actor_system.timers.pending_timers == 0)


def test_asking_a_stopped_actor_fails_at_once(actor_system: ActorSystem) -> None:
    echo = actor_system.spawn(Echo)
    echo.tell(ActorExitRequest())
    with pytest.raises(ActorError, match="is stopped and did not answer"):
        actor_system.ask(echo, "hello", timeout=None).result(10)


@pytest.mark.expects_log("returned as poison", "trying once more")
def test_asking_an_actor_that_fails_on_the_message_says_why(actor_system: ActorSystem) -> None:
    with pytest.raises(ActorError, match=r"(?s)failed on str.*told to fail"):
        actor_system.ask(actor_system.create_actor(Failing), "fail", timeout=None).result(10)


def test_asking_an_address_of_another_kind_is_an_error(actor_system: ActorSystem) -> None:
    with pytest.raises(ActorError, match="not the address of an actor in this process"):
        actor_system.ask(thespian.actors.ActorAddress("elsewhere"), 1)
    with pytest.raises(ActorError, match="is not the address"):
        actor_system.tell("an actor", 1)  # type: ignore[arg-type]


def test_an_actor_runs_where_it_asks_to(actor_system: ActorSystem) -> None:
    def owner(ref: Any) -> Any:
        return actor_system.ask(ref, "owner").result(10)

    assert owner(actor_system.create_actor(Owner)) == actor_system.pool.name
    assert owner(actor_system.create_actor(Owner, dispatcher="files")) == "test-files"
    assert owner(actor_system.create_actor(Owner, requirements={"dispatcher": "files"})) == "test-files"
    own = actor_system.create_actor(OwnOwner)
    assert owner(own) == own.name
    assert owner(actor_system.create_actor(OwnOwner, dispatcher="pool")) == actor_system.pool.name
    assert owner(actor_system.spawn(Owner, dispatcher="own")) != actor_system.pool.name
    assert actor_system.dispatcher("files") is actor_system.dispatcher("files")


def test_a_dispatcher_of_ones_own_ends_with_the_actor_and_later_messages_are_dead_letters(
    actor_system: ActorSystem,
) -> None:
    own = actor_system.create_actor(OwnOwner)
    actor_system.ask(own, "owner").result(10)
    assert any(thread.name == own.name for thread in threading.enumerate())
    own.tell(ActorExitRequest())
    own.tell("at its end")
    eventually(lambda: not any(thread.name == own.name for thread in threading.enumerate()))
    own.tell("after it")
    eventually(lambda: actor_system.dead_letters.count == 2)


def test_a_blocked_actor_stalls_no_other(actor_system: ActorSystem) -> None:
    gate, inside = threading.Event(), threading.Event()
    actor_system.spawn(Blocker(gate, inside)).tell("block")
    assert inside.wait(10)
    for _ in range(10):
        assert actor_system.ask(actor_system.spawn(Echo), 1).result(10) == 1
    gate.set()


def test_init_gets_the_arguments_it_names() -> None:
    class Curious(Actor):
        def __init__(self, requirements: Any = None, capabilities: Any = None) -> None:
            self.known = (requirements, capabilities["Thespian ActorSystem Name"])

        def receiveMessage(self, message: Any, sender: Any) -> None:
            if message == "known":
                self.send(sender, self.known)

    with ActorSystem() as system:
        curious = system.create_actor(Curious, requirements={"a": 1})
        assert system.ask(curious, "known").result(10) == ({"a": 1}, "streamactors")


def test_what_cannot_be_created_is_an_error_where_it_was_asked_for(actor_system: ActorSystem) -> None:
    class Broken(Actor):
        def __init__(self) -> None:
            raise RuntimeError("broken from the start")

    @requireCapability("a fast disk")
    class Demanding(Actor):
        pass

    with pytest.raises(RuntimeError, match="broken from the start"):
        actor_system.create_actor(Broken)
    with pytest.raises(NoCompatibleSystemForActor):
        actor_system.create_actor(Demanding)
    with pytest.raises(InvalidActorSpecification):
        actor_system.create_actor(int)
    with pytest.raises(InvalidActorSpecification):
        actor_system.create_actor("NoModule")
    with pytest.raises(InvalidActorSpecification, match="dispatcher"):
        actor_system.create_actor(Echo, requirements={"dispatcher": 5})
    actor_system.base.updateCapability("a fast disk", True)
    assert actor_system.create_actor(Demanding)


def test_wakeups_due_together_arrive_in_the_order_set(virtual: VirtualClock) -> None:
    with ActorSystem("woken", clock=virtual) as system:
        future = system.ask(system.create_actor(Alarm), [(50, str(k)) for k in range(1_000)], timeout=None)
        virtual.advance("49ms")
        assert not future.done()
        virtual.advance("1ms")
        assert [payload for payload, _, _ in future.result(0)] == [str(k) for k in range(1_000)]


def test_an_hour_of_wakeups_in_virtual_time(virtual: VirtualClock) -> None:
    class Ticker(ActorTypeDispatcher):
        ticks = 0

        def receiveMsg_str(self, message: str, sender: Any) -> None:
            self.wakeupAfter(1)

        def receiveMsg_WakeupMessage(self, wakeup: WakeupMessage, sender: Any) -> None:
            Ticker.ticks += 1
            self.wakeupAfter(1)

    with ActorSystem("ticking", clock=virtual) as system:
        system.spawn(Ticker).tell("start")
        virtual.advance("1h")
        assert Ticker.ticks == 3_600


def test_two_systems_share_nothing() -> None:
    with ActorSystem("one") as one, ActorSystem("two") as two:
        assert one.thespian._systemBase is not two.thespian._systemBase
        assert one.thespian._systemBase is one.base
        first = one.create_actor(Worker, global_name="worker")
        second = two.create_actor(Worker, global_name="worker")
        assert first is not second
        assert one.ask(first, "count").result(10) == 1
        assert two.ask(second, "count").result(10) == 1
        one.shutdown()
        assert two.ask(second, "count").result(10) == 2


def test_two_thespian_systems_on_two_bases_share_nothing() -> None:
    systems = [thespian.actors.ActorSystem(LocalSystemBase(f"s{k}"), transientUnique=True) for k in range(2)]
    workers = [system.createActor(Worker, globalName="worker") for system in systems]
    assert [system.ask(worker, "count", 10) for system, worker in zip(systems, workers, strict=True)] == [1, 1]
    for system in systems:
        system.shutdown()


def test_source_archives_are_refused(actor_system: ActorSystem) -> None:
    with pytest.raises(ActorError, match="loads no code"):
        actor_system.thespian.loadActorSource("somewhere.zip")


def test_waiting_inside_an_actor_for_an_answer_raises_instead_of_hanging(actor_system: ActorSystem) -> None:
    class Waiter(Actor):
        def receiveMessage(self, message: Any, sender: Any) -> None:
            if message == "wait":
                try:
                    actor_system.ask(self.myAddress, "hello").result()
                except WouldBlock as error:
                    self.send(sender, str(error))

    assert "would wait for itself" in actor_system.ask(actor_system.spawn(Waiter), "wait").result(10)


@pytest.mark.expects_log("failed: ValueError(")
def test_an_instance_that_fails_gets_no_second_try(actor_system: ActorSystem) -> None:
    failing = Failing()
    ref = actor_system.spawn(failing)
    answer = actor_system.ask(ref, "fail", timeout=None)
    with pytest.raises(ActorError, match="told to fail"):
        answer.result(10)
    eventually(lambda: not actor_system.base.actors)
    assert failing.calls == 1


@pytest.mark.expects_log("failed: ValueError(")
def test_a_poison_message_to_a_thespian_asker(actor_system: ActorSystem) -> None:
    answer = actor_system.thespian.ask(actor_system.spawn(Failing), "fail", 10)
    assert isinstance(answer, PoisonMessage)


def test_a_bad_name_is_refused() -> None:
    with pytest.raises(ActorError, match="name"):
        ActorSystem("")


def test_logging_names_an_actor_that_fails(actor_system: ActorSystem, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        actor_system.spawn(Failing, "fragile").tell("fail")
        eventually(lambda: "fragile failed: ValueError('told to fail'); stop" in caplog.text)


def test_an_actor_tells_its_status_without_being_bothered(actor_system: ActorSystem) -> None:
    class Parent(ActorTypeDispatcher):
        def receiveMsg_str(self, message: str, sender: Any) -> None:
            self.send(sender, self.createActor(Echo))

    parent = actor_system.create_actor(Parent)
    child = actor_system.ask(parent, "make").result(10)
    status = actor_system.ask(parent, Thespian_StatusReq()).result(10)
    assert status.childActors == [child]
    assert status.actorAddress is parent


def test_no_convention_and_no_sources_are_said_or_ignored_as_thespian_does(actor_system: ActorSystem) -> None:
    outcome: list[str] = []

    class Curious(ActorTypeDispatcher):
        def receiveMsg_str(self, message: str, sender: Any) -> None:
            self.notifyOnSystemRegistrationChanges()
            self.preRegisterRemoteSystem("elsewhere", {})
            self.deRegisterRemoteSystem("elsewhere")
            self.notifyOnSourceAvailability()
            self.updateCapability("colour", "red")
            for refused in (
                self.registerSourceAuthority,
                lambda: self.loadActorSource("x"),
                lambda: self.unloadActorSource("x"),
            ):
                try:
                    refused()
                except ActorError as error:
                    outcome.append(str(error))
            self.send(sender, "done")

    assert actor_system.ask(actor_system.spawn(Curious), "go").result(10) == "done"
    assert len(outcome) == 3
    assert all("loads no code" in text for text in outcome)
    assert actor_system.base.capabilities["colour"] == "red"
    actor_system.base.updateCapability("colour")
    assert "colour" not in actor_system.base.capabilities


class Mover(Actor):
    """Answers with the name of its thread, and takes its next turns on the dispatcher that a message names."""

    actor_dispatcher = "own"

    def receiveMessage(self, message: Any, sender: Any) -> None:
        if message == "to the pool":
            self._myRef.move(self._myRef.base.pool)
        elif message == "home":
            self._myRef.move(self._myRef.home)
        elif message == "again":
            self.send(self.myAddress, ("answer", sender))
            self._myRef.move(self._myRef.home)
        elif isinstance(message, tuple):
            self.send(message[1], threading.current_thread().name)
        else:
            self.send(sender, threading.current_thread().name)


def test_an_actor_with_a_dispatcher_of_its_own_moves_to_the_pool_and_home_again() -> None:
    with ActorSystem("moving") as system:
        ref = system.spawn(Mover(), "mover")

        def where(message: str = "where") -> str:
            answer: str = system.ask(ref, message, timeout="30s").result(30)
            return answer

        assert where() == "mover"
        ref.tell("to the pool")
        eventually(lambda: "pool" in where())  # what waited in the same turn is still served at home
        assert where("again") == "mover", "what it told itself in the turn in which it moved is served at home"
        assert where() == "mover"
        ref.tell("to the pool")
        eventually(lambda: "pool" in where())
        assert "mover" in {thread.name for thread in threading.enumerate()}
        ref.tell(ActorExitRequest())
        eventually(lambda: "mover" not in {thread.name for thread in threading.enumerate()})
