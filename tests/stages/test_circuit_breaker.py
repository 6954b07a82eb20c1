"""CircuitBreaker around functions, and in map_async."""

from __future__ import annotations

import asyncio
import pickle
import threading
from concurrent.futures import Future
from typing import Any

import pytest

from streamactors import CircuitBreaker, CircuitOpen, CircuitTimeout
from streamactors.clock import VirtualClock
from streamactors.errors import BuildError
from streamactors.stages.asynchronous.map_async import MapAsync
from streamactors.stages.restart_settings import RestartSettings
from tests.stages.harness import Bench

opens = pytest.mark.expects_log("circuit pay is open for ")


class Service:
    """Fails while it is down, and counts its calls."""

    def __init__(self) -> None:
        self.down = True
        self.calls: list[Any] = []

    async def pay(self, x: Any) -> Any:
        """Pay x."""
        return self.pay_now(x)

    def pay_now(self, x: Any) -> Any:
        self.calls.append(x)
        if self.down:
            raise OSError("down")
        return x


def open_it(breaker: CircuitBreaker) -> None:
    """Two calls fail."""
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            breaker(lambda: 1 // 0)()
    assert breaker.state == "open"


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def breaker(clock: VirtualClock) -> CircuitBreaker:
    return CircuitBreaker(
        "pay", max_failures=2, call_timeout="1s", reset_timeout="10s", max_reset_timeout="30s", clock=clock
    )


@opens
@pytest.mark.parametrize("kind", ["coroutine", "plain", "future", "awaitable"])
def test_it_opens_after_failures_in_a_row_and_closes_after_a_trial(breaker, clock, kind):
    service = Service()

    def future(x: Any) -> Future[Any]:
        made: Future[Any] = Future()
        try:
            made.set_result(service.pay_now(x))
        except OSError as error:
            made.set_exception(error)
        return made

    fn: Any = {
        "coroutine": service.pay,
        "plain": service.pay_now,
        "future": future,
        "awaitable": lambda x: service.pay(x),
    }[kind]
    guarded = breaker(fn)

    def call(x: int) -> Any:
        async def in_loop() -> Any:
            return await guarded(x)

        return guarded(x) if kind == "plain" else asyncio.run(in_loop())

    for x in (1, 2):
        with pytest.raises(OSError, match="down"):
            call(x)
    assert breaker.state == "open"
    with pytest.raises(
        CircuitOpen,
        match="circuit pay is open after 2 failures in a row, so the call was not made; next trial in 10000 ms",
    ) as refused:
        call(3)
    assert (refused.value.name, refused.value.retry_after_ms) == ("pay", 10_000)
    assert service.calls == [1, 2]
    clock.advance("10s")
    with pytest.raises(OSError, match="down"):  # the trial
        call(4)
    assert breaker.snapshot().retry_after_ms == 20_000, "twice as long"
    clock.advance("20s")
    service.down = False
    assert call(5) == 5
    assert breaker.state == "closed"
    assert (breaker.snapshot().failures, breaker.snapshot().refused) == (0, 1)


@opens
def test_while_one_call_is_on_trial_others_are_refused(breaker, clock):
    async def scenario() -> None:
        release = asyncio.Event()

        async def slow(x: int) -> int:
            await release.wait()
            return x

        guarded = breaker(slow)
        open_it(breaker)
        clock.advance("10s")
        trial = asyncio.ensure_future(guarded(1))
        await asyncio.sleep(0)
        assert breaker.state == "half-open"
        with pytest.raises(CircuitOpen, match=r"circuit pay is half-open .*; a trial runs"):
            await guarded(2)
        release.set()
        assert await trial == 1
        assert breaker.state == "closed"

    asyncio.run(scenario())


@opens
def test_a_coroutine_that_lasts_too_long_is_cancelled_and_counts(clock):
    breaker = CircuitBreaker("pay", max_failures=1, call_timeout="20ms", clock=clock)
    cancelled = []

    @breaker
    async def slow() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.append(True)
            raise

    with pytest.raises(
        CircuitTimeout, match="circuit pay: a call lasted longer than call_timeout, 20 ms, and was cancelled"
    ):
        asyncio.run(slow())
    assert cancelled == [True]
    assert breaker.state == "open"


@opens
def test_a_blocking_call_that_lasts_too_long_returns_its_result_and_counts(clock):
    breaker = CircuitBreaker("pay", max_failures=1, call_timeout="1s", clock=clock)

    def slow(x: int) -> int:
        clock.advance("2s")
        return x

    assert breaker(slow)(3) == 3
    assert breaker.state == "open"


def test_a_timeout_of_the_function_itself_is_its_own(breaker):
    @breaker
    async def timed_out() -> None:
        raise TimeoutError("the server's")

    with pytest.raises(TimeoutError, match="the server's") as raised:
        asyncio.run(timed_out())
    assert not isinstance(raised.value, CircuitTimeout)
    assert breaker.snapshot().failures == 1


def test_a_success_between_failures_begins_the_count_again(breaker):
    service = Service()
    guarded = breaker(service.pay_now)
    for down in (True, False, True, False):
        service.down = down
        try:
            guarded(1)
        except OSError:
            pass
    assert breaker.state == "closed"


def test_errors_that_do_not_count_leave_it_closed(clock):
    breaker = CircuitBreaker("pay", max_failures=1, fails_on=lambda error: not isinstance(error, KeyError), clock=clock)
    guarded = breaker({}.__getitem__)
    for _ in range(3):
        with pytest.raises(KeyError):
            guarded("no such order")
    assert breaker.state == "closed"


@opens
def test_a_trial_that_is_cancelled_makes_the_next_call_the_trial(breaker, clock):
    async def scenario() -> None:
        async def forever() -> None:
            await asyncio.Event().wait()

        open_it(breaker)
        clock.advance("10s")
        trial = asyncio.ensure_future(breaker(forever)())
        await asyncio.sleep(0)
        trial.cancel()
        with pytest.raises(asyncio.CancelledError):
            await trial
        assert await breaker(answer)() == "answer"

    async def answer() -> str:
        return "answer"

    asyncio.run(scenario())
    assert breaker.state == "closed"


@opens
def test_threads_and_loops_share_one_breaker(clock):
    breaker = CircuitBreaker("pay", max_failures=40, reset_timeout="10s", clock=clock)
    service = Service()
    blocking, coroutine = breaker(service.pay_now), breaker(service.pay)

    def work(n: int) -> None:
        for _ in range(10):
            with pytest.raises((OSError, CircuitOpen)):
                blocking(n) if n % 2 else asyncio.run(coroutine(n))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert breaker.state == "open"
    assert len(service.calls) + breaker.snapshot().refused == 80
    assert len(service.calls) >= 40


@opens
def test_listeners_hear_each_move(breaker, clock):
    heard: list[str] = []
    breaker.on_change(lambda old, new: heard.append(f"{old} to {new}"))
    open_it(breaker)
    clock.advance("10s")
    breaker(lambda: 1)()
    assert heard == ["closed to open", "open to half-open", "half-open to closed"]


@pytest.mark.expects_log("circuit pay is open", "raised ZeroDivisionError")
def test_a_listener_that_raises_takes_no_result_and_no_error_away(breaker, clock):
    heard: list[str] = []
    breaker.on_change(lambda old, new: 1 // 0)
    breaker.on_change(lambda old, new: heard.append(new))
    open_it(breaker)
    clock.advance("10s")
    assert breaker(lambda: 1)() == 1
    assert heard == ["open", "half-open", "closed"]


def test_a_guarded_function_keeps_its_name_and_kind(breaker):
    guarded = breaker(Service().pay)
    assert (guarded.__name__, guarded.__doc__) == ("pay", "Pay x.")
    assert asyncio.iscoroutinefunction(guarded)
    assert not asyncio.iscoroutinefunction(breaker(Service().pay_now))


def test_a_breaker_in_another_process_begins_closed(breaker):
    breaker = CircuitBreaker("pay", max_failures=7)
    again = pickle.loads(pickle.dumps(breaker))
    assert repr(again) == "CircuitBreaker('pay', closed)"
    assert again._rules.max_failures == 7


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"name": ""}, "the name must be a string that is not empty, got ''"),
        ({"max_failures": 0}, "CircuitBreaker pay: max_failures must be at least 1"),
        ({"call_timeout": 0}, "CircuitBreaker pay: call_timeout must be more than 0"),
        ({"max_reset_timeout": "1s"}, "max_reset_timeout '1s' is shorter than reset_timeout '30s'"),
        ({"fails_on": 3}, "CircuitBreaker pay: fails_on expects a function, got int 3"),
    ],
)
def test_wrong_arguments_are_named(wrong, message):
    with pytest.raises(BuildError, match=message):
        CircuitBreaker(**{"name": "pay", **wrong})


