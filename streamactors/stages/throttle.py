"""throttle: keep a rate, by waiting (shaping) or by failing (enforcing).

Elements wait in the connection until their time has come, so marks pass at once, exactly."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from streamactors.clock import Duration
from streamactors.engine.connection import Connection
from streamactors.engine.logic import Logic
from streamactors.engine.marks import EXACT
from streamactors.engine.stage import In, Stage
from streamactors.errors import BuildError, RateExceeded
from streamactors.stages.calling import CallingLogic
from streamactors.stages.checks import at_least, plain_function, positive, span_ms
from streamactors.stages.token_bucket import TokenBucket

AUTOMATIC_BURST_MS = 100.0


class Throttle(Stage[In, In]):
    """Let through n elements, or elements of a total cost of n, per `per`, after a burst of at most `burst`.

    A token bucket that begins full. `burst` None: what the rate gives in 100 ms, at least 1; 0: not even the first comes at once.
    `cost(element)` says how many tokens an element takes. Mode "shaping" delays elements that come too fast, "enforcing" fails.
    Emits when: upstream does and its tokens are there.   Backpressures when: downstream does, or tokens are missing (shaping).
    Completes when: upstream completes.           Cancels when: downstream cancels.
    Fails when: an element comes and tokens are missing (enforcing), with RateExceeded.
    Supervision: resume and restart drop an element for which `cost` raised.
    Marks: at once, exact.
    """

    handling = EXACT

    def __init__(
        self,
        n: int,
        per: Duration = "1s",
        burst: int | None = None,
        cost: Callable[[Any], float] | None = None,
        mode: str = "shaping",
    ) -> None:
        positive("throttle", "n", n)
        per_ms = span_ms("throttle", "per", per)
        self._interval_ms = per_ms / n
        if mode not in ("shaping", "enforcing"):
            raise BuildError(f'throttle: mode must be "shaping" or "enforcing", got {mode!r}')
        self._enforcing = mode == "enforcing"
        if burst is None:
            burst = max(1, int(AUTOMATIC_BURST_MS / self._interval_ms))
        self._burst = at_least("throttle", "burst", burst, 1 if self._enforcing else 0)
        self._cost = cost if cost is None else plain_function("throttle", cost)
        self._rate = f"{n} per {per_ms:g} ms"

    def logic(self) -> Logic:
        return _ThrottleLogic(self._interval_ms, self._burst, self._cost, self._enforcing, self._rate)


class _ThrottleLogic(CallingLogic):
    def __init__(
        self, interval_ms: float, burst: int, cost: Callable[[Any], float] | None, enforcing: bool, rate: str
    ) -> None:
        self.fn: Any = cost
        self._interval_ms = interval_ms
        self._burst = burst
        self._enforcing = enforcing
        self._rate = rate
        self._paid = False  # the next element has waited for its tokens

    def on_start(self) -> None:
        super().on_start()
        self._bucket = TokenBucket(self._burst, self._interval_ms, self.interpreter.now_ms())

    def ask(self, asked: int) -> None:
        if self.is_timer_active("tokens"):
            return  # the next element waits for its tokens
        if not self._enforcing:
            asked = min(asked, max(1, int(self._bucket.available(self.interpreter.now_ms()))))
        super().ask(asked)

    def on_push(self, in_: Connection) -> None:
        if not self.is_timer_active("tokens"):
            super().on_push(in_)

    def loop(self, feed: Iterator[Any], out: list[Any], stop: list[int]) -> None:
        now_ms = self.interpreter.now_ms()
        bucket = self._bucket
        cost = self.fn
        if self._paid:
            self._paid = False
            out += islice(feed, 1)
        if cost is None:
            n = min(feed.__length_hint__(), int(bucket.available(now_ms)))  # type: ignore[attr-defined]
            bucket.offer(n, now_ms)
            out += islice(feed, n)
            if feed.__length_hint__():  # type: ignore[attr-defined]
                self._wait(bucket.offer(1, now_ms))
            return
        for element in feed:
            delay_ms = bucket.offer(cost(element), now_ms)
            if delay_ms:
                self.back = 1
                self._wait(delay_ms)
                return
            out.append(element)
            if stop:
                return

    def _wait(self, delay_ms: float) -> None:
        if self._enforcing:
            self.over = RateExceeded(
                f"{self.name}: more than {self._rate} (burst {self._burst}): the next element comes {delay_ms:g} ms too "
                'early; slow its source down, allow a larger burst, or let mode="shaping" delay it'
            )
        else:
            self.schedule_once("tokens", delay_ms)

    def on_timer(self, key: object) -> None:
        self._paid = True
        if self.out.asked:
            self.ask(self.out.asked)

    def snapshot_state(self) -> str:
        return "waits for tokens" if self.is_timer_active("tokens") else ""
