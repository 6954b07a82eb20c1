"""What the tests of restarts share: parts that are made from a script, and a clock for their waits."""

from __future__ import annotations

import pytest

from streamactors import RestartSettings, Source
from streamactors.testing import TestSink

QUICK = RestartSettings("1s", "8s", random_factor=0)


@pytest.fixture(name="clock")
def virtual_time(virtual_clock, actor_system):
    return virtual_clock


class Factory:
    """Makes parts from a script, the last one again and again, and counts."""

    def __init__(self, *parts):
        self.parts = list(parts)
        self.made = 0

    def __call__(self):
        part = self.parts[min(self.made, len(self.parts) - 1)]
        self.made += 1
        if isinstance(part, BaseException):
            raise part
        return part


def start(system, source):
    return source.run_with(TestSink.probe(), system)


def failing(*elements, error=None):
    """Emits the elements, then fails."""

    def step(i):
        if i == len(elements):
            raise error or ValueError("inner")
        return i + 1, elements[i]

    return Source.unfold(0, step)
