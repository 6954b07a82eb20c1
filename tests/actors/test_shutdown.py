"""The end of an actor system: which callbacks run, which actors the shutdown waits for, and which calls come too late."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from streamactors.actors.local_system import SystemStopped
from streamactors.actors.messages import (
    Actor,
    ActorExitRequest,
    ActorTypeDispatcher,
    ChildActorExited,
)
from streamactors.actors.system import ActorSystem
from streamactors.errors import ActorError
from tests.actors.actor_classes import Echo
from tests.actors.blocker import Blocker
from tests.actors.eventually import eventually


def test_shutdown_tells_actors_to_exit_and_parents_wait_for_their_children() -> None:
    order: list[str] = []

    class Child(ActorTypeDispatcher):
        def receiveMsg_ActorExitRequest(self, request: ActorExitRequest, sender: Any) -> None:
            order.append("child")

    class Parent(ActorTypeDispatcher):
        def receiveMsg_str(self, message: str, sender: Any) -> None:
            self.createActor(Child)
            self.send(sender, "created")

        def receiveMsg_ChildActorExited(self, exited: ChildActorExited, sender: Any) -> None:
            order.append("child exited")
            self.createActor(Child)  # refused while exiting: no actor would end the child

        def receiveMsg_ActorExitRequest(self, request: ActorExitRequest, sender: Any) -> None:
            order.append("parent")

    with ActorSystem("ordered") as system:
        assert system.ask(system.create_actor(Parent), "create").result(10) == "created"
    assert order == ["parent", "child", "child exited"]
    assert system.base.actors == []


@pytest.mark.parametrize("dispatcher", ["pool", "own", "shared"])
def test_shutdown_ends_within_a_second_and_names_the_actor_that_blocks(
    dispatcher: str, caplog: pytest.LogCaptureFixture
) -> None:
    gate, inside = threading.Event(), threading.Event()
    system = ActorSystem("blocked")
    system.spawn(Blocker(gate, inside), "the one that blocks", dispatcher=dispatcher).tell("block")
    system.spawn(Echo, "the one that does not")
    assert inside.wait(10)
    started = time.monotonic()
    system.shutdown(timeout=0.3)
    assert time.monotonic() - started < 60  # generous: only a hang must fail
    warnings = [record.message for record in caplog.records if "do not return" in record.message]
    assert len(warnings) == 1
    assert "the one that blocks" in warnings[0]
    assert "the one that does not" not in warnings[0]
    gate.set()
    eventually(lambda: not [thread for thread in threading.enumerate() if "block" in thread.name])


@pytest.mark.parametrize("dispatcher", ["pool", "own", "shared"])
def test_an_actor_that_blocks_longer_than_the_shutdown_hears_of_its_end_all_the_same(dispatcher: str) -> None:
    gate, inside = threading.Event(), threading.Event()
    heard: list[type] = []

    class Late(Blocker):
        def receiveMessage(self, message: Any, sender: Any) -> None:
            if isinstance(message, ActorExitRequest):
                self.refuse_letter(message)
            super().receiveMessage(message, sender)

        def refuse_letter(self, message: Any) -> None:
            heard.append(type(message))

    system = ActorSystem("longer")
    late = system.spawn(Late(gate, inside), dispatcher=dispatcher)
    late.tell("block")
    assert inside.wait(10)
    system.shutdown(timeout=0.1, quiet=True)
    assert heard == []
    gate.set()
    eventually(lambda: heard == [ActorExitRequest])
    late.tell("too late")
    eventually(lambda: heard == [ActorExitRequest, str])


def test_an_actor_that_moves_to_the_pool_while_the_system_ends_is_not_lost_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The shutdown gives up the actor's own thread as blocked -> the actor continues and moves to the pool -> the pool stops before its turn."""
    gate, inside, occupied, forever = (threading.Event() for _ in range(4))
    heard: list[type] = []

    class Mover(Blocker):
        actor_dispatcher = "own"

        def receiveMessage(self, message: Any, sender: Any) -> None:
            super().receiveMessage(message, sender)
            self._myRef.move(system.pool)

        def refuse_letter(self, message: Any) -> None:
            heard.append(type(message))

    system = ActorSystem("moved", max_threads=1)
    system.spawn(Blocker(forever, occupied)).tell("keep the pool's only thread")
    system.spawn(Mover(gate, inside)).tell("block")
    assert inside.wait(10)
    assert occupied.wait(10)
    stop = system.pool.stop

    def stop_when_it_waits_there(timeout: float) -> list[str]:
        gate.set()
        eventually(lambda: system.pool.cells_waiting)
        return stop(timeout)

    monkeypatch.setattr(system.pool, "stop", stop_when_it_waits_there)
    system.shutdown(timeout=0.1, quiet=True)
    assert heard == [ActorExitRequest]
    forever.set()


