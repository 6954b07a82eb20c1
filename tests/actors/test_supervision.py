"""Supervision: the rules by themselves, then actors that fail under each of them, in virtual time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamactors.actors.address import ActorRef
from streamactors.actors.messages import Actor, ActorExitRequest, ActorTypeDispatcher, ChildActorExited, PoisonMessage
from streamactors.actors.running.failing import FailingActor
from streamactors.actors.running.running_actor import RunningActor, unwatch_actor, watch_actor
from streamactors.actors.running.supervision import ActorTerminated, Directive, FailureRecord, Supervision, Verdict
from streamactors.actors.system import ActorSystem
from streamactors.clock import VirtualClock
from tests.actors.actor_classes import Echo

pytestmark = pytest.mark.expects_log("failed: ValueError(")


# ---- the rules ----


def test_the_back_off_doubles_up_to_its_limit() -> None:
    strategy = Supervision.restart(min_backoff="100ms", max_backoff="1s", jitter=0)
    record = FailureRecord()
    delays = [record.judge(strategy, ValueError(), now_ms=k).delay_ms for k in range(6)]
    assert delays == [100, 200, 400, 800, 1_000, 1_000]


@given(draw=st.floats(0, 1), failures=st.integers(1, 2_000))
def test_the_jitter_adds_at_most_its_share(draw: float, failures: int) -> None:
    strategy = Supervision.restart(min_backoff="10ms", max_backoff="500ms", jitter=0.2)
    record = FailureRecord(restarts=failures - 1, last_failure_ms=0.0)
    delay = record.judge(strategy, ValueError(), 1.0, lambda: draw).delay_ms
    plain = min(500.0, 10 * 2.0 ** min(failures - 1, 60))
    assert plain <= delay <= plain * 1.2 + 1e-6


def test_after_the_last_restart_allowed_the_next_failure_stops() -> None:
    strategy = Supervision.restart(max_restarts=2, jitter=0)
    record = FailureRecord()
    directives = [record.judge(strategy, ValueError(), float(k)).directive for k in range(4)]
    assert directives == [Directive.RESTART, Directive.RESTART, Directive.STOP, Directive.STOP]


def test_a_child_that_has_worked_long_enough_starts_with_a_clean_record() -> None:
    strategy = Supervision.restart(min_backoff="100ms", jitter=0, max_restarts=1, within="1m")
    record = FailureRecord()
    assert record.judge(strategy, ValueError(), 0) == Verdict(Directive.RESTART, 100)
    assert record.judge(strategy, ValueError(), 60_001) == Verdict(Directive.RESTART, 100)
    assert record.judge(strategy, ValueError(), 60_002).directive is Directive.STOP


def test_the_error_decides() -> None:
    strategy = Supervision(lambda error: Directive.RESUME if isinstance(error, KeyError) else Directive.ESCALATE)
    assert FailureRecord().judge(strategy, KeyError(), 0).directive is Directive.RESUME
    assert FailureRecord().judge(strategy, OSError(), 0).directive is Directive.ESCALATE


@pytest.mark.parametrize(
    "settings",
    [
        {"min_backoff": 0},
        {"min_backoff": "2s", "max_backoff": "1s"},
        {"jitter": 2},
        {"jitter": -0.1},
        {"max_restarts": -1},
        {"within": 0},
        {"min_backoff": "soon"},
    ],
)
def test_settings_that_cannot_work_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"Supervision|duration"):
        Supervision.restart(**settings)


def test_a_decision_that_is_none_is_refused() -> None:
    with pytest.raises(TypeError, match="not a Directive"):
        FailureRecord().judge(Supervision(lambda error: "stop"), ValueError(), 0)  # type: ignore[arg-type,return-value]
    with pytest.raises(TypeError, match="function of the error"):
        Supervision("restart")  # type: ignore[arg-type]


# ---- actors ----

_log: list[Any] = []


@pytest.fixture
def log() -> list[Any]:
    _log.clear()
    return _log


class Child(Actor):
    """Notes what it gets; raises what is an exception."""

    made = 0

    def __init__(self) -> None:
        Child.made += 1
        self.number = Child.made

    def pre_restart(self, error: BaseException) -> None:
        _log.append(("pre_restart", self.number))

    def receiveMessage(self, message: Any, sender: Any) -> None:
        if isinstance(message, BaseException):
            raise message
        if isinstance(message, ActorExitRequest):
            _log.append(("exit", self.number))
        elif message == "grow":
            self.send(sender, self.createActor(Echo))
        else:
            _log.append((message, self.number))


class Parent(ActorTypeDispatcher):
    """Makes a child at "make" and answers with its address."""

    def receiveMsg_str(self, message: str, sender: Any) -> None:
        self.child = self.createActor(Child)
        self.send(sender, self.child)

    def receiveMsg_ChildActorExited(self, exited: ChildActorExited, sender: Any) -> None:
        _log.append(("child exited", exited.childAddress is self.child))

    def receiveMsg_PoisonMessage(self, poison: PoisonMessage, sender: Any) -> None:
        _log.append(("poison", str(poison.poisonMessage)))


class RestartingParent(Parent):
    supervision = Supervision.restart(min_backoff="1s", max_backoff="4s", jitter=0, max_restarts=3, within="1m")


class ResumingParent(Parent):
    supervision = Supervision.resume()


class StoppingParent(Parent):
    supervision = Supervision.stop()


class EscalatingParent(Parent):
    supervision = Supervision.escalate()


@pytest.fixture
def system(virtual: VirtualClock) -> Iterator[ActorSystem]:
    Child.made = 0
    with ActorSystem("supervised", clock=virtual) as system:
        yield system


def family(system: ActorSystem, parent_class: type[Actor]) -> tuple[ActorRef, ActorRef]:
    parent = system.create_actor(parent_class)
    return parent, system.ask(parent, "make", timeout=None).result(10)


def test_a_failed_child_is_restarted_after_the_back_off_at_the_same_address_and_loses_no_other_message(
    system: ActorSystem, virtual: VirtualClock, log: list[Any]
) -> None:
    parent, child = family(system, RestartingParent)
    child.tell("one")
    child.tell(ValueError("broken"), parent)
    child.tell("two")
    virtual.advance("999ms")
    child.tell("three")
    virtual.settle()
    assert log[0] == ("one", 1)
    assert set(log[1:]) == {("pre_restart", 1), ("poison", "broken")}  # on two threads, so in either order
    virtual.advance("1ms")
    assert log[3:] == [("two", 2), ("three", 2)]
    assert system.dead_letters.count == 0


def test_the_back_off_grows_and_after_the_last_restart_the_child_is_stopped(
    system: ActorSystem, virtual: VirtualClock, log: list[Any]
) -> None:
    _, child = family(system, RestartingParent)
    for wait_ms in (1_000, 2_000, 4_000):
        child.tell(ValueError())
        virtual.advance(f"{wait_ms - 1}ms")
        assert child._mailbox._life.value == "restarting"
        virtual.advance("1ms")
        assert child._mailbox._life.value == "alive"
    child.tell(ValueError())
    child.tell("late")
    virtual.settle()
    assert log[-1] == ("child exited", True)
    assert system.dead_letters.count == 1


def test_a_failure_while_held_messages_are_served_keeps_the_rest(
    system: ActorSystem, virtual: VirtualClock, log: list[Any]
) -> None:
    _, child = family(system, RestartingParent)
    for message in (ValueError(), "a", ValueError(), "b"):
        child.tell(message)
    virtual.advance("1s")
    assert [entry for entry in log if entry[0] in "ab"] == [("a", 2)]
    virtual.advance("2s")
    assert [entry for entry in log if entry[0] in "ab"] == [("a", 2), ("b", 3)]


def test_the_children_of_a_restarted_actor_exit(system: ActorSystem, virtual: VirtualClock, log: list[Any]) -> None:
    _, child = family(system, RestartingParent)
    grandchild = system.ask(child, "grow", timeout=None).result(10)
    child.tell(ValueError())
    virtual.advance("1s")
    assert grandchild not in system.base.actors
    assert child in system.base.actors
    assert not [entry for entry in log if entry[0] == "child exited"]


def test_a_child_can_be_told_to_exit_while_it_waits_for_its_restart(
    system: ActorSystem, virtual: VirtualClock, log: list[Any]
) -> None:
    _, child = family(system, RestartingParent)
    child.tell(ValueError())
    child.tell("held")
    child.tell(ActorExitRequest())
    virtual.advance("10s")
    assert log[-1] == ("child exited", True)
    assert system.dead_letters.count == 1
    assert Child.made == 1


@pytest.mark.expects_log("failed: RuntimeError(")
def test_a_restart_that_fails_is_a_failure(system: ActorSystem, virtual: VirtualClock, log: list[Any]) -> None:
    class Moody(Child):
        def __init__(self) -> None:
            super().__init__()
            if 1 < self.number < 4:
                raise RuntimeError("not today")

    moody = system.spawn(Moody, supervision=Supervision.restart(min_backoff="1s", max_backoff="1s", jitter=0))
    moody.tell(ValueError())
    moody.tell("kept")
    virtual.advance("2s")
    assert ("kept", 4) not in log
    virtual.advance("1s")
    assert log[-1] == ("kept", 4)


def test_a_resumed_child_keeps_its_state_and_skips_the_message(
    system: ActorSystem, virtual: VirtualClock, log: list[Any]
) -> None:
    parent, child = family(system, ResumingParent)
    child.tell("one")
    child.tell(ValueError("skipped"), parent)
    child.tell("two")
    virtual.settle()
    assert sorted(log) == [("one", 1), ("poison", "skipped"), ("two", 1)]


@pytest.mark.expects_log("failed: SystemExit(")
def test_a_stopped_child_is_reported_to_its_parent(system: ActorSystem, virtual: VirtualClock, log: list[Any]) -> None:
    _, child = family(system, StoppingParent)
    child.tell(SystemExit("even this"))
    child.tell("late")
    virtual.settle()
    assert log == [("child exited", True)]
    assert system.dead_letters.count == 1


def test_an_escalated_failure_is_the_parents_and_goes_up_until_somebody_decides(
    system: ActorSystem, virtual: VirtualClock, log: list[Any]
) -> None:
    class GrandParent(ActorTypeDispatcher):
        supervision = Supervision.restart(min_backoff="1s", jitter=0)

        def receiveMsg_str(self, message: str, sender: Any) -> None:
            self.send(sender, self.createActor(EscalatingParent))

    parent = system.ask(system.create_actor(GrandParent), "make", timeout=None).result(10)
    child = system.ask(parent, "make", timeout=None).result(10)
    child.tell(ValueError())
    virtual.settle()
    assert child not in system.base.actors
    assert parent._mailbox._life.value == "restarting"
    virtual.advance("1s")
    again = system.ask(parent, "make", timeout=None).result(10)
    again.tell("hello")
    virtual.settle()
    assert log[-1] == ("hello", 2)


def test_a_failure_that_nobody_is_left_to_judge_stops_the_actor(system: ActorSystem, virtual: VirtualClock) -> None:
    parent, child = family(system, EscalatingParent)
    child.tell(ValueError())
    virtual.settle()
    assert system.base.actors == []
    assert parent not in system.base.actors


@pytest.mark.expects_log("its supervision raised")
def test_a_strategy_that_raises_stops_the_actor(system: ActorSystem, virtual: VirtualClock) -> None:
    def undecided(error: BaseException) -> Directive:
        raise RuntimeError("cannot decide")

    actor = system.spawn(Child, supervision=Supervision(undecided))
    actor.tell(ValueError())
    virtual.settle()
    assert actor not in system.base.actors


def test_an_instance_cannot_be_restarted_and_is_stopped(system: ActorSystem, virtual: VirtualClock) -> None:
    actor = system.spawn(Child(), supervision=Supervision.restart())
    actor.tell(ValueError())
    virtual.advance("1m")
    assert actor not in system.base.actors


# ---- death watch ----


class Watcher(ActorTypeDispatcher):
    def receiveMsg_tuple(self, message: tuple[str, Any], sender: Any) -> None:
        what, target = message
        (watch_actor if what == "watch" else unwatch_actor)(self, target)

    def receiveMsg_ActorTerminated(self, terminated: ActorTerminated, sender: Any) -> None:
        _log.append(terminated.address.name)


def test_a_watcher_hears_of_the_end_once_however_it_came(
    system: ActorSystem, virtual: VirtualClock, log: list[Any]
) -> None:
    watcher = system.spawn(Watcher)
    asked, failed = system.spawn(Echo, "asked to exit"), system.spawn(Child, "failed")
    for target in (asked, failed, asked):
        watcher.tell(("watch", target))
    virtual.settle()
    asked.tell(ActorExitRequest())
    failed.tell(ValueError())
    virtual.settle()
    assert sorted(log) == ["asked to exit", "failed"]


class Mother(Actor):
    def receiveMessage(self, message: Any, sender: Any) -> None:
        message.append(self.createActor(Echo))


@pytest.mark.expects_log("failed: AttributeError(")
def test_a_watcher_hears_of_an_end_during_which_the_parent_lets_go_of_the_actor(
    system: ActorSystem, virtual: VirtualClock, log: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    # a parent that restarts does so on a thread of its own: between two looks at the parent there was one, and then none
    slot: Any = FailingActor.parent
    children: list[Any] = []

    def seen_once(actor: Any) -> Any:
        parent = slot.__get__(actor)
        if actor.address in children:
            slot.__set__(actor, None)
        return parent

    monkeypatch.setattr(RunningActor, "parent", property(seen_once, slot.__set__))
    system.spawn(Mother).tell(children)
    virtual.settle()
    system.spawn(Watcher).tell(("watch", children[0]))
    virtual.settle()
    children[0].tell(ActorExitRequest())
    virtual.settle()
    assert len([entry for entry in log if isinstance(entry, str)]) == 1


def test_watching_one_that_has_ended_is_answered_at_once(
    system: ActorSystem, virtual: VirtualClock, log: list[Any]
) -> None:
    gone = system.spawn(Echo, "gone")
    gone.tell(ActorExitRequest())
    virtual.settle()
    system.spawn(Watcher).tell(("watch", gone))
    virtual.settle()
    assert log == ["gone"]
    assert system.dead_letters.count == 0


def test_an_ended_watch_is_silent_and_a_restart_is_no_end(
    system: ActorSystem, virtual: VirtualClock, log: list[Any]
) -> None:
    watcher = system.spawn(Watcher)
    unwatched, restarted = system.spawn(Echo, "unwatched"), system.spawn(Child, supervision=Supervision.restart())
    for message in (("watch", unwatched), ("watch", restarted), ("unwatch", unwatched)):
        watcher.tell(message)
    virtual.settle()
    unwatched.tell(ActorExitRequest())
    restarted.tell(ValueError())
    virtual.advance("1m")
    assert [entry for entry in log if isinstance(entry, str)] == []
