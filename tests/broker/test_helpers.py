"""Helper threads: work leaves the data plane and its outcome comes back there."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any

import pytest

from streamactors.actors.dispatching.dispatcher import Dispatcher
from streamactors.broker.helpers import _THREADS, HelperOutcome, Helpers


@pytest.fixture
def data_plane() -> Iterator[Dispatcher]:
    dispatcher = Dispatcher("data-plane").start()
    yield dispatcher
    dispatcher.stop()


def test_a_value_comes_back_on_the_data_plane(data_plane: Dispatcher) -> None:
    helpers, done = Helpers(data_plane), threading.Event()
    seen: list[object] = []

    def then(outcome: HelperOutcome[bool]) -> None:
        seen.extend([outcome.get(), data_plane.in_thread()])
        done.set()

    helpers.run(data_plane.in_thread, then)
    assert done.wait(10)
    assert seen == [False, True]
    helpers.stop()


def test_an_error_comes_back_too(data_plane: Dispatcher) -> None:
    helpers, done = Helpers(data_plane), threading.Event()
    seen: list[BaseException | None] = []

    def work() -> None:
        raise OSError(5, "Input/output error")

    def then(outcome: HelperOutcome[None]) -> None:
        seen.append(outcome.error)
        with pytest.raises(OSError, match="Input/output error"):
            outcome.get()
        done.set()

    helpers.run(work, then)
    assert done.wait(10)
    assert isinstance(seen[0], OSError)
    helpers.stop()


def test_nothing_comes_back_to_a_data_plane_that_has_ended(data_plane: Dispatcher) -> None:
    helpers, go_on = Helpers(data_plane), threading.Event()
    seen: list[object] = []
    helpers.run(lambda: go_on.wait(10), seen.append)
    data_plane.stop()
    go_on.set()
    helpers.stop()
    assert seen == []


def test_a_stop_says_nothing_of_the_functions_that_it_drops(
    data_plane: Dispatcher, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    # a node whose disk was full ended -> a traceback of CancelledError for each function that still waited
    helpers, go_on, begun = Helpers(data_plane), threading.Event(), threading.Semaphore(0)
    called: list[int] = []

    def work() -> None:
        begun.release()
        go_on.wait(60)

    submitted: list[Future[Any]] = []
    submit = helpers._pool.submit

    def noted(fn: Callable[[], Any]) -> Future[Any]:
        submitted.append(submit(fn))
        return submitted[-1]

    monkeypatch.setattr(helpers._pool, "submit", noted)
    for _ in range(_THREADS):
        helpers.run(work, lambda _: None)
    for _ in range(_THREADS):
        assert begun.acquire(timeout=60)
    helpers.run(lambda: called.append(1), lambda _: None)
    stopping = threading.Thread(target=helpers.stop)
    stopping.start()
    while not submitted[-1].cancelled():
        stopping.join(0.01)
    go_on.set()
    stopping.join(60)
    assert not stopping.is_alive()
    assert called == []
    assert caplog.text == ""
