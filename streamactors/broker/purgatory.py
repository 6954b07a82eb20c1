"""Purgatory: where requests wait for a condition, with a deadline.

Owner: the thread of one dispatcher, without locks. A delayed operation is watched under every key that can complete it, and has
one timer in a timing wheel. The first completion counts; all other attempts, and the timer, do nothing.

A completed operation stays in the lists of its other keys until they are walked. The lists are swept when an estimate says that
more than `purge_interval` entries are dead and that more are dead than wait, so a sweep costs at most two checks per dead entry.
The estimate (operations watched since the last sweep, less the pending timers) is never too low.
Source: Kafka's DelayedOperationPurgatory, without its 512 locked shards, which one thread does not need."""

from __future__ import annotations

import logging
import math
from collections.abc import Hashable, Iterable
from typing import TYPE_CHECKING, Final

from streamactors.actors.dispatching.timing_wheel import Timer, TimingWheel
from streamactors.gauges import Gauge

if TYPE_CHECKING:
    from streamactors.actors.dispatching.real_time import Timers

_log = logging.getLogger("streamactors.broker.purgatory")


def _unused() -> None:
    raise AssertionError("the purgatory collects operations from the wheel; the wheel must not call them")


class DelayedOperation(Timer):
    """An operation that completes when a condition holds, or after `delay_ms`.

    Subclasses define `try_complete`, which returns `force_complete()` if the condition holds, and `on_complete`, which runs
    exactly once. `on_expiration` runs after `on_complete` if the deadline completed the operation."""

    __slots__ = ("_again", "_purgatory", "_trying", "completed", "delay_ms")

    def __init__(self, delay_ms: float) -> None:
        self._bucket = None
        self.deadline_ms = 0.0
        self.callback = _unused
        self.delay_ms = delay_ms
        self.completed = False
        self._purgatory: Purgatory | None = None
        self._trying = False
        self._again = False

    def try_complete(self) -> bool:
        """Complete if the condition holds; return whether this call completed the operation."""
        raise NotImplementedError

    def try_complete_for(self, key: Hashable) -> bool:
        """As `try_complete`, when only the state of `key` can have changed."""
        return self.try_complete()

    def on_complete(self) -> None:
        """Called once at completion."""
        raise NotImplementedError

    def on_expiration(self) -> None:
        """Called after `on_complete` if the deadline passed."""

    def force_complete(self) -> bool:
        """Complete without a check. Exactly one call returns True, and that call runs `on_complete`."""
        if self.completed:
            return False
        self.completed = True
        if self.cancel():
            assert self._purgatory is not None
            self._purgatory.delayed -= 1
        self.on_complete()
        return True

    def attempt(self, key: Hashable = None) -> bool:
        """Try to complete after a change of `key`; return whether this call completed the operation. Reentrant."""
        if self.completed:
            return False
        # try_complete -> answer -> next request of the connection -> append -> check of the watchers -> this attempt again:
        # note it, and try once more afterwards, because the condition may have changed meanwhile.
        if self._trying:
            self._again = True
            return False
        self._trying = True
        try:
            while True:
                self._again = False
                if self.try_complete() if key is None else self.try_complete_for(key):
                    return True
                if self.completed or not self._again:
                    return False
                key = None
        finally:
            self._trying = False


class _Watchers:
    """The operations watched under one key, in order of arrival."""

    __slots__ = ("again", "key", "operations", "walking")

    def __init__(self, key: Hashable) -> None:
        self.key = key
        self.operations: list[DelayedOperation] = []
        self.walking = False
        self.again = False

    def complete(self) -> int:
        """Try every operation; return the number completed by this call."""
        if self.walking:
            self.again = True
            return 0
        self.walking = True
        completed = 0
        try:
            self.again = True
            while self.again:
                self.again = False
                walked, self.operations = self.operations, []
                waiting = []
                for operation in walked:
                    if operation.completed:
                        continue
                    if _try(operation, self.key):
                        completed += 1
                    elif not operation.completed:
                        waiting.append(operation)
                self.operations[:0] = waiting  # before the operations that were added meanwhile
        finally:
            self.walking = False
        return completed

    def purge(self) -> None:
        self.operations = [operation for operation in self.operations if not operation.completed]


