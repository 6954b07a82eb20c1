"""`own_process` runs a test apart, with its fixtures and parameters, and its failure is the failure of the test."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.own_process import INSIDE, own_process, run_apart

HERE = os.getpid()
OUTSIDE = INSIDE not in os.environ


@own_process
@pytest.mark.parametrize("word", ["a b", "[c]"])
@pytest.mark.parametrize(("left", "right"), [(1, 2)])
def test_it_has_its_fixtures_and_parameters_and_no_thread_of_another_test(tmp_path, word, left, right):
    assert (left, right) == (1, 2)
    assert INSIDE in os.environ
    assert [thread.name for thread in threading.enumerate()] == ["MainThread"]
    (tmp_path / "word").write_text(word)


@own_process
def fails(tmp_path):
    raise AssertionError("the story of the failure")


@pytest.mark.skipif(not OUTSIDE, reason="the failure is asked for from outside")
def test_its_failure_is_told_with_its_story(monkeypatch, tmp_path):
    copy = Path(__file__).with_name("test_own_process_that_fails.py")
    copy.write_text(Path(__file__).read_text().replace("def fails(", "def test_fails("))
    try:
        monkeypatch.setenv("PYTEST_CURRENT_TEST", f"tests/{copy.name}::test_fails (call)")
        with pytest.raises(pytest.fail.Exception, match="the story of the failure"):
            fails()
    finally:
        copy.unlink()


@pytest.mark.slow
@pytest.mark.skipif(not OUTSIDE, reason="the test that hangs is asked for from outside")
def test_a_test_that_is_given_up_leaves_no_answer_for_the_next_one(tmp_path):
    copy = Path(__file__).with_name("test_own_process_that_hangs.py")
    copy.write_text("import time\n\n\ndef test_hangs():\n    time.sleep(600)\n\n\ndef test_is_quick():\n    pass\n")
    environment = {**os.environ, INSIDE: "1"}
    try:
        with pytest.raises(TimeoutError), limit_of(3):
            run_apart(f"tests/{copy.name}::test_hangs", environment)
        assert run_apart(f"tests/{copy.name}::test_is_quick", environment)[0] == 0
    finally:
        copy.unlink()


@contextmanager
def limit_of(seconds: float) -> Iterator[None]:
    """Raise TimeoutError in the block when its time is over, as the limit of a test does."""

    def over(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, over)
    left = signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, *left)
        signal.signal(signal.SIGALRM, before)
