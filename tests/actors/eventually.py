"""Waiting for what another thread will do."""

from __future__ import annotations

import time
from collections.abc import Callable


def eventually(condition: Callable[[], object], timeout_s: float = 60.0) -> None:
    """Wait for a condition that another thread will make true."""
    give_up = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > give_up:
            raise AssertionError(f"not true within {timeout_s} s: {condition}")
        time.sleep(0.001)
