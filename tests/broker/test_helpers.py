"""Helper threads: work leaves the data plane and its outcome comes back there."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from streamactors.actors.dispatching.dispatcher import Dispatcher
from streamactors.broker.helpers import HelperOutcome, Helpers


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
