"""One cause is logged at most once a second, and the number of lines left out is never lost."""

from __future__ import annotations

import logging
import subprocess
import sys

import pytest

from streamactors import log_limit
from streamactors.log_limit import LogLimit, alike

_log = logging.getLogger("streamactors.limited")


class Now:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.s = 100.0

    def __call__(self) -> float:
        return self.s


@pytest.fixture
def now() -> Now:
    return Now()


@pytest.fixture
def limit(now: Now) -> LogLimit:
    return LogLimit(now_s=now)


def test_a_cause_is_logged_at_once_and_again_after_a_second_with_the_number_left_out(
    limit: LogLimit, now: Now, caplog: pytest.LogCaptureFixture
) -> None:
    for element in range(10):
        limit.log(_log, logging.WARNING, "the disk", "element %d", element)
        now.s += 0.099
    assert caplog.messages == ["element 0"]
    now.s += 0.1
    for element in (10, 11):
        limit.log(_log, logging.WARNING, "the disk", "element %d", element)
    assert caplog.messages == ["element 0", "element 10 (9 more since the last line)"]
    now.s += 1
    limit.log(_log, logging.WARNING, "the disk", "element %d", 12)
    now.s += 1
    limit.log(_log, logging.WARNING, "the disk", "element %d", 13)
    assert caplog.messages[2:] == ["element 12 (1 more since the last line)", "element 13"]


def test_another_message_of_the_same_thing_is_logged_at_once(limit: LogLimit, caplog: pytest.LogCaptureFixture) -> None:
    limit.log(_log, logging.WARNING, "child", "%s failed; trying once more", "child")
    limit.log(_log, logging.WARNING, "child", "%s failed again", "child")
    assert caplog.messages == ["child failed; trying once more", "child failed again"]


def test_other_causes_and_other_loggers_are_logged_at_once(limit: LogLimit, caplog: pytest.LogCaptureFixture) -> None:
    for logger in (_log, logging.getLogger("streamactors.other")):
        for cause in ("a", "b", "a"):
            limit.log(logger, logging.WARNING, cause, cause)
    assert caplog.messages == ["a", "b", "a", "b"]


def test_errors_that_differ_in_numbers_only_are_alike() -> None:
    assert alike(ValueError("at 49 of 50")) == alike(ValueError("at 7 of 8")) != alike(ValueError("in 7 of 8"))


def test_the_rest_is_logged_once(limit: LogLimit, caplog: pytest.LogCaptureFixture) -> None:
    for element in range(3):
        limit.log(_log, logging.ERROR, "x", "element %d", element)
    limit.log(_log, logging.ERROR, "y", "once")
    caplog.clear()
    for _ in range(2):
        limit.log_rest()
    assert caplog.record_tuples == [("streamactors.limited", logging.ERROR, "2 more since the last line: element 0")]


def test_a_cause_that_is_forgotten_for_others_has_its_rest_logged(
    limit: LogLimit, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_limit, "MOST_CAUSES", 2)
    for cause in ("a", "a", "b", "c"):
        limit.log(_log, logging.WARNING, cause, cause)
    assert caplog.messages == ["a", "b", "1 more since the last line: a", "c"]
    limit.log(_log, logging.WARNING, "c", "c")
    assert len(caplog.messages) == 4


def test_a_level_that_is_off_counts_nothing(limit: LogLimit, now: Now, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(2):
        limit.log(_log, logging.DEBUG, "x", "for developers")
    with caplog.at_level(logging.DEBUG, logger=_log.name):
        limit.log(_log, logging.DEBUG, "x", "for developers")
    assert caplog.messages == ["for developers"]


def test_what_was_left_out_is_logged_when_the_process_ends() -> None:
    program = """
import logging
from streamactors.log_limit import log_limited
logging.basicConfig(format="%(message)s")
for element in range(4):
    log_limited(logging.getLogger("of.the.user"), logging.WARNING, "x", "element %d", element)
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert ended.stderr.splitlines() == ["element 0", "3 more since the last line: element 0"]


class Untold(Exception):
    """An error whose text cannot be made."""

    def __str__(self) -> str:
        raise ZeroDivisionError


def test_an_error_without_a_text_costs_its_line_and_not_the_thread_that_logs_it(
    limit: LogLimit, now: Now, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A cell's error ended the thread of its dispatcher, and with it all cells there. `logging` lets no error of a value out.
    monkeypatch.setattr(logging, "raiseExceptions", False)  # the handlers of the tests let it out
    for _ in range(2):
        limit.log(_log, logging.ERROR, "child", "%s failed", Untold())
    caplog.clear()
    limit.log_rest()
    assert caplog.messages == ["1 more since the last line: %s failed"]
    assert alike(Untold()) == "Untold"
