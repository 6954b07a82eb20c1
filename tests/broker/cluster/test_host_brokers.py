"""The brokers of `streamactors broker --processes`: in which order they start and stop, and when one that has ended starts again.

Processes, signals and time are the test's."""

from __future__ import annotations

import signal
from types import SimpleNamespace
from typing import Any

import pytest

from streamactors.broker.cluster import host_brokers
from streamactors.broker.cluster.host_brokers import RESTART_S, STEADY_S, HostBroker, HostBrokers
from streamactors.broker.errors import BrokerStartError


class Child:
    """Runs until the test gives it an exit code."""

    def __init__(self, world: World, node_id: int) -> None:
        self.world, self.node_id = world, node_id
        self.pid = 1_000 + len(world.children)
        self.exit_code: int | None = None
        self.closed = 0

    def close(self) -> None:
        self.closed += 1
        self.world.events.append(("close", self.node_id))


class World:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 500.0
        self.events: list[Any] = []
        self.children: list[Child] = []
        self.refused: set[int] = set()
        self.handlers: dict[int, Any] = {}
        monkeypatch.setattr(host_brokers, "time", SimpleNamespace(monotonic=lambda: self.now_s))
        monkeypatch.setattr(host_brokers, "ChildBroker", self.start)
        monkeypatch.setattr(host_brokers.signal, "signal", self.handle)
        monkeypatch.setattr(host_brokers.signal, "getsignal", lambda number: self.handlers.get(number))

    def start(self, arguments: Any) -> Child:
        node_id = int(arguments["settings"]["node.id"])
        if node_id in self.refused:
            raise BrokerStartError("the port is taken")
        self.children.append(Child(self, node_id))
        self.events.append(("start", node_id))
        return self.children[-1]

    def handle(self, number: int, handler: Any) -> Any:
        before = self.handlers.get(number)
        self.handlers[number] = handler
        return before

    def brokers(self, *node_ids: int) -> HostBrokers:
        return HostBrokers([{"settings": {"node.id": str(each)}} for each in node_ids])


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


def turns(world: World, brokers: HostBrokers, *steps: Any) -> list[float | None]:
    """Serve; at each wait do one of the steps, and end behind the last. Return how long each wait would have been."""
    waits: list[float | None] = []
    left = list(steps)

    def wait(timeout_s: float | None = None) -> None:
        waits.append(None if timeout_s is None else pytest.approx(timeout_s))
        if left:
            left.pop(0)()
        else:
            brokers._signalled(signal.SIGTERM, None)

    brokers._wake = SimpleNamespace(wait=wait, clear=lambda: None, set=lambda: None)  # type: ignore[assignment]
    brokers.serve()
    return waits


def test_the_first_one_starts_first_and_stops_last(world: World) -> None:
    with world.brokers(1, 2, 3):
        assert world.events[0] == ("start", 1)
        assert sorted(world.events[1:]) == [("start", 2), ("start", 3)]
    assert sorted(world.events[3:5]) == [("close", 2), ("close", 3)]
    assert world.events[5:] == [("close", 1)]


def test_signals_are_handled_while_the_brokers_run_and_given_back(world: World) -> None:
    own = {signal.SIGTERM: "t", signal.SIGINT: "i", signal.SIGHUP: "h", signal.SIGCHLD: "c"}
    world.handlers = dict(own)  # type: ignore[arg-type]
    with world.brokers(1) as brokers:
        assert set(world.handlers.values()) == {brokers._signalled}
    assert world.handlers == own


def test_a_hang_up_that_is_ignored_stays_ignored(world: World) -> None:
    world.handlers = {signal.SIGHUP: signal.SIG_IGN}
    with world.brokers(1):
        assert world.handlers[signal.SIGHUP] == signal.SIG_IGN