# ── in a stream ───────────────────────────────────────────────────────────────────────────────────────────────────────


@opens
def test_an_open_circuit_fails_the_stream_without_a_retry(timeless, breaker):
    service = Service()
    with Bench(timeless, MapAsync(1, service.pay, breaker=breaker)) as bench:
        open_it(breaker)
        bench.request(1)
        bench.send(1)
        assert isinstance(bench.end, CircuitOpen)
        assert service.calls == []


@opens
def test_with_a_retry_elements_wait_for_the_circuit_and_use_up_no_attempt(timeless):
    # the service is down for a minute: far more refusals than attempts
    service = Service()
    breaker = CircuitBreaker("pay", max_failures=3, reset_timeout="20s", clock=timeless.clock)
    retry = RestartSettings("10ms", "1s", random_factor=0, max_restarts=4)
    with Bench(timeless, MapAsync(4, service.pay, retry=retry, breaker=breaker)) as bench:
        bench.request(20)
        bench.send(*range(8))
        bench.mark()
        bench.advance("50s")
        assert bench.received == []
        assert bench.marks == []
        assert "4 between two attempts, circuit pay is open" in bench.logic.snapshot_state()
        assert len(service.calls) < 10, "an open circuit makes no calls but trials"
        service.down = False
        bench.advance("30s")
        assert bench.received == [*range(8)]
        assert bench.marks == [8]
        bench.complete()
        assert bench.end == "completed"
    assert breaker.state == "closed"


@opens
def test_streams_share_a_breaker(timeless):
    service = Service()
    breaker = CircuitBreaker("pay", max_failures=1, clock=timeless.clock)
    with Bench(timeless, MapAsync(1, service.pay, breaker=breaker)) as first:
        first.request(1)
        first.send(1)
        assert isinstance(first.end, OSError)
    with Bench(timeless, MapAsync(1, service.pay_now, breaker=breaker)) as second:
        second.request(1)
        second.send(2)
        assert isinstance(second.end, CircuitOpen)
    assert service.calls == [1]
