"""Dead letters, messages that no actor will receive: they are counted, logged at a limited rate, and given to subscribers.

Owner: an actor system. Thread-safe.
"""

from __future__ import annotations

import itertools
import logging
import threading
from collections.abc import Callable
from typing import Any, Final

from thespian.actors import ActorAddress, DeadEnvelope

from streamactors.clock import Clock
from streamactors.log_limit import LogLimit, log_limited

_log = logging.getLogger("streamactors.actors")

_LOGGED_AT_ONCE: Final = 10
_LOG_INTERVAL_MS: Final = 10_000.0


class Subscription:
    """Returned by `subscribe`; `cancel()` ends it."""

    __slots__ = ("_owner", "callback")

    def __init__(self, owner: DeadLetters, callback: Callable[[DeadEnvelope], object]) -> None:
        self._owner = owner
        self.callback = callback

    def cancel(self) -> None:
        self._owner.forget(self)


class DeadLetters:
    """The dead letters of one system."""

    def __init__(self, system_name: str, clock: Clock) -> None:
        self._system_name = system_name
        self._clock = clock
        self._lock = threading.RLock()  # for changes of the subscriptions
        self._subscriptions: tuple[Subscription, ...] = ()
        self._numbers = itertools.count(1)
        self._count = 0
        self._unlogged = 0
        self._limit = LogLimit(now_s=lambda: clock.now_ms() / 1_000)
        self._next_log_ms = float("-inf")

    @property
    def count(self) -> int:
        """Number of dead letters so far."""
        return self._count

    def subscribe(self, callback: Callable[[DeadEnvelope], object]) -> Subscription:
        """Call `callback(envelope)` for every dead letter (`.deadMessage`, `.deadAddress`), on the sender's thread."""
        subscription = Subscription(self, callback)
        with self._lock:
            self._subscriptions = (*self._subscriptions, subscription)
        return subscription

    def forget(self, subscription: Subscription) -> None:
        """End a subscription."""
        with self._lock:
            self._subscriptions = tuple(other for other in self._subscriptions if other is not subscription)

    def publish(self, address: ActorAddress, message: Any) -> DeadEnvelope:
        """Count and log a message that `address` did not receive, and call the subscribers; return it in its envelope."""
        envelope = DeadEnvelope(address, message)
        self._count = next(self._numbers)
        self._log(address, message)
        for subscription in self._subscriptions:
            try:
                subscription.callback(envelope)
            except Exception as error:  # noqa: BLE001 - the sender is not to blame
                log_limited(
                    _log, logging.ERROR, (self._system_name, type(error)),
                    "actor system %r: a subscriber of dead letters raised", self._system_name, exc_info=error,
                )  # fmt: skip
        return envelope

    def _log(self, address: ActorAddress, message: Any) -> None:
        """Log the first ten, then one line every ten seconds, and those of one kind to one actor once a second. Count the others."""
        now_ms = self._clock.now_ms()
        waits = self._count > _LOGGED_AT_ONCE and now_ms < self._next_log_ms
        if waits or self._limit.admit((type(message), str(address))) is None:
            self._unlogged += 1
            return
        left_out, self._unlogged = self._unlogged, 0
        self._next_log_ms = now_ms + _LOG_INTERVAL_MS
        _log.warning(
            "actor system %r: dead letter %d: %s for %s, which is stopped%s",
            self._system_name,
            self._count,
            type(message).__name__,
            address,
            f" ({left_out} more since the last line)" if left_out else "",
        )
