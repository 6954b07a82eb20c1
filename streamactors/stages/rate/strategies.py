"""The named choices of operators: enumerations whose members equal the strings that operators take."""

from __future__ import annotations

from collections import deque
from enum import StrEnum
from typing import Any, Literal

from streamactors.engine.user_code import shortened
from streamactors.errors import BuildError


class OverflowStrategy(StrEnum):
    """What to do when there is no room for an element. Each operator names the strategies that it takes."""

    backpressure = "backpressure"  # upstream waits
    drop_head = "drop_head"  # drop the oldest element kept
    drop_tail = "drop_tail"  # drop the youngest element kept
    drop_buffer = "drop_buffer"  # drop all elements kept
    drop_new = "drop_new"  # drop the new element
    fail = "fail"  # the stream fails with BufferOverflow

    BACKPRESSURE = "backpressure"
    DROP_HEAD = "drop_head"
    DROP_TAIL = "drop_tail"
    DROP_BUFFER = "drop_buffer"
    DROP_NEW = "drop_new"
    FAIL = "fail"


class ThrottleMode(StrEnum):
    """What `throttle` does with an element that comes too early."""

    shaping = "shaping"  # delay the element
    enforcing = "enforcing"  # the stream fails with RateExceeded

    SHAPING = "shaping"
    ENFORCING = "enforcing"


Overflow = Literal["drop_head", "drop_tail", "drop_buffer", "drop_new", "fail"]
"""The strategies of operators without back-pressure, for type checkers."""


def checked_strategy(operator: str, parameter: str, value: str, *without: str) -> str:
    """Return `value` if it names an overflow strategy that is not among `without`."""
    allowed = [each.value for each in OverflowStrategy if each.value not in without]
    if value not in allowed:
        raise BuildError(f"{operator}: {parameter} must be one of {', '.join(allowed)}, got {shortened(value, 60)}")
    return value


def make_room(strategy: str, held: deque[Any]) -> bool:
    """Drop held elements as the strategy demands; return False if it drops none of them."""
    if strategy == OverflowStrategy.drop_head:
        held.popleft()
    elif strategy == OverflowStrategy.drop_tail:
        held.pop()
    elif strategy == OverflowStrategy.drop_buffer:
        held.clear()
    else:
        return False
    return True
