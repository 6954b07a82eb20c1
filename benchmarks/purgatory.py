"""Purgatory: the rate at which it is saturated, beside the design of Kafka 0.8 (lists, scans and a heap).

The published experiment: requests arrive at random (exponential), each is completed after a log-normal time, or expires
after 200 ms. In the low-timeout mix half are completed within 20 ms and three quarters within 60 ms, in the
high-timeout mix within 200 and 400 ms, so that half expire. All requests are watched under the same three keys.
Published, in requests a second: the old design was saturated at 40,000 (low) and 25,000 (high), the new one at no rate
they reached, and at 105,000.

Time here is virtual and cost is CPU time, so a busy machine changes little: a design is saturated at the rate at which
a second of arrivals costs a second of CPU. The driver's own loop is not counted."""

from __future__ import annotations

import gc
import heapq
import random
import statistics
import sys
import time
from collections.abc import Callable
from math import log
from typing import Any, Protocol

from streamactors.actors.dispatching.timing_wheel import Timer
from streamactors.broker.purgatory import DelayedOperation, Purgatory

REQUESTS = 1_000_000
PUBLISHED_PER_S = 105_000
ROUNDS = 2
PROBE_S = 1.5  # of virtual time
TIMEOUT_MS = 200.0
KEYS = ("key-0", "key-1", "key-2")
MIXES = {"low-timeout": (20.0, 60.0), "high-timeout": (200.0, 400.0)}
QUARTILE = 0.6745  # of the standard normal distribution
OLD_PURGE_INTERVAL = 1_000
IDLE_SCAN_MS = 200.0
NEVER = float("inf")


class Design(Protocol):
    """What the driver needs of either."""

    def watch(self, now_ms: float) -> Any: ...
    def complete(self, request: Any, now_ms: float) -> bool: ...
    def tick(self, now_ms: float) -> None: ...


class _Clock:
    def __init__(self) -> None:
        self.time_ms = 0.0

    def now_ms(self) -> float:
        return self.time_ms

    def wall_ms(self) -> int:
        return int(self.time_ms)


class _Request(DelayedOperation):
    __slots__ = ("design",)

    def __init__(self, design: New) -> None:
        super().__init__(TIMEOUT_MS)
        self.design = design

    def try_complete(self) -> bool:
        return False

    def on_complete(self) -> None:
        pass

    def on_expiration(self) -> None:
        self.design.expired += 1


class New:
    """Ours."""

    def __init__(self) -> None:
        self.clock = _Clock()
        self.expired = 0
        self._alarm: tuple[float, Callable[[], object]] | None = None
        self._due_ms = NEVER
        self.purgatory = Purgatory("Benchmark", self)

    def call_at(self, deadline_ms: float, fn: Callable[[], object]) -> Timer:
        self._due_ms, self._alarm = deadline_ms, (deadline_ms, fn)
        timer = Timer()
        timer._bucket = None
        return timer

    def watch(self, now_ms: float) -> _Request:
        self.clock.time_ms = now_ms
        request = _Request(self)
        self.purgatory.try_complete_else_watch(request, KEYS)
        return request

    def complete(self, request: _Request, now_ms: float) -> bool:
        return request.force_complete()

    def tick(self, now_ms: float) -> None:
        if self._due_ms <= now_ms:
            self.clock.time_ms = now_ms
            assert self._alarm is not None
            self._due_ms, fn = NEVER, self._alarm[1]
            fn()


class _OldRequest:
    __slots__ = ("satisfied",)

    def __init__(self) -> None:
        self.satisfied = False


class Old:
    """Kafka 0.8: a list of watchers per key and one heap of deadlines. What is completed stays in both until a scan of
    everything, which comes after each expiry (or every 200 ms without one) as soon as they hold more than the purge
    interval."""

    def __init__(self) -> None:
        self.expired = 0
        self._watchers: dict[str, list[_OldRequest]] = {key: [] for key in KEYS}
        self._heap: list[tuple[float, int, _OldRequest]] = []
        self._count = 0
        self._next_scan_ms = IDLE_SCAN_MS

    def watch(self, now_ms: float) -> _OldRequest:
        request = _OldRequest()
        for key in KEYS:
            self._watchers[key].append(request)
        self._count += 1
        heapq.heappush(self._heap, (now_ms + TIMEOUT_MS, self._count, request))
        return request

    def complete(self, request: _OldRequest, now_ms: float) -> bool:
        if request.satisfied:
            return False
        request.satisfied = True
        return True

    def tick(self, now_ms: float) -> None:
        while self._heap and self._heap[0][0] <= now_ms:
            request = heapq.heappop(self._heap)[2]
            if not request.satisfied:
                request.satisfied = True
                self.expired += 1
                self._scan(now_ms)
        if now_ms >= self._next_scan_ms:
            self._scan(now_ms)

    def _scan(self, now_ms: float) -> None:
        self._next_scan_ms = now_ms + IDLE_SCAN_MS
        if sum(map(len, self._watchers.values())) >= OLD_PURGE_INTERVAL:
            for key, watchers in self._watchers.items():
                self._watchers[key] = [request for request in watchers if not request.satisfied]
        if len(self._heap) >= OLD_PURGE_INTERVAL:
            self._heap = [entry for entry in self._heap if not entry[2].satisfied]
            heapq.heapify(self._heap)


