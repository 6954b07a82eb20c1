"""Times that a group's records carry: the clock of the node that coordinated the group then, which may be another one now."""

from __future__ import annotations


def interval_is_over(begun_ms: int, interval_ms: int, now_ms: int) -> bool:
    """Return whether `interval_ms` have passed since a stored time, all in milliseconds since 1970.

    Also True for a stored time ahead of the clock: the clock of the node that wrote it was wrong, so nothing must wait for that time."""
    return not begun_ms <= now_ms < begun_ms + interval_ms
