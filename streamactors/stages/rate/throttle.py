"""throttle: keep a rate, by delaying elements (shaping) or by failing (enforcing).

Elements wait in the connection until there are tokens for them, so marks pass at once and exactly."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from streamactors.durations import Duration
from streamactors.engine.island.connection import Connection
from streamactors.engine.logic import logic_of
from streamactors.engine.marks.marks import EXACT
from streamactors.engine.stage import In, Stage
from streamactors.engine.stage_traits import StageTraits
from streamactors.errors import BuildError, RateExceeded
from streamactors.stages.bases.elementwise import ElementwiseLogic
from streamactors.stages.checks import at_least, plain_function, positive, span_ms
from streamactors.stages.rate.token_bucket import TokenBucket

AUTOMATIC_BURST_MS = 100.0


class Throttle(Stage[In, In]):
    """The stage of `Source.throttle`."""

    traits = StageTraits(ends_with_inputs=True)
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
        self.interval_ms = per_ms / n
        if mode not in ("shaping", "enforcing"):
            raise BuildError(f'throttle: mode must be "shaping" or "enforcing", got {mode!r}')
        self.enforcing = mode == "enforcing"
        if burst is None:
            burst = max(1, int(AUTOMATIC_BURST_MS / self.interval_ms))
        self.burst = at_least("throttle", "burst", burst, 1 if self.enforcing else 0)
        self.fn = cost if cost is None else plain_function("throttle", cost)
        self.rate = f"{n} per {per_ms:g} ms"


@logic_of(Throttle)
class _ThrottleLogic(ElementwiseLogic):
    stage: Throttle[Any]
    only_waits = True
    _paid = False  # the next element has waited for its tokens

    def on_start(self) -> None:
        super().on_start()
        self._bucket = TokenBucket(self.stage.burst, self.stage.interval_ms, self.interpreter.now_ms())

    def ask(self, asked: int) -> None:
        if self.is_timer_active("tokens"):
            return  # the next element waits for its tokens
        if not self.stage.enforcing:
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
            n = min(feed.__length_hint__(), int(bucket.available(now_ms)))
            bucket.offer(n, now_ms)
            out += islice(feed, n)
            if feed.__length_hint__():
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
        if self.stage.enforcing:
            self.over = RateExceeded(
                f"{self.name}: more than {self.stage.rate} (burst {self.stage.burst}): the next element comes {delay_ms:g} ms too "
                'early; slow its source down, allow a larger burst, or let mode="shaping" delay it'
            )
        else:
            self.schedule_once("tokens", delay_ms)

    def on_timer(self, key: object) -> None:
        self._paid = True
        if self.out.asked:
            self.ask(self.out.asked)

    def told_limit(self) -> str:
        return f"lets {1000 / self.stage.interval_ms:,.6g} {'elements' if self.fn is None else 'units of cost'} a second pass"

    def snapshot_state(self) -> str:
        return "waits for tokens" if self.is_timer_active("tokens") else ""
