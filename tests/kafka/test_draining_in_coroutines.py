"""Draining in a coroutine: `drain` is awaited and leaves the loop free, `drain_and_shutdown` says that it holds the loop up."""

from __future__ import annotations

import asyncio

import pytest

from streamactors import Sink
from streamactors.actors.futures import StreamFuture
from streamactors.actors.waits import WouldBlock
from streamactors.kafka import Consumer, Control, DrainingControl, NoopControl, Subscriptions


def test_a_coroutine_awaits_the_end_while_its_loop_runs_the_streams_coroutines(
    settings, topic_with, system, committed
) -> None:
    topic = topic_with("awaited", [b"%d" % i for i in range(50)])

    async def serve() -> list[str]:
        async def store(record):
            await asyncio.sleep(0.001)
            return record.value.decode()

        control = (
            Consumer.source(settings, Subscriptions.topics(topic))
            .map_async(4, store, loop=asyncio.get_running_loop())
            .to_mat(Sink.to_list(), DrainingControl.create)
            .run(system)
        )
        await control.started
        while (await control.ask_snapshot())["delivered"] < 50:
            await asyncio.sleep(0.01)
        with pytest.raises(WouldBlock, match=r"^drain_and_shutdown\(\) was called .*; await control.drain\(\) instead"):
            control.drain_and_shutdown(timeout=5)
        with pytest.raises(WouldBlock, match=r"^snapshot\(\) was called .*; await control.ask_snapshot\(\) instead"):
            control.snapshot()
        assert not control.is_draining
        async with asyncio.timeout(60):
            return await control.drain()

    assert asyncio.run(serve()) == [str(i) for i in range(50)]
    assert committed(topic) == {0: 50}


def test_the_future_has_the_streams_error_and_else_that_of_the_last_commit() -> None:
    async def drained(stream: Exception | None, consumer: Exception | None) -> object:
        control, done = Control(), StreamFuture("stream")
        future = control.drain(done)
        assert not future.done()
        for each, error in ((done, stream), (control.is_shutdown, consumer)):
            _ = each.try_complete(7) if error is None else each.try_fail(error)
        return await future

    assert asyncio.run(drained(None, None)) == 7
    for stream, consumer in [
        (KeyError("stream"), None),
        (KeyError("stream"), ValueError()),
        (None, KeyError("commit")),
    ]:
        with pytest.raises(KeyError):
            asyncio.run(drained(stream, consumer))
    assert NoopControl().drain().result(0) is None


def test_the_streams_error_is_raised_though_the_consumer_is_late() -> None:
    control, done = Control(), StreamFuture("stream")
    done.try_fail(KeyError("stream"))
    with pytest.raises(KeyError, match="stream"):
        control.drain_and_shutdown(done, timeout=0.01)


def test_a_call_that_holds_up_a_loop_is_named_in_the_log(caplog) -> None:
    async def wait() -> None:
        with pytest.raises(TimeoutError):
            Control().drain_and_shutdown(timeout=1.5)

    asyncio.run(wait())
    assert "result() of control.drain() has blocked the asyncio loop of its thread for 1 s" in caplog.text


def test_a_call_that_holds_up_no_loop_is_not_named(caplog) -> None:
    with pytest.raises(TimeoutError):
        Control().drain_and_shutdown(timeout=1.2)
    assert "blocked" not in caplog.text