class Nothing:
    """The driver's own cost."""

    def watch(self, now_ms: float) -> object:
        return None

    def complete(self, request: object, now_ms: float) -> bool:
        return True

    def tick(self, now_ms: float) -> None:
        pass


Event = tuple[float, int]  # time in ms, number of the request; negative: its completion


def events(mix: str, requests: int, rate_per_s: float, seed: int = 1) -> list[Event]:
    """Return arrivals (n) and completions (~n) in the order of time."""
    rng = random.Random(seed)
    median, third_quartile = MIXES[mix]
    mu, sigma = log(median), log(third_quartile / median) / QUARTILE
    now_ms = 0.0
    made: list[Event] = []
    for number in range(requests):
        now_ms += rng.expovariate(rate_per_s) * 1000.0
        made.append((now_ms, number))
        made.append((now_ms + rng.lognormvariate(mu, sigma), ~number))
    made.sort()
    return made


def drive(design: Design, schedule: list[Event], limit_s: float = NEVER) -> float:
    """Run the schedule; return CPU seconds, or infinity when they pass the limit."""
    waiting: dict[int, Any] = {}
    watch, complete, tick, pop = design.watch, design.complete, design.tick, waiting.pop
    gc.collect()
    begin = time.process_time()
    for position, (now_ms, number) in enumerate(schedule):
        tick(now_ms)
        if number >= 0:
            waiting[number] = watch(now_ms)
        else:
            complete(pop(~number), now_ms)
        if not position & 0xFFF and time.process_time() - begin > limit_s:
            return NEVER
    return time.process_time() - begin


def utilisation(design: Callable[[], Design], mix: str, rate_per_s: float, requests: int) -> float:
    """Return CPU seconds per second of arrivals; infinity when it is far above 1."""
    schedule = events(mix, requests, rate_per_s)
    length_s = requests / rate_per_s
    driver_s = drive(Nothing(), schedule)
    return (drive(design(), schedule, 3 * length_s + driver_s) - driver_s) / length_s


def saturation(design: Callable[[], Design], mix: str) -> float:
    """Return the rate per second at which the design is saturated, by halving the interval four times."""
    low = 2_000.0
    while utilisation(design, mix, 2 * low, int(2 * low * PROBE_S)) < 1:
        low *= 2
    high = 2 * low
    for _ in range(4):
        middle = (low * high) ** 0.5
        if utilisation(design, mix, middle, int(middle * PROBE_S)) < 1:
            low = middle
        else:
            high = middle
    return (low * high) ** 0.5


def check_equal(mix: str) -> None:
    """Both designs must expire the same requests."""
    schedule = events(mix, 5_000, 20_000)
    new, old = New(), Old()
    drive(new, schedule)
    drive(old, schedule)
    if new.expired != old.expired or not new.expired:
        raise AssertionError(f"{mix}: ours expired {new.expired} requests, the old design {old.expired}")


def run(requests: int = REQUESTS) -> list[dict[str, Any]]:
    """Return two rows per mix: the rates of saturation, and ours at the published rate."""
    rows: list[dict[str, Any]] = []
    for mix in MIXES:
        check_equal(mix)
        high = mix == "high-timeout"
        rates = [(saturation(New, mix), saturation(Old, mix)) for _ in range(ROUNDS)]
        ratios = [ours / old for ours, old in rates]
        rows.append(
            {
                "name": f"saturated, {mix} mix",
                "value": round(statistics.median(ours for ours, _ in rates)),
                "unit": "requests/s of one core",
                "peer": f"old design {round(statistics.median(old for _, old in rates)):,}",
                "ratio": round(statistics.median(ratios), 2),
                "spread": f"{min(ratios):.2f}-{max(ratios):.2f}",
                "target": ">= 105,000 and >= 2 times the old design" if high else "",
            }
        )
        rows.append(
            {
                "name": f"{requests:,} requests at {PUBLISHED_PER_S:,}/s, {mix} mix",
                "value": round(utilisation(New, mix, PUBLISHED_PER_S, requests), 2),
                "unit": "of one core",
                "peer": "1.00 is saturated",
                "target": "< 1" if high else "",
            }
        )
    return rows


if __name__ == "__main__":
    for row in run(int(sys.argv[1]) if len(sys.argv) > 1 else REQUESTS):
        print(row)
