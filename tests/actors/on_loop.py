"""Run a function on the loop of a dispatcher, for tests."""

from __future__ import annotations

import threading
from collections.abc import Callable

from streamactors.actors.dispatching.dispatcher import Dispatcher


def on_loop(dispatcher: Dispatcher, fn: Callable[[], object]) -> object:
    """Run fn on the loop and give its result or raise its error here."""
    done = threading.Event()
    box: list[object] = []

    def run() -> None:
        try:
            box.append(fn())
        except BaseException as error:
            box.append(error)
        done.set()

    dispatcher.execute(run)
    assert done.wait(10)
    if isinstance(box[0], BaseException):
        raise box[0]
    return box[0]
