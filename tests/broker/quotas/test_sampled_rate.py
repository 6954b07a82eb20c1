"""The rate of a quota equals a plain model of Kafka's Rate."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from streamactors.broker.quotas.sampled_rate import SampledRate

STEPS = st.lists(st.tuples(st.sampled_from([0, 1, 10, 250, 999, 1_000, 1_001, 3_000, 12_000]), st.integers(0, 10_000)))


class Model:
    """Kafka's Rate over samples, with every sample kept in a list."""

    def __init__(self, windows: int, window_ms: int) -> None:
        self.windows, self.window_ms = windows, window_ms
        self.samples: list[tuple[float, float]] = []

    def alive(self, now: float) -> list[tuple[float, float]]:
        return [(start, total) for start, total in self.samples if now - start < self.windows * self.window_ms]

    def record(self, value: float, now: float) -> None:
        if self.samples and now - self.samples[-1][0] < self.window_ms:
            start, total = self.samples.pop()
            self.samples.append((start, total + value))
        else:
            self.samples.append((now, value))

    def rate(self, now: float) -> float:
        alive = self.alive(now)
        elapsed = now - alive[0][0] if alive else 0
        while elapsed // self.window_ms < self.windows - 1:
            elapsed += self.window_ms
        return sum(total for _, total in alive) * 1_000 / max(elapsed, self.window_ms)


@given(STEPS, st.integers(1, 12))
def test_the_rate_is_that_of_the_model(steps: list[tuple[int, int]], windows: int) -> None:
    rate, model, now = SampledRate(windows, 1_000), Model(windows, 1_000), 0.0
    for wait, value in steps:
        now += wait
        rate.record(value, now)
        model.record(value, now)
        assert abs(rate.per_second(now) - model.rate(now)) < 1e-6


def test_a_burst_is_throttled_as_by_kafka() -> None:
    rate = SampledRate(11, 1_000)
    rate.record(20_000_000, 0)
    assert rate.per_second(0) == 2_000_000  # the ten windows before count as empty
    assert rate.throttle_ms(1_000_000, 0) == 10_000
    assert rate.throttle_ms(2_000_000, 0) == 0


def test_what_is_taken_back_is_not_counted() -> None:
    rate = SampledRate(11, 1_000)
    rate.record(500, 0)
    rate.record(300, 10)
    rate.record(-300, 20)
    assert rate.per_second(20) == 500 / 10.02