@pytest.mark.parametrize(("refused", "started"), [(1, []), (2, [1])])
def test_a_start_that_fails_leaves_none_running(world: World, refused: int, started: list[int]) -> None:
    world.refused = {refused}
    with pytest.raises(BrokerStartError), world.brokers(1, 2):
        pass
    assert [each.node_id for each in world.children] == started
    assert all(each.closed == 1 for each in world.children)
    assert world.handlers == dict.fromkeys((signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD))


def test_brokers_that_run_are_waited_for_without_a_limit(world: World) -> None:
    with world.brokers(1, 2) as brokers:
        assert turns(world, brokers, lambda: brokers._signalled(signal.SIGCHLD, None)) == [None, None]
    assert len(world.children) == 2


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_the_command_and_the_end_of_a_process_does_not(world: World, number: signal.Signals) -> None:
    brokers = world.brokers(1)
    brokers._signalled(signal.SIGCHLD, None)
    assert not brokers._asked
    brokers._signalled(number, None)
    assert brokers._asked
    brokers._signalled(signal.SIGCHLD, None)
    assert brokers._asked
    brokers.serve()


def test_a_process_that_has_ended_starts_again_after_a_wait_that_doubles(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    def ends() -> None:
        world.children[-1].exit_code = 7

    def passes() -> None:
        world.now_s += waited[-1]

    waited = [RESTART_S[0] * 2**n for n in range(3)]
    with world.brokers(1) as brokers:
        steps = []
        for wait_s in waited:
            steps += [ends, lambda wait_s=wait_s: setattr(world, "now_s", world.now_s + wait_s)]
        assert turns(world, brokers, *steps) == [None, 0.5, None, 1.0, None, 2.0, None]
    assert [each.closed for each in world.children] == [1] * 4
    assert caplog.messages[:2] == [
        "broker 1: its process ended (exit code 7); it starts again in 0.5 s",
        "broker 1 runs again: process 1001",
    ]


@pytest.mark.expects_log("it starts again in", "runs again: process")
def test_a_start_that_fails_later_is_tried_again(world: World, caplog: pytest.LogCaptureFixture) -> None:
    broker = HostBroker({"settings": {"node.id": "4"}})
    world.refused = {4}
    waits = []
    for _ in range(9):
        broker.revive()
        waits.append(broker.due_at - world.now_s)
    assert waits == [0.5, 1, 2, 4, 8, 16, 30, 30, 30]
    assert RESTART_S == (0.5, 30.0)
    assert caplog.messages[0] == "broker 4: its start failed: the port is taken; it starts again in 0.5 s"
    world.refused = set()
    broker.revive()
    assert broker.child is world.children[0]


@pytest.mark.expects_log("it starts again in")
def test_the_wait_begins_anew_after_a_steady_run(world: World) -> None:
    broker = HostBroker({"settings": {"node.id": "4"}})
    for run_s, wait_s in ((1.0, 0.5), (STEADY_S, 1.0), (STEADY_S + 0.1, 0.5), (0.0, 1.0)):
        broker.start()
        broker.look()
        assert broker.child is not None
        world.now_s += run_s
        world.children[-1].exit_code = -9
        broker.look()
        assert (broker.child, broker.due_at) == (None, pytest.approx(world.now_s + wait_s))
    broker.stop()
    broker.look()
    assert broker.child is None


@pytest.mark.expects_log("it starts again in", "runs again: process")
def test_only_what_is_down_and_due_is_started_again(world: World) -> None:
    def end(at: int, code: int = 1) -> Any:
        return lambda: setattr(world.children[at], "exit_code", code)

    def passes(seconds: float) -> Any:
        return lambda: setattr(world, "now_s", world.now_s + seconds)

    with world.brokers(1, 2) as brokers:
        by_id = {each.node_id: at for at, each in enumerate(world.children)}
        waits = turns(world, brokers, end(by_id[1]), passes(0.2), end(by_id[2]), passes(0.3), passes(0.2))
    assert waits == [None, 0.5, 0.3, 0.3, 0.2, None]
    assert [each.node_id for each in world.children[2:]] == [1, 2]
