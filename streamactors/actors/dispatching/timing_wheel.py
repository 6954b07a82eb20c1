"""Hierarchical timing wheel: the timers of every dispatcher, and the broker's purgatory.

Owner: its maker. A wheel has no thread, no clock and no lock of its own: the owner calls `advance` and serialises all
calls. After Varghese & Lauck (1987) and Kafka's `kafka.utils.timer.TimingWheel`, with three differences:

* A level is a dict of buckets by slot instead of an array, and a bucket a dict of timers: C containers are twice as
  fast here.
* Levels are aligned blocks (as the digits of a number in base 1024 are) instead of windows sliding with the time. A
  slot of level k is opened when time enters it, before anything can be put on a finer level of the same span, so timers
  of equal deadline never overtake each other on their way down.
* A slot's timers keep their exact deadlines and are sorted when it fires, so timers fire in order of deadline even
  within a tick, and never before their deadline.

Cost: schedule and cancel O(1); a timer moves down at most three times in its life.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from heapq import heappop, heappush
from operator import attrgetter
from typing import Final

_BITS: Final = 10
_SLOTS: Final = 1 << _BITS
_LEVELS: Final = 4  # of 1 ms ticks: 1 s, 17 min, 12 days, and the last level without an end
_EXACT_UP_TO: Final = 64
_new: Final = object.__new__
_deadline_of: Final[Callable[[Timer], float]] = attrgetter("deadline_ms")

_Bucket = dict["Timer", None]
"""The timers of one slot, in the order they were set."""


class Timer:
    """A callback waiting for its deadline (in milliseconds of the wheel's clock). Made by `TimingWheel.schedule`."""

    __slots__ = ("_bucket", "callback", "deadline_ms")

    deadline_ms: float
    callback: Callable[[], object]
    _bucket: _Bucket | None

    @property
    def pending(self) -> bool:
        """True while the timer is neither fired nor cancelled."""
        return self._bucket is not None

    def cancel(self) -> bool:
        """Forget the timer; return whether it was still pending. O(1)."""
        bucket = self._bucket
        if bucket is None:
            return False
        self._bucket = None
        del bucket[self]
        return True

    def __repr__(self) -> str:
        state = "pending" if self._bucket is not None else "done"
        return f"<Timer at {self.deadline_ms:.3f} ms, {state}>"


class TimingWheel:
    """Timers ordered by (deadline, order of setting).

    `clock_now_ms` gives the time from which the wheel starts; after that only `advance` moves it. `tick_ms` is the
    width of a slot of the finest level: it changes the cost, never the order or the time at which a timer is due.
    """

    def __init__(self, clock_now_ms: Callable[[], float], tick_ms: float = 1.0) -> None:
        if not (tick_ms > 0 and math.isfinite(tick_ms)):
            raise ValueError(f"TimingWheel: tick_ms must be a positive number of milliseconds, not {tick_ms!r}")
        now_ms = clock_now_ms()
        if now_ms < 0:
            raise ValueError(f"TimingWheel: the clock must not be negative, it says {now_ms!r} ms")
        self._tick_ms = tick_ms
        self._ticks_per_ms = 1.0 / tick_ms
        self._current = int(now_ms * self._ticks_per_ms)
        self._block_end = (self._current | (_SLOTS - 1)) + 1
        self._buckets: list[dict[int, _Bucket]] = [{} for _ in range(_LEVELS)]
        self._slots: list[list[int]] = [[] for _ in range(_LEVELS)]  # heaps of the slots in use, per level
        self._near = self._buckets[0]
        self._due: list[_Bucket] = []  # collected, but not all of it claimed

    def __len__(self) -> int:
        """The exact number of timers that are neither fired nor cancelled. Cost: 20 ns per slot in use."""
        return sum(map(len, self._due)) + sum(sum(map(len, level.values())) for level in self._buckets)

    def schedule(self, deadline_ms: float, callback: Callable[[], object]) -> Timer:
        """Call `callback` at the first `advance` to `deadline_ms` or later. A deadline in the past is due at once."""
        timer = _new(Timer)
        timer.deadline_ms = deadline_ms
        timer.callback = callback
        # The same as `add`; written twice because a call would take a third of the time.
        try:
            tick = int(deadline_ms * self._ticks_per_ms)
            if self._current <= tick < self._block_end:
                bucket = self._near[tick]
            else:
                bucket = self._bucket_of(tick)
        except KeyError:
            bucket = self._open(0, tick)
        except (OverflowError, ValueError):
            raise _not_a_deadline(deadline_ms) from None
        timer._bucket = bucket
        bucket[timer] = None
        return timer

    def add(self, timer: Timer) -> None:
        """Schedule a timer that the caller made (of a subclass). It must not be pending already."""
        try:
            bucket = self._bucket_of(int(timer.deadline_ms * self._ticks_per_ms))
        except (OverflowError, ValueError):
            raise _not_a_deadline(timer.deadline_ms) from None
        timer._bucket = bucket
        bucket[timer] = None

    def advance(self, now_ms: float) -> int:
        """Fire every timer due at `now_ms`, in order; return how many fired.

        A timer that a callback sets fires at the next call at the earliest, so a callback that sets itself again cannot spin.
        If a callback raises, the error goes to the caller and the other timers stay due for the next call.
        """
        fired = 0
        for timer in self.collect(now_ms):
            bucket = timer._bucket
            if bucket is not None:
                timer._bucket = None  # as `cancel`: out of the wheel before it runs
                del bucket[timer]
                fired += 1
                timer.callback()
        return fired

    def collect(self, now_ms: float) -> list[Timer]:
        """Return the due timers in order, for an owner that runs them itself.

        Each stays pending until the owner claims it by `cancel`, which returns False if it was cancelled or claimed before.
        """
        due = self._due = [bucket for bucket in self._due if bucket]
        timers = [timer for bucket in due for timer in _in_order(bucket)]
        target = int(now_ms * self._ticks_per_ms)
        if target < self._current:
            target = self._current
        self._collect_near(target, now_ms, timers)
        while self._enter_next_block(target):
            self._collect_near(target, now_ms, timers)
        self._current = target
        self._block_end = (target | (_SLOTS - 1)) + 1
        return timers

    def next_deadline_ms(self) -> float | None:
        """Return when `advance` is next needed; None if no timer is pending.

        The exact next deadline, or (where many distant timers share a coarse slot) the earlier time at which that slot
        opens.
        """
        for bucket in self._due:
            if bucket:
                return min(map(_deadline_of, bucket))
        for level, (slots, buckets) in enumerate(zip(self._slots, self._buckets, strict=True)):
            while slots:
                bucket = buckets[slots[0]]
                if bucket:
                    if level == 0 or len(bucket) <= _EXACT_UP_TO:
                        return min(map(_deadline_of, bucket))
                    return (slots[0] << (_BITS * level)) * self._tick_ms
                del buckets[heappop(slots)]
        return None

    def _open(self, level: int, slot: int) -> _Bucket:
        bucket = self._buckets[level][slot] = {}
        heappush(self._slots[level], slot)
        return bucket

    def _bucket_of(self, tick: int) -> _Bucket:
        """Return the bucket for a tick: on the finest level whose block the tick shares with the current time."""
        if tick < self._current:
            tick = self._current
        level = 0
        if tick >= self._block_end:
            level = min((tick ^ self._current).bit_length() - 1, _BITS * (_LEVELS - 1)) // _BITS
            tick >>= _BITS * level
        bucket = self._buckets[level].get(tick)
        return self._open(level, tick) if bucket is None else bucket

    def _collect_near(self, target: int, now_ms: float, timers: list[Timer]) -> None:
        """Move the due timers of the current block to `timers`."""
        slots, near = self._slots[0], self._near
        while slots and slots[0] <= target:
            slot = slots[0]
            bucket = near[slot]
            if bucket:
                in_order = _in_order(bucket)
                if slot == target and in_order[-1].deadline_ms > now_ms:
                    self._split(bucket, [timer for timer in in_order if timer.deadline_ms <= now_ms], timers)
                    return
                timers += in_order
                self._due.append(bucket)
            del near[heappop(slots)]

    def _split(self, bucket: _Bucket, ripe: list[Timer], timers: list[Timer]) -> None:
        """The time is within the bucket's tick: only a part of the bucket is due."""
        due: _Bucket = {}
        for timer in ripe:
            del bucket[timer]
            timer._bucket = due
            due[timer] = None
        timers += ripe
        self._due.append(due)

    def _enter_next_block(self, target: int) -> bool:
        """If a coarse slot starts by `target`, move the time there and spread its timers over the finer levels."""
        for level in range(1, _LEVELS):
            slots = self._slots[level]
            if slots:
                # A finer level lies wholly before the next slot of a coarser one, so the first level in use has the
                # next slot.
                start = slots[0] << (_BITS * level)
                if start > target:
                    return False
                bucket = self._buckets[level].pop(heappop(slots))
                self._current = start
                self._block_end = start + _SLOTS
                for timer in bucket:
                    self.add(timer)
                return True
        return False


def _in_order(bucket: _Bucket) -> list[Timer]:
    return sorted(bucket, key=_deadline_of) if len(bucket) > 1 else list(bucket)


def _not_a_deadline(value: float) -> ValueError:
    return ValueError(f"TimingWheel: a deadline must be a finite number, not {value!r}")
