"""The asyncio loop of a system: virtual time, the end, and waiting from inside a stage."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator

import pytest

from streamactors import ActorSystem, Sink, Source
from streamactors.actors.dispatching.spinning import EVENTLESS_ROUNDS, forget_spins, spins
from streamactors.engine.island.coroutines import loop_of, run_coroutine
from streamactors.errors import AbruptTermination


async def nap(seconds):
    await asyncio.sleep(seconds)
    return seconds


def test_a_coroutine_runs_and_its_result_or_error_comes_back(actor_system):
    assert run_coroutine(actor_system, nap(0)).result(30) == 0

    async def broken():
        raise KeyError("k")

    with pytest.raises(KeyError):
        run_coroutine(actor_system, broken()).result(30)
    assert loop_of(actor_system) is loop_of(actor_system)


@pytest.mark.parametrize("raised", [SystemExit(3), KeyboardInterrupt()])
def test_a_coroutine_that_raises_system_exit_ends_neither_the_loop_nor_its_thread(raised):
    # asyncio lets SystemExit and KeyboardInterrupt through its loop: the thread of the system's loop ended -> the stream of that
    # coroutine did not end, and every other stream with coroutines failed with "Event loop is closed"
    async def leaving():
        raise raised

    with ActorSystem("leaving") as system:
        other = run_coroutine(system, nap(0.05))
        with pytest.raises(type(raised)):
            run_coroutine(system, leaving()).result(30)
        assert other.result(30) == 0.05
        assert run_coroutine(system, nap(0)).result(30) == 0
    assert not any(thread.name == "leaving-asyncio" for thread in threading.enumerate())


def test_virtual_time_moves_sleeping_coroutines_in_order(actor_system, virtual_clock):
    order = []

    async def sleeper(hours):
        await asyncio.sleep(hours * 3600)
        order.append((hours, virtual_clock.now_ms()))

    futures = [run_coroutine(actor_system, sleeper(hours)) for hours in (3, 1, 2)]
    virtual_clock.advance("59m")
    assert order == []
    virtual_clock.advance("3h")
    assert order == [(hours, hours * 3_600_000) for hours in (1, 2, 3)]
    assert all(future.done() for future in futures)


def test_advance_waits_for_what_a_coroutine_does_after_its_sleep(actor_system, virtual_clock):
    async def chain():
        for _ in range(100):
            await asyncio.sleep(1)
            for _ in range(10):
                await asyncio.sleep(0)
        return "end"

    future = run_coroutine(actor_system, chain())
    virtual_clock.advance("100s")
    assert future.done()


def test_shutdown_cancels_what_runs_and_refuses_what_comes():
    entered, cancelled = threading.Event(), threading.Event()

    async def hangs():
        entered.set()
        try:
            await asyncio.sleep(3600)
        finally:
            cancelled.set()

    with ActorSystem() as system:
        future = run_coroutine(system, hangs())
        assert entered.wait(30)
        loop = loop_of(system)
    assert cancelled.wait(30)
    assert future.cancelled()
    with pytest.raises(AbruptTermination, match="has ended with its actor system"):
        loop.start(nap(0))
    assert "asyncio" not in " ".join(thread.name for thread in threading.enumerate() if thread.name == loop.name)


def test_cancelling_the_future_cancels_the_coroutine(actor_system):
    cancelled, entered = threading.Event(), threading.Event()

    async def hangs():
        entered.set()
        try:
            await asyncio.sleep(3600)
        finally:
            cancelled.set()

    future = run_coroutine(actor_system, hangs())
    assert entered.wait(30)
    future.cancel()
    assert cancelled.wait(30)


def test_a_loop_that_is_first_needed_while_the_system_shuts_down_refuses_and_leaves_no_thread():
    raised = []

    def when_shut_down():
        coroutine = nap(0)
        try:
            run_coroutine(system, coroutine)
        except Exception as error:
            raised.append(error)
        finally:
            coroutine.close()

    with ActorSystem("late-loop") as system:
        system.on_shutdown(when_shut_down)
    assert [type(error) for error in raised] == [AbruptTermination], raised
    assert not [thread.name for thread in threading.enumerate() if thread.name == "late-loop-asyncio"]


@pytest.mark.expects_log("must await what it waits for")
def test_a_loop_that_goes_round_without_an_event_and_without_a_sleep_is_named(actor_system: ActorSystem) -> None:
    async def waits_busily() -> str:
        while not spins():
            await asyncio.sleep(0)
        return "found"

    forget_spins()
    assert run_coroutine(actor_system, waits_busily()).result(60) == "found"
    (spin,) = spins()
    forget_spins()
    assert spin.kind == "asyncio loop"
    assert spin.seen == "ran in 20,000 rounds without a sleep and without an event"


def test_a_loop_whose_coroutines_give_and_take_elements_does_not_spin(actor_system: ActorSystem) -> None:
    async def numbers() -> AsyncIterator[int]:
        for n in range(2 * EVENTLESS_ROUNDS):
            await asyncio.sleep(0)
            yield n

    forget_spins()
    counted = Source.from_async_iterable(numbers()).run_with(Sink.count(), actor_system)
    assert counted.result(60) == 2 * EVENTLESS_ROUNDS
    assert not spins()
