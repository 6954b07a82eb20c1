"""What the product logs at WARNING or above: each test says what it expects, and no cause is logged twice in a second.

A record is expected if the test read its `caplog` afterwards, if a marker `expects_log("part of the message")` of the test, its class or its
module names a part of it, or if `rooms.py` for the test's room, or `expected.txt` for its file, names a part of it or its template. With `again=True`, or `again: ` in
the list, it may come more often than once a second: a test that runs many streams one after the other does in a second what takes a day.
The list only shrinks."""

from __future__ import annotations

import logging
import re
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from streamactors.log_limit import LEFT_OUT

EXPECTED = Path(__file__).parent / "expected.txt"
WITHIN_S = 1.0
DELAY_S = 0.5
"""How long a thread may be held up between the look at the clock that admits a line and the line: two lines a second apart come closer by that."""
FLOOD = 20
_NUMBERS = re.compile(r"\d+")
NOT_OURS = "streamactors.kafka.librdkafka"
"""librdkafka's own lines, which reach nobody who has not given this logger a handler. What matters of them is logged in our words."""


class Seen(NamedTuple):
    """A record of the product. `template` is the message without its arguments; `at_s` is monotonic time; `process` is empty for this process."""

    logger: str
    level: str
    template: str
    message: str
    at_s: float
    process: str = ""

    def __str__(self) -> str:
        where = f" (in {self.process})" if self.process else ""
        return f"{self.level} {self.logger}: {self.message[:400]}{where}"


class LogWatch:
    """Collects the product's records of a test, whatever handlers and levels of handlers there are."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._seen: list[Seen] = []
        self._read = 0  # records that the test has looked at

    def install(self, patch: pytest.MonkeyPatch) -> None:
        """Collect from now on. Every read of a `caplog` counts as a look at what was logged before."""
        handle = logging.Logger.handle

        def noted(logger: logging.Logger, record: logging.LogRecord) -> None:
            if record.levelno >= logging.WARNING and is_ours(record.name):
                self.note(Seen(record.name, record.levelname, str(record.msg), text_of(record), time.monotonic()))
            handle(logger, record)

        patch.setattr(logging.Logger, "handle", noted)
        for name in ("records", "text", "messages", "record_tuples"):
            patch.setattr(
                pytest.LogCaptureFixture, name, property(self._read_by(getattr(pytest.LogCaptureFixture, name)))
            )

    def _read_by(self, shown: property) -> Callable[[Any], Any]:
        def read(caplog: Any) -> Any:
            found = shown.__get__(caplog)
            with self._lock:
                self._read = len(self._seen)
            return found

        return read

    def note(self, seen: Seen) -> None:
        with self._lock:
            self._seen.append(seen)

    def take(self) -> tuple[list[Seen], list[Seen]]:
        """Return the records that nobody looked at, and all, since the last call."""
        with self._lock:
            seen, self._seen = self._seen, []
            read, self._read = self._read, 0
        return seen[read:], seen


def is_ours(logger: str) -> bool:
    return logger.startswith("streamactors") and logger != NOT_OURS


def text_of(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception as error:
        return f"{record.msg!r} cannot be formatted: {error}"


@dataclass(frozen=True)
class Expected:
    """Parts of messages, or whole templates: what may be logged, and what may be logged again at once."""

    parts: tuple[str, ...] = ()
    again: tuple[str, ...] = ()

    def __add__(self, other: Expected) -> Expected:
        return Expected(self.parts + other.parts, self.again + other.again)

    def has(self, seen: Seen) -> bool:
        """Whether the record may be logged."""
        return _fits(seen, self.parts) or self.has_again(seen)

    def has_again(self, seen: Seen) -> bool:
        """Whether the record may be logged more than once a second."""
        return _fits(seen, self.again)


def _fits(seen: Seen, parts: tuple[str, ...]) -> bool:
    template = seen.template.removesuffix(LEFT_OUT)
    return any(part in seen.message or part == template for part in parts)


def unexpected(seen: Iterable[Seen], expected: Expected) -> list[str]:
    """Return a sentence for each record that is not expected."""
    return [f"logged, and not expected: {each}" for each in seen if not expected.has(each)]


def repeated(seen: Iterable[Seen], expected: Expected = Expected()) -> list[str]:
    """Return a sentence for each message that came more than once a second, and for each flood of messages that differ in numbers only."""
    last: dict[tuple[str, str, str], float] = {}
    due: dict[tuple[str, str, str], float] = {}  # when the message may come again
    found: dict[tuple[str, str, str], str] = {}
    floods: dict[tuple[str, str, str], deque[float]] = defaultdict(lambda: deque(maxlen=FLOOD))
    for each in sorted(seen, key=lambda each: each.at_s):
        if expected.has_again(each):
            continue
        cause = (each.logger, each.message, each.process)
        due_s = due.get(cause, each.at_s)
        if each.at_s < due_s - DELAY_S and cause not in found:
            found[cause] = f"logged again after {(each.at_s - last[cause]) * 1_000:.0f} ms: {each}"
        last[cause] = each.at_s
        due[cause] = max(due_s, each.at_s) + WITHIN_S
        kind = (each.logger, _NUMBERS.sub("#", each.message), each.process)
        times = floods[kind]
        times.append(each.at_s)
        if len(times) == FLOOD and each.at_s - times[0] < WITHIN_S and kind not in found:
            found[kind] = f"logged {FLOOD} times within a second: {each}"
    return list(found.values())


def expected_by(markers: Iterable[pytest.Mark]) -> Expected:
    """Return what markers `expects_log` name."""
    found = Expected()
    for marker in markers:
        found += Expected((), marker.args) if marker.kwargs.get("again") else Expected(marker.args)
    return found


def expected_of_files(path: Path = EXPECTED) -> dict[str, Expected]:
    """Return what the tests of a file may log. A line of the list is `file: part` or `file: again: part`."""
    found: dict[str, Expected] = defaultdict(Expected)
    for line in path.read_text().splitlines():
        if line and not line.startswith("#"):
            file, _, part = line.partition(": ")
            often = part.removeprefix("again: ")
            found[file] += Expected((part,)) if often == part else Expected((), (often,))
    return dict(found)
