"""A dispatcher's loop: functions, timers, file descriptors, and what goes wrong in them."""

from __future__ import annotations

import logging
import threading

import pytest

from streamactors.actors.dispatching.dispatcher import Dispatcher, DispatcherStopped
from streamactors.actors.threads import current_owner
from streamactors.clock import VirtualClock
from tests.actors.eventually import eventually
from tests.actors.on_loop import on_loop


def test_functions_run_in_order_on_the_loop_thread(dispatcher: Dispatcher) -> None:
    seen: list[int] = []
    for k in range(5_000):
        dispatcher.execute(lambda k=k: seen.append(k))
    assert on_loop(dispatcher, dispatcher.in_thread) is True
    assert not dispatcher.in_thread()
    assert seen == list(range(5_000))


def test_the_loop_thread_knows_whose_it_is(dispatcher: Dispatcher) -> None:
    assert on_loop(dispatcher, current_owner) == "test-dispatcher"
    assert current_owner() is None


def test_functions_of_many_threads_all_run(dispatcher: Dispatcher) -> None:
    seen: list[int] = []

    def give(base: int) -> None:
        for k in range(1_000):
            dispatcher.execute(lambda k=k: seen.append(base + k))

    threads = [threading.Thread(target=give, args=(base * 1_000,)) for base in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    on_loop(dispatcher, int)
    assert len(seen) == 4_000


@pytest.mark.parametrize("error", [ValueError("no"), SystemExit(3), KeyboardInterrupt()])
def test_an_error_is_logged_with_the_function_and_the_loop_goes_on(
    dispatcher: Dispatcher, caplog: pytest.LogCaptureFixture, error: BaseException
) -> None:
    def failing_function() -> None:
        raise error

    def failing_timer() -> None:
        raise error

    with caplog.at_level(logging.ERROR, "streamactors.actors"):
        dispatcher.execute(failing_function)
        dispatcher.call_later(0, failing_timer)
        fired = threading.Event()
        dispatcher.call_later(0, fired.set)
        assert fired.wait(10)
    for name in ("failing_function", "failing_timer"):
        assert caplog.text.count(f"{name} raised {type(error).__name__}") == 1
    assert "test-dispatcher" in caplog.text


def test_a_function_that_fails_again_and_again_is_logged_once_a_second(
    dispatcher: Dispatcher, caplog: pytest.LogCaptureFixture
) -> None:
    def failing_function() -> None:
        raise ValueError("again")

    for _ in range(100):
        dispatcher.execute(failing_function)
    on_loop(dispatcher, int)
    assert caplog.text.count("failing_function raised ValueError") == 1


def test_timers_fire_in_order_of_deadline_then_of_setting(dispatcher: Dispatcher) -> None:
    # Set on the loop: if the loop fired one while a slow test thread was still setting the others, the order would be another.
    fired: list[str] = []
    done = threading.Event()

    def set_all() -> None:
        now = dispatcher.clock.now_ms()
        dispatcher.call_at(now + 20, done.set)
        dispatcher.call_at(now + 10, lambda: fired.append("b1"))
        dispatcher.call_at(now + 5, lambda: fired.append("a"))
        dispatcher.call_at(now + 10, lambda: fired.append("b2"))

    dispatcher.execute(set_all)
    assert done.wait(10)
    assert fired == ["a", "b1", "b2"]


def test_a_timer_never_fires_early(dispatcher: Dispatcher) -> None:
    lateness: list[float] = []
    done = threading.Event()
    for delay in (0.3, 1.7, 5.2):
        deadline = dispatcher.clock.now_ms() + delay
        dispatcher.call_at(deadline, lambda d=deadline: lateness.append(dispatcher.clock.now_ms() - d))
    dispatcher.call_later(8, done.set)
    assert done.wait(10)
    assert len(lateness) == 3
    assert min(lateness) >= 0


def test_an_earlier_timer_from_another_thread_wakes_the_loop(dispatcher: Dispatcher) -> None:
    dispatcher.call_later(3_600_000, int)
    on_loop(dispatcher, int)
    fired = threading.Event()
    dispatcher.call_later(1, fired.set)
    assert fired.wait(10)
    assert dispatcher.pending_timers == 1


def test_a_timer_is_cancelled_from_any_thread_exactly_once(dispatcher: Dispatcher) -> None:
    timer = dispatcher.call_later(3_600_000, lambda: pytest.fail("fired although cancelled"))
    assert on_loop(dispatcher, timer.cancel) is True
    assert timer.cancel() is False
    assert dispatcher.pending_timers == 0


def test_timers_set_and_cancelled_by_many_threads_are_counted_exactly(dispatcher: Dispatcher) -> None:
    fired: list[int] = []

    def churn() -> None:
        for k in range(2_000):
            timer = dispatcher.call_later(k % 7, lambda: fired.append(1))
            if k % 2:
                cancelled.append(timer.cancel())

    cancelled: list[bool] = []
    threads = [threading.Thread(target=churn) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    done = threading.Event()
    dispatcher.call_later(10, done.set)
    assert done.wait(10)
    assert len(fired) + sum(cancelled) == 6_000
    assert dispatcher.pending_timers == 0


def test_stop_runs_what_is_queued_and_then_refuses() -> None:
    dispatcher = Dispatcher("d")
    gate, seen = threading.Event(), []
    dispatcher.execute(gate.wait)
    for k in range(3_000):
        dispatcher.execute(lambda k=k: seen.append(k))
    stopper = threading.Thread(target=dispatcher.stop)
    stopper.start()
    gate.set()
    stopper.join()
    assert len(seen) == 3_000
    with pytest.raises(DispatcherStopped, match="'d' is stopped"):
        dispatcher.execute(int)
    for delay in (1, 1, 1_000):
        with pytest.raises(DispatcherStopped):
            dispatcher.call_later(delay, int)
    assert dispatcher.pending_timers == 0
    with pytest.raises(DispatcherStopped):
        dispatcher.start()
    assert dispatcher.stop()


def test_a_dispatcher_that_was_never_used_has_no_thread_and_stops() -> None:
    dispatcher = Dispatcher("never used")
    assert not [thread for thread in threading.enumerate() if thread.name == "never used"]
    assert not dispatcher.running
    assert dispatcher.stop()


def test_stop_from_its_own_thread_ends_it() -> None:
    dispatcher = Dispatcher("d")
    dispatcher.execute(lambda: dispatcher.stop())
    eventually(lambda: not dispatcher.running)
    assert dispatcher.stop()


def test_stop_says_when_a_callback_does_not_return() -> None:
    dispatcher = Dispatcher("d")
    gate = threading.Event()
    dispatcher.execute(gate.wait)
    assert dispatcher.stop(0.01) is False
    gate.set()
    assert dispatcher.stop(10) is True


def test_timers_follow_virtual_time(virtual: VirtualClock) -> None:
    dispatcher = Dispatcher("v", virtual)
    times: list[float] = []

    def tick() -> None:
        times.append(virtual.now_ms())
        dispatcher.call_later(1_000, tick)

    dispatcher.call_later(1_000, tick)
    virtual.advance("1h")
    assert times == [1_000.0 * k for k in range(1, 3_601)]
    virtual.advance("999ms")
    assert len(times) == 3_600
    assert dispatcher.stop()


@pytest.mark.timeout(20)
def test_virtual_time_passes_many_timers_of_one_distant_moment(virtual: VirtualClock) -> None:
    """From 65 timers of a coarse slot on, the wheel names the time at which the slot opens; the loop still slept until the first timer.

    So `advance` moved to the slot's opening again and again, and never came back."""
    dispatcher = Dispatcher("v", virtual)
    times: list[float] = []
    for _ in range(100):
        dispatcher.call_later(1_500, lambda: times.append(virtual.now_ms()))
    virtual.advance("2s")
    assert times == [1_500.0] * 100
    assert dispatcher.stop()


def test_cells_of_a_dispatcher_take_turns_on_its_thread(dispatcher: Dispatcher) -> None:
    seen: list[tuple[str, int]] = []
    done = threading.Event()

    def receive(name: str, left: int) -> None:
        assert dispatcher.in_thread()
        seen.append((name, left))
        if left:
            cells[name].tell(left - 1)
        elif len(seen) == 6:
            done.set()

    cells = {name: dispatcher.spawn(lambda left, name=name: receive(name, left), name) for name in "ab"}
    gate = threading.Event()
    dispatcher.execute(gate.wait)
    for cell in cells.values():
        cell.tell(2)
    gate.set()
    assert done.wait(10)
    assert seen == [("a", 2), ("b", 2), ("a", 1), ("b", 1), ("a", 0), ("b", 0)]


def test_an_error_handler_that_raises_is_logged_and_the_cell_goes_on(
    dispatcher: Dispatcher, caplog: pytest.LogCaptureFixture
) -> None:
    def broken_handler(cell: object, error: BaseException) -> None:
        raise RuntimeError("handler broken too")

    served = threading.Event()
    cell = dispatcher.spawn(lambda message: served.set() if message else 1 / 0, "cell", on_error=broken_handler)
    cell.tell(0)
    cell.tell(1)
    assert served.wait(10)
    assert "cell: its error handler raised" in caplog.text


@pytest.mark.parametrize("deadline", [float("nan"), float("inf")])
def test_a_timer_without_a_time_is_refused_and_leaves_nothing_behind(dispatcher: Dispatcher, deadline: float) -> None:
    with pytest.raises(ValueError, match="finite"):
        dispatcher.call_at(deadline, int)
    assert dispatcher.pending_timers == 0
    fired = threading.Event()
    dispatcher.call_later(1, fired.set)
    assert fired.wait(10)


def test_a_timer_of_a_year_leaves_the_loop_running(dispatcher: Dispatcher) -> None:
    # epoll refuses timeouts of more than 24 days: a tick of "30d", or a clock that jumps back, ended the thread
    timer = dispatcher.call_later(365 * 86_400_000, int)
    fired = threading.Event()
    dispatcher.call_later(50, fired.set)
    assert fired.wait(10)
    assert timer.cancel()
    slept = on_loop(dispatcher, lambda: dispatcher.call_later(365 * 86_400_000, int))
    eventually(lambda: dispatcher.quiet_since() is not None)
    assert on_loop(dispatcher, lambda: "still here") == "still here"
    assert slept.cancel()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_loop_that_fails_is_logged_and_refuses_work_with_the_reason(
    dispatcher: Dispatcher, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_loop(dispatcher, int)
    monkeypatch.setattr(dispatcher, "_sleep_s", lambda: 1e12)  # no poller takes it
    with caplog.at_level(logging.CRITICAL, "streamactors.actors"):
        dispatcher.execute(int)
        eventually(lambda: not dispatcher.running)
    assert "has ended by an error of its loop: OverflowError" in caplog.text
    with pytest.raises(DispatcherStopped, match="error of its loop: OverflowError"):
        dispatcher.execute(int)
