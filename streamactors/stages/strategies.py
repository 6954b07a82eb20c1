"""The named choices of operators, for those who would rather not write the text: each member is that text."""

from __future__ import annotations

from enum import StrEnum


class OverflowStrategy(StrEnum):
    """What to do when there is no room for an element. An operator says which of them it knows."""

    backpressure = "backpressure"  # it does not come: upstream waits
    drop_head = "drop_head"  # the oldest kept is dropped
    drop_tail = "drop_tail"  # the youngest kept is
    drop_buffer = "drop_buffer"  # all that are kept are
    drop_new = "drop_new"  # the one that comes is
    fail = "fail"  # the stream fails with BufferOverflow

    BACKPRESSURE = "backpressure"
    DROP_HEAD = "drop_head"
    DROP_TAIL = "drop_tail"
    DROP_BUFFER = "drop_buffer"
    DROP_NEW = "drop_new"
    FAIL = "fail"


class ThrottleMode(StrEnum):
    """What `throttle` does with an element that comes too fast."""

    shaping = "shaping"  # it is delayed
    enforcing = "enforcing"  # the stream fails with RateExceeded

    SHAPING = "shaping"
    ENFORCING = "enforcing"
