"""Times: a bare number is seconds where somebody waits and milliseconds of event time; strings and timedeltas are the same in both."""

from __future__ import annotations

import importlib
import inspect
import re
import warnings
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from streamactors import ActorSystem, RestartSettings, Sink, Source, StreamTimeout, VirtualClock, Watchdog
from streamactors.durations import duration_ms, duration_s, event_ms, whole_ms
from streamactors.errors import BuildError
from streamactors.kafka import Control, DrainingControl, RetryTopics
from streamactors.testing import Marbles, TopologyDriver
from streamactors.windows import JoinWindows, KeyValueStore, SessionWindows, TimeWindows
from tools.public_api import PACKAGES

SPELLED = [
    ("250ms", 250),
    ("1.5s", 1_500),
    ("2m", 120_000),
    ("1h30m", 5_400_000),
    ("7d", 604_800_000),
    (" 1 s ", 1_000),
    ("5 seconds", 5_000),
    ("1 second", 1_000),
    ("1 hour 30 minutes", 5_400_000),
    ("20 milliseconds", 20),
    ("2days 1ms", 172_800_001),
    ("1 week", 604_800_000),
    (timedelta(minutes=2), 120_000),
]


@pytest.mark.parametrize(("value", "ms"), SPELLED)
def test_strings_and_timedeltas_are_the_same_for_waits_and_for_event_time(value: Any, ms: int) -> None:
    assert duration_ms(value, "x") == event_ms(value, "x") == whole_ms(value, "x") == ms
    assert duration_s(value, "x") == ms / 1_000


def test_a_bare_number_is_seconds_of_a_wait_and_milliseconds_of_event_time() -> None:
    assert (duration_s(5, "x"), duration_ms(5, "x"), whole_ms(5, "x"), event_ms(5_000, "x")) == (5, 5_000, 5_000, 5_000)


@pytest.mark.parametrize(("seconds", "ms"), [(0.25, 250), (1.001, 1_001), (0.0005, 0.5), (0, 0), (86_400, 86_400_000)])
def test_a_fraction_of_seconds_is_exact_in_milliseconds(seconds: float, ms: float) -> None:
    assert duration_ms(seconds, "x") == ms


def test_a_timeout_may_be_infinite_and_a_span_may_not() -> None:
    assert duration_s(float("inf"), "x") == float("inf")
    with pytest.raises(ValueError, match="x: not a duration: inf; it must be finite"):
        duration_ms(float("inf"), "x")


@pytest.mark.parametrize(
    "text", ["", "5", "s", "1x", "5 secs", "1 fortnight", "5 seconds later", "1s,", "-1s", float("nan")]
)
def test_what_is_no_duration_is_refused_by_name_with_the_way_out(text: Any) -> None:
    for convert in (duration_ms, duration_s, whole_ms):
        with pytest.raises(ValueError, match=r"delay: not a duration: .*5 \(seconds\) or timedelta"):
            convert(text, "delay")


@pytest.mark.parametrize("value", [None, True, [1]])
def test_what_cannot_be_a_duration_is_a_type_error(value: Any) -> None:
    with pytest.raises(TypeError, match=r"delay: not a duration: .*5 \(seconds\)"):
        duration_ms(value, "delay")
    with pytest.raises(BuildError, match="idle_after: not a duration"):
        whole_ms(value, "idle_after")


@pytest.mark.parametrize("value", ["soon", "", None, True, 1.5, [1]])
def test_what_is_no_span_of_event_time_is_refused_with_the_way_out_in_milliseconds(value: Any) -> None:
    with pytest.raises(BuildError, match=r"size is .*, which is not a duration; .*5000 \(milliseconds\)"):
        event_ms(value, "size")


@pytest.mark.parametrize("convert", [whole_ms, event_ms])
def test_what_is_finer_than_a_millisecond_or_too_small_or_too_long_is_refused(convert: Callable[..., int]) -> None:
    for value, why in (
        ("1.5ms", "whole milliseconds"),
        (timedelta(seconds=-1), "not be negative"),
        ("1e9d", "duration"),
    ):
        with pytest.raises(BuildError, match=why):
            convert(value, "x")
    with pytest.raises(BuildError, match="at least 1 ms"):
        convert(0, "x", minimum=1)
    with pytest.raises(BuildError, match="does not fit in 64 bits"):
        convert("9999999999999999d", "x")


# ── a number that is surely meant in the other unit ───────────────────────────────────────────────────────────────────


def test_a_wait_of_most_of_a_day_is_questioned_at_the_line_of_the_call() -> None:
    with pytest.warns(UserWarning, match="delay") as caught:
        Source.single(1).delay(60_000)
    assert str(caught[0].message) == (
        "delay: delay is 60000: a bare number of a wait is seconds, so this is 16.7 hours; "
        'write "60s" if that was meant, otherwise "60000s"'
    )
    assert (caught[0].filename, len(caught)) == (__file__, 1)


