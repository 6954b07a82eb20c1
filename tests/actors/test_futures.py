"""StreamFuture: waits on threads and event loops, and refuses to wait for itself."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading

import pytest

from streamactors import log_limit
from streamactors.actors import futures
from streamactors.actors.dispatching.dispatcher import Dispatcher
from streamactors.actors.futures import StreamFuture, UnreadFailure
from streamactors.actors.pool.elastic_pool import ElasticPool
from streamactors.actors.waits import WouldBlock


def test_a_thread_waits_for_the_result() -> None:
    future: StreamFuture[int] = StreamFuture()
    threading.Timer(0.01, future.set_result, [42]).start()
    assert future.result(timeout=10) == 42
    assert future.exception() is None


def test_a_result_that_does_not_come_is_a_timeout() -> None:
    with pytest.raises(TimeoutError, match=r"a snapshot: no result after 0\.001 s; it still runs"):
        StreamFuture("a snapshot").result(timeout=0.001)
    with pytest.raises(TimeoutError, match=r"the stream: no result after 0\.001 s"):
        StreamFuture().exception(timeout=0.001)


def test_a_timeout_that_is_the_result_is_raised_as_it_is() -> None:
    future: StreamFuture[int] = StreamFuture()
    future.set_exception(TimeoutError("idle for 5 s"))
    with pytest.raises(TimeoutError, match=r"^idle for 5 s$"):
        future.result(timeout=10)


def test_it_can_be_awaited_in_any_event_loop() -> None:
    async def wait_for(future: StreamFuture[int]) -> int:
        return await future

    for _ in range(2):
        future: StreamFuture[int] = StreamFuture()
        threading.Timer(0.01, future.set_result, [7]).start()
        assert asyncio.run(wait_for(future)) == 7


def test_awaiting_a_failed_one_raises_its_error() -> None:
    async def wait_for(future: StreamFuture[int]) -> int:
        return await future

    future: StreamFuture[int] = StreamFuture()
    future.set_exception(ValueError("broken"))
    with pytest.raises(ValueError, match="broken"):
        asyncio.run(wait_for(future))


@pytest.mark.parametrize("before", [True, False])
def test_awaiting_one_that_failed_with_stop_iteration_raises_a_runtime_error(before: bool) -> None:
    # `map(lambda x: next(rows))` fails a stream with StopIteration. asyncio refuses this error, so the coroutine that awaited the stream
    # was never woken
    async def wait_for(future: StreamFuture[int]) -> int:
        if before:
            future.set_exception(error)
        else:
            asyncio.get_running_loop().call_soon(future.set_exception, error)
        return await asyncio.wait_for(future, 10)

    error = StopIteration("no rows left")
    future: StreamFuture[int] = StreamFuture()
    with pytest.raises(RuntimeError, match="no rows left") as caught:
        asyncio.run(wait_for(future))
    assert caught.value.__cause__ is error
    assert future.exception() is error


def test_a_task_that_waits_is_cancelled_with_the_stream_and_the_stream_with_the_task() -> None:
    stopped: list[bool] = []

    async def wait_for(future: StreamFuture[int], by_task: bool) -> None:
        future.stop_stream = lambda: stopped.append(by_task)

        async def waiting() -> int:
            return await future

        task = asyncio.create_task(waiting())
        await asyncio.sleep(0)
        (task if by_task else future).cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.sleep(0)  # asyncio cancels the future of a cancelled task in the next turn of the loop
        assert future.cancelled()

    for by_task in (True, False):
        asyncio.run(wait_for(StreamFuture(), by_task))
    assert set(stopped) == {True, False}


def test_an_await_that_times_out_leaves_the_result_to_come() -> None:
    future: StreamFuture[int] = StreamFuture()

    async def impatient() -> None:
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(future, 0.01)

    asyncio.run(impatient())
    assert not future.cancelled()
    assert future.try_complete(1)
    assert future.result() == 1


def test_the_first_outcome_stays() -> None:
    future: StreamFuture[int] = StreamFuture()
    assert future.try_complete(1)
    assert not future.try_complete(2)
    assert not future.try_fail(ValueError())
    assert future.result() == 1
    failed: StreamFuture[int] = StreamFuture()
    assert failed.try_fail(ValueError("first"))
    assert not failed.try_complete(1)
    with pytest.raises(ValueError, match="first"):
        failed.result()


def test_result_on_a_dispatcher_thread_raises_instead_of_waiting_for_itself(dispatcher: Dispatcher) -> None:
    future: StreamFuture[int] = StreamFuture("the stream's count")
    outcome: concurrent.futures.Future[object] = concurrent.futures.Future()

    def ask() -> None:
        try:
            outcome.set_result(future.result())
        except Exception as error:
            outcome.set_result(error)

    dispatcher.execute(ask)
    error = outcome.result(10)
    assert isinstance(error, WouldBlock)
    assert "result() of the stream's count" in str(error)
    assert "'test-dispatcher'" in str(error)


def test_a_result_that_is_there_can_be_read_on_a_pool_thread(pool: ElasticPool) -> None:
    ready: StreamFuture[int] = StreamFuture()
    ready.set_result(5)
    missing: StreamFuture[int] = StreamFuture()
    outcome: concurrent.futures.Future[list[object]] = concurrent.futures.Future()

    def ask(_: object) -> None:
        got: list[object] = [ready.result(), ready.exception()]
        for look in (lambda: missing.result(0), missing.exception):
            try:
                got.append(look())
            except Exception as error:
                got.append(type(error))
        outcome.set_result(got)

    pool.spawn(ask, "asker").tell(1)
    assert outcome.result(10) == [5, None, TimeoutError, WouldBlock]


def test_it_has_the_fields_of_the_future_it_stands_for() -> None:
    # It does not call `Future.__init__`: should a Python give that another field, this says so.
    assert set(vars(StreamFuture())) == {*vars(concurrent.futures.Future()), "name"}


def test_every_thread_that_waits_is_woken_and_one_that_gave_up_is_forgotten() -> None:
    future: StreamFuture[int] = StreamFuture()
    with pytest.raises(TimeoutError):
        future.result(0.001)
    assert future._condition._sleeping == []
    results: list[int] = []
    threads = [threading.Thread(target=lambda: results.append(future.result(30))) for _ in range(5)]
    for thread in threads:
        thread.start()
    done = threading.Thread(
        target=lambda: results.append(next(iter(concurrent.futures.as_completed([future]))).result())
    )
    done.start()
    future.set_result(7)
    for thread in [*threads, done]:
        thread.join(30)
    assert results == [7] * 6


def test_it_can_be_waited_for_among_others() -> None:
    never: StreamFuture[int] = StreamFuture()
    soon: concurrent.futures.Future[int] = concurrent.futures.Future()
    soon.set_result(1)
    done, left = concurrent.futures.wait([never, soon], return_when=concurrent.futures.FIRST_COMPLETED)
    assert (done, left) == ({soon}, {never})
    never.set_result(2)
    assert concurrent.futures.wait([never, soon], timeout=30).not_done == set()


def test_a_failure_that_somebody_still_holds_is_logged_at_the_end_of_the_process_and_only_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    held, read = UnreadFailure("nobody has read this"), UnreadFailure("somebody has read this")
    read.read = True
    for _ in range(2):
        futures._log_unread()
    assert caplog.messages == ["nobody has read this"]
    del held, read
    assert caplog.messages == ["nobody has read this"]


def test_a_failure_that_nobody_holds_is_logged_at_once(caplog: pytest.LogCaptureFixture) -> None:
    UnreadFailure("nobody has read this")
    assert caplog.messages == ["nobody has read this"]


def test_failures_that_differ_in_numbers_only_are_one_line_a_second(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    for now_s in (0.0, 1.0):
        monkeypatch.setattr(log_limit._of_process, "_now_s", lambda now_s=now_s: now_s)
        for port in range(100):
            UnreadFailure(f"port {port} is taken")
    UnreadFailure("the disk is full")
    assert caplog.messages == [
        "port 0 is taken",
        "port 0 is taken (99 more since the last line)",
        "the disk is full",
    ]
    log_limit.forget_causes()
