"""What is made of several descriptors, in a process that has too few of them left: an attempt that fails leaves none open."""

from __future__ import annotations

import gc
import os
import resource
from collections.abc import Callable
from typing import Any

import pytest

from streamactors.actors.dispatching.dispatcher import Dispatcher
from streamactors.actors.workers.rings import make_rings
from tests.own_process import own_process


def a_dispatcher() -> None:
    Dispatcher("short of descriptors").stop()


def rings() -> None:
    made: Any = make_rings()
    if made is not None:
        ends, (memory, *_) = made
        ends.close()
        os.close(memory)


def opened() -> list[str]:
    gc.collect()
    return os.listdir("/proc/self/fd")


@own_process
@pytest.mark.parametrize("make", [a_dispatcher, rings])
def test_an_attempt_that_fails_leaves_no_descriptor(make: Callable[[], None]) -> None:
    make()
    before = opened()
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    failed = 0
    for allowed in range(1 + max(map(int, before)), 6 + max(map(int, before))):
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, limits[1]))
        try:
            make()
        except OSError:
            failed += 1
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        assert len(opened()) == len(before), f"{allowed} descriptors were allowed"
    assert failed
