"""Punctuation: functions that a processor schedules at intervals of stream time or of the wall clock.

Owner: one task, for all its processors; pure. As in Kafka Streams: the stream-time grid begins at 0 and the first row is
always at or after its first point; the wall-clock grid begins one interval after `schedule`. A jump of time calls once. `strict`: a
function scheduled while a row is processed is first due at the next multiple of its interval, and functions due at the same time are called
in the order in which they were scheduled. `kafka`: functions due at the same time are called in the order of Kafka Streams' queue."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal, cast

from streamactors.durations import Duration, EventSpan, event_ms, whole_ms
from streamactors.errors import BuildError
from streamactors.stages.checks import no_coroutine_function
from streamactors.windows.processors.schedule_queue import ScheduleQueue

Clock = Literal["stream", "wall"]
_CLOCKS: Final = ("stream", "wall")


class Scheduled:
    """One schedule; `cancel` ends it, also from inside the function."""

    __slots__ = ("cancelled", "every_ms", "fn")

    def __init__(self, every_ms: int, fn: Callable[[int], object]) -> None:
        self.every_ms = every_ms
        self.fn = fn
        self.cancelled = False

    def cancel(self) -> None:
        """Stop calling the function. Idempotent."""
        self.cancelled = True


class Punctuation:
    """The schedules of one task by one clock."""

    def __init__(self, *, kafka: bool = False) -> None:
        self._queue = ScheduleQueue(ties_by_heap=kafka)

    def add(self, scheduled: Scheduled, first_ms: int) -> None:
        """Call a function at `first_ms`, and then at each later multiple of its interval."""
        self._queue.add(first_ms, scheduled)

    def next_ms(self) -> int | None:
        """Return the time at which a function is due next; None if there is none."""
        queue = self._queue
        while (due := queue.first()) is not None and due[2].cancelled:
            queue.pop()
        return None if due is None else due[0]

    def run(self, now_ms: int) -> bool:
        """Call all functions due at `now_ms`, each once, with `now_ms`. Returns True if one was called."""
        called = False
        queue = self._queue
        while (due := queue.first()) is not None and due[0] <= now_ms:
            at, number, scheduled = queue.pop()
            if scheduled.cancelled:
                continue
            called = True
            scheduled.fn(now_ms)
            if not scheduled.cancelled:
                missed = (now_ms - at) // scheduled.every_ms
                queue.put((at + (missed + 1) * scheduled.every_ms, number, scheduled))
        return called


def checked_schedule(every: Duration, fn: object, clock: object) -> tuple[int, Callable[[int], object]]:
    """Return interval and function of `schedule`. Raises BuildError."""
    if not callable(fn):
        raise BuildError(f"schedule: {fn!r} is not callable; give a function of the time in ms")
    no_coroutine_function("schedule", fn)
    if clock not in _CLOCKS:
        raise BuildError(f'schedule: clock is {clock!r}; choose "stream" or "wall"')
    if clock == "wall":
        return whole_ms(every, "schedule: every", minimum=1), fn
    return event_ms(cast("EventSpan", every), "schedule: every", minimum=1), fn