def test_after_shutdown_messages_are_dead_letters_and_creation_is_refused() -> None:
    system = ActorSystem("ended")
    echo = system.spawn(Echo)
    own = system.spawn(Echo, dispatcher="own")
    system.shutdown()
    system.shutdown()
    for ref in (echo, own):
        ref.tell("too late")
        ref.tell("too late again")
    assert system.dead_letters.count == 4
    with pytest.raises(ActorError, match="is stopped and did not answer"):
        system.ask(echo, "hello", timeout=None).result(0)
    for create in (system.spawn, system.create_actor):
        with pytest.raises(SystemStopped, match="'ended' is shut down"):
            create(Echo)
    with pytest.raises(SystemStopped):
        system.dispatcher("new")
    with pytest.raises(ActorError, match="shut down"):
        system.on_shutdown(print)


def test_shutdown_hooks_run_first_the_last_added_before_the_others(caplog: pytest.LogCaptureFixture) -> None:
    order: list[str] = []
    system = ActorSystem("hooked")
    echo = system.spawn(Echo)
    system.on_shutdown(lambda: order.append(system.ask(echo, "actors still answer").result(10)))
    system.on_shutdown(lambda: 1 / 0)
    system.on_shutdown(lambda: order.append("forgotten")).cancel()
    system.on_shutdown(lambda: order.append("last added"))
    system.shutdown()
    assert order == ["last added", "actors still answer"]
    assert "shutdown callback raised" in caplog.text


def test_an_actor_can_shut_its_system_down() -> None:
    class Ender(Actor):
        def receiveMessage(self, message: Any, sender: Any) -> None:
            if message == "end":
                self.actorSystemShutdown()

    system = ActorSystem("ended from within")
    system.spawn(Ender).tell("end")
    eventually(lambda: not system.running and system.pool.threads == 0)


def test_actors_that_talk_for_ever_do_not_keep_the_system_from_ending() -> None:
    class Talker(ActorTypeDispatcher):
        def receiveMsg_Actor(self, message: Any, sender: Any) -> None: ...

        def receiveMsg_int(self, message: int, sender: Any) -> None:
            self.send(sender if message else self.myAddress, message + 1)

    system = ActorSystem("talking")
    one, two = system.spawn(Talker), system.spawn(Talker)
    one.tell(1, two)
    one.tell(0)
    eventually(lambda: system.pool._taken > 100)
    system.shutdown(10)
    assert system.pool.threads == 0


def test_ten_thousand_actors_at_rest_and_their_end_is_not_a_leak() -> None:
    import gc
    import weakref

    with ActorSystem("many") as system:
        actors = [Echo() for _ in range(10_000)]
        refs = [system.spawn(actor) for actor in actors]
        assert system.pool.threads == 0
        gone = weakref.ref(actors[0])
        actors.clear()
        gc.disable()
        try:
            for ref in refs:
                ref.tell(ActorExitRequest())
            eventually(lambda: not system.base.actors)
            eventually(lambda: gone() is None)  # without the collector: no cycle is left behind
        finally:
            gc.enable()


@pytest.mark.parametrize("how", ["thespian", "an actor"])
def test_shutdown_hooks_run_whoever_ends_the_system(how: str) -> None:
    class Ender(Actor):
        def receiveMessage(self, message: Any, sender: Any) -> None:
            if message == "end":
                self.actorSystemShutdown()

    ran = threading.Event()
    system = ActorSystem("hooked")
    system.on_shutdown(ran.set)
    if how == "thespian":
        system.thespian.shutdown()
    else:
        system.spawn(Ender).tell("end")
    assert ran.wait(10)
    assert not system.running
    system.shutdown()


def test_an_ask_with_a_timeout_in_a_system_that_is_shut_down_fails_at_once() -> None:
    system = ActorSystem("ended")
    echo = system.spawn(Echo)
    system.shutdown()
    with pytest.raises(ActorError, match="is stopped and did not answer"):
        system.ask(echo, "hello").result(0)