def _try(operation: DelayedOperation, key: Hashable) -> bool:
    try:
        return operation.attempt(key)
    except Exception:  # noqa: BLE001 - logged
        # The operation stays watched unless it is completed. The operations after it must be tried.
        _log.exception("%s: trying to complete it failed", type(operation).__name__)
        return False


class Purgatory:
    """The waiting operations of one kind."""

    def __init__(self, name: str, alarms: Timers, purge_interval: int = 1000, most: float = math.inf) -> None:
        """`most`: the most operations that wait at one time."""
        self.name = name
        self._alarms = alarms
        self._purge_interval = purge_interval
        self._now_ms = alarms.clock.now_ms
        self._wheel: Final = TimingWheel(self._now_ms)
        self.watchers: Final[dict[Hashable, _Watchers]] = {}
        """The waiting operations by key: a change of any other key completes nothing. Read-only outside."""
        self._estimate = 0
        self._gauge = Gauge(
            f"purgatory {name}: operations in its lists, completed ones included",
            most + max(purge_interval, most),
            "operations",
            bounded_by="the requests in service of all connections",
        )
        self._alarm: Timer | None = None
        self._alarm_ms = float("inf")
        self.delayed = 0
        """Operations that wait, exactly (Kafka's NumDelayedOperations)."""

    @property
    def watched(self) -> int:
        """Entries in the watch lists, dead ones included (Kafka's PurgatorySize)."""
        return sum(len(watchers.operations) for watchers in self.watchers.values())

    def try_complete_else_watch(self, operation: DelayedOperation, keys: Iterable[Hashable]) -> bool:
        """Complete the operation if its condition holds, otherwise watch it under `keys`. Return whether it is completed."""
        if operation.attempt() or operation.completed:
            return True
        table = self.watchers
        for key in keys:
            watchers = table.get(key)
            if watchers is None:
                watchers = table[key] = _Watchers(key)
            watchers.operations.append(operation)
        self._estimate += 1
        # A change between the first attempt and the last watch list would be missed.
        if operation.attempt() or operation.completed:
            return True
        operation.deadline_ms = self._now_ms() + max(operation.delay_ms, 0)
        self._wheel.add(operation)
        operation._purgatory = self
        self.delayed += 1
        if operation.deadline_ms < self._alarm_ms:
            self._set_alarm(operation.deadline_ms)
        if self._estimate - self.delayed > max(self._purge_interval, self.delayed):
            self._purge()
        self._gauge.reached(self._estimate)
        return False

    def check_and_complete(self, key: Hashable) -> int:
        """Try the operations that wait for `key`; return the number completed by this call."""
        watchers = self.watchers.get(key)
        if watchers is None:
            return 0
        completed = watchers.complete()
        if not watchers.operations and not watchers.walking and self.watchers.get(key) is watchers:
            del self.watchers[key]
        return completed

    def advance(self) -> int:
        """Expire due operations; return the number completed by this call. Called by the alarm and by tests."""
        expired = 0
        for operation in self._wheel.collect(self._now_ms()):
            assert isinstance(operation, DelayedOperation)
            expired += self._expire(operation)
        return expired

    def close(self) -> None:
        """Drop all waiting operations without completing them."""
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm_ms = float("-inf")
        self.watchers.clear()

    def _expire(self, operation: DelayedOperation) -> bool:
        try:
            if operation.force_complete():
                operation.on_expiration()
                return True
        except Exception:  # noqa: BLE001 - logged
            _log.exception("%s: completing it after its time failed", type(operation).__name__)
        return False

    def _set_alarm(self, deadline_ms: float) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm_ms = deadline_ms
        self._alarm = self._alarms.call_at(deadline_ms, self._on_alarm)

    def _on_alarm(self) -> None:
        if self._alarm_ms == float("-inf"):
            return
        self._alarm, self._alarm_ms = None, float("inf")
        self.advance()
        deadline_ms = self._wheel.next_deadline_ms()
        if deadline_ms is not None and deadline_ms < self._alarm_ms:
            self._set_alarm(deadline_ms)

    def _purge(self) -> None:
        # The estimate is set before the sweep: an operation that completes during the sweep makes it too high, never too low.
        self._estimate = self.delayed
        for key, watchers in list(self.watchers.items()):
            if not watchers.walking:
                watchers.purge()
                if not watchers.operations:
                    del self.watchers[key]
