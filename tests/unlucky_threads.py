"""A pytest plugin that makes rare schedules likely: threads pause where another thread may overtake them.

    python -m pytest -p tests.unlucky_threads tests/stages
    python tools/repeat_tests.py --times 5 -p tests.unlucky_threads tests/stages

A thread that completes a future pauses before it goes on, so the test that waited sees the moment of the completion. A cell pauses now and
then before its turn, so messages and other threads overtake it. A test that fails only here has waited for the wrong event, or has found
a race of the product. Pauses cost no CPU time; virtual clocks do not see them."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from streamactors.actors.cell import Cell
from streamactors.actors.futures import StreamFuture

AFTER_A_RESULT_S = 0.02
BEFORE_A_TURN_S = 0.01
TURNS_THAT_PAUSE = 0.02

dice = random.Random()


def pauses_after(complete: Callable[..., None]) -> Callable[..., None]:
    """Return `complete`, with a pause after it unless the test's own thread calls it."""

    def completed(future: Any, outcome: Any) -> None:
        complete(future, outcome)
        if threading.current_thread() is not threading.main_thread():
            time.sleep(AFTER_A_RESULT_S)

    return completed


def pauses_before(turn: Callable[[Cell], bool]) -> Callable[[Cell], bool]:
    """Return `turn`, with a pause before it now and then."""

    def taken(cell: Cell) -> bool:
        if dice.random() < TURNS_THAT_PAUSE:
            time.sleep(dice.random() * BEFORE_A_TURN_S)
        return turn(cell)

    return taken


def pytest_configure(config: pytest.Config) -> None:
    dice.seed(getattr(config.option, "randomly_seed", None))
    change: Any = setattr
    change(StreamFuture, "set_result", pauses_after(StreamFuture.set_result))
    change(StreamFuture, "set_exception", pauses_after(StreamFuture.set_exception))
    change(Cell, "run_turn", pauses_before(Cell.run_turn))