def test_a_window_of_sixty_milliseconds_is_questioned_at_the_line_of_the_call() -> None:
    with pytest.warns(UserWarning, match="size") as caught:
        TimeWindows.of_size(60)
    assert str(caught[0].message) == (
        "TimeWindows: size is 60: a bare number of event time is milliseconds, so this is 60 ms; "
        'write "60s" if that was meant, otherwise "60ms"'
    )
    assert (caught[0].filename, len(caught)) == (__file__, 1)


@pytest.mark.parametrize(
    "doubtful",
    [
        lambda: RestartSettings(30, 600_000),
        lambda: Source.single(1).throttle(1, per=60_000),
        lambda: Source.tick(0, 3_600_000, "x"),
        lambda: TimeWindows.of_size(3_600),
        lambda: SessionWindows.with_gap(30),
        lambda: JoinWindows.of(86_400),
        lambda: TimeWindows.of_size("1h").with_grace(300),
        lambda: KeyValueStore("seen", ttl=604_800),
    ],
)
def test_one_call_is_one_question(doubtful: Callable[[], object]) -> None:
    with pytest.warns(UserWarning, match="a bare number of") as caught:
        doubtful()
    assert len(caught) == 1


def test_a_line_that_runs_again_is_questioned_once() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for _ in range(3):
            TimeWindows.of_size(60)
    assert len(caught) == 1


def test_other_spellings_and_numbers_that_may_be_meant_are_not_questioned() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for wait in (0, 5, 3_600, 86_400, 604_800, "60000s", timedelta(days=3)):
            duration_ms(wait, "x")
        assert duration_s(float("inf"), "x") == float("inf")
        for span in (0, 100, 500, 1_000, 60_000, "60ms", timedelta(milliseconds=60)):
            event_ms(span, "x")


# ── what takes which ──────────────────────────────────────────────────────────────────────────────────────────────────

TIME = re.compile(
    r"(timeout|delay|interval|duration|period|within|backoff|linger|grace|gap|retention|ttl|idle|stall_after)", re.I
)
UNIT_IN_NAME = re.compile(r"_(ms|s|us|at)$")


def public_parameters() -> Iterator[tuple[str, inspect.Parameter]]:
    """Yield every parameter of a public function, class or method, with its full name."""
    for package in PACKAGES:
        module = importlib.import_module(f"streamactors{package}")
        for name in getattr(module, "__all__", []):
            value = getattr(module, name)
            methods = (
                [getattr(value, each) for each in dir(value) if not each.startswith("_")]
                if inspect.isclass(value)
                else []
            )
            for each in (value, *methods):
                ours = (getattr(each, "__module__", "") or "").startswith("streamactors")
                if not callable(each) or not ours:
                    continue
                try:
                    parameters = inspect.signature(each).parameters.values()
                except (TypeError, ValueError):
                    continue
                where = getattr(each, "__qualname__", name)
                yield from ((f"{where}({p.name})", p) for p in parameters)


def test_a_public_parameter_that_takes_a_time_is_a_duration_or_an_event_span_or_names_its_unit() -> None:
    untyped = {
        f"{where}: {p.annotation}"
        for where, p in public_parameters()
        if TIME.search(p.name)
        and not UNIT_IN_NAME.search(p.name)
        and not re.search(r"\b(Duration|EventSpan)\b", str(p.annotation))
    }
    assert untyped == set()


def test_the_methods_that_wait_take_strings_too(actor_system: ActorSystem) -> None:
    never = Source.never().run_with(Sink.ignore(), actor_system)
    for given in ("1ms", timedelta(milliseconds=1), 0.001):
        with pytest.raises(TimeoutError, match=r"no result after 0\.001 s"):
            never.result(given)
    with pytest.raises(TimeoutError):
        DrainingControl(Control(), never).drain_and_shutdown(timeout="1ms")
    with pytest.raises(TimeoutError):
        Control().snapshot("1ms")
    with pytest.raises(ValueError, match="not a duration: 'soon'"):
        never.result("soon")


def test_operators_wait_for_a_number_of_seconds() -> None:
    clock = VirtualClock()
    with ActorSystem(clock=clock) as system:
        silent = Source.never().idle_timeout(5).run_with(Sink.ignore(), system)
        late = Source.single(1).delay(5).run_with(Sink.head(), system)
        clock.advance(4.9)
        assert not silent.done()
        assert not late.done()
        clock.advance(0.2)
        with pytest.raises(StreamTimeout, match="within 5000 ms"):
            silent.result("10s")
        assert late.result("10s") == 1


def test_settings_drivers_and_the_test_kit_take_seconds(actor_system: ActorSystem) -> None:
    assert RestartSettings(0.1, 5, random_factor=0).delay_ms(0) == 100
    assert RetryTopics("a", "a", delays=[10], dead_letters="d").delays == (10,)
    assert Watchdog(actor_system, 2, print)._after_ms == 2_000
    with Marbles(0.02) as marbles:
        marbles.expect(marbles.source("-a|").delay(0.02), "--(a|)")
    driver = TopologyDriver(lambda topics: topics.stream("in").to("out"), idle_after=1.5)
    driver.advance_wall_clock(2)
    assert driver._now_ms == 2_000
