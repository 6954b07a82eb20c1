"""Gauges: the highest level of a buffer, and the buffers that were above their bound."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from streamactors import gauges
from streamactors.gauges import Gauge, forget_overfull, live_gauges, overfull


@pytest.fixture(autouse=True)
def overfull_of_this_test() -> Iterator[None]:
    forget_overfull()
    yield
    forget_overfull()


def test_a_gauge_remembers_the_highest_level_of_its_buffer() -> None:
    gauge = Gauge("a queue", bound=8)
    for level in (3, 8, 1):
        gauge.reached(level)
    assert (gauge.level, gauge.highest) == (1, 8)
    assert gauge in live_gauges()
    assert not overfull()


def test_a_level_above_the_bound_is_listed_after_its_buffer_is_gone(caplog: pytest.LogCaptureFixture) -> None:
    Gauge("a mailbox", bound=2, unit="messages").reached(3)
    assert not [gauge for gauge in live_gauges() if gauge.name == "a mailbox"]
    assert [str(each) for each in overfull()] == ["a mailbox: 3 messages, and its bound is 2"]
    assert "a buffer holds more than it may: a mailbox" in caplog.text


def test_a_name_is_logged_once_and_listed_with_its_highest_level(caplog: pytest.LogCaptureFixture) -> None:
    for level in (5, 9, 7):
        Gauge("a stash", bound=2).reached(level)
    assert [each.highest for each in overfull()] == [9]
    assert len(caplog.records) == 1


@pytest.mark.expects_log("a buffer holds more than it may")
def test_the_list_of_overfull_buffers_has_a_bound_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gauges, "_MOST_NAMES", 3)
    for number in range(5):
        Gauge(f"queue {number}", bound=0).reached(1)
    assert [each.name for each in overfull()] == ["queue 0", "queue 1", "queue 2"]


def test_a_gauge_without_a_number_says_what_bounds_its_buffer() -> None:
    gauge = Gauge("open windows", unit="windows", bounded_by="their grace")
    gauge.reached(1e9)
    assert repr(gauge) == "<Gauge 'open windows', 1e+09 windows, bounded by their grace, highest 1e+09>"
    assert not overfull()
    with pytest.raises(ValueError, match="the gauge 'a queue' has no bound"):
        Gauge("a queue")
