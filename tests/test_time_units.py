"""Times: a parameter named `timeout` is seconds, every other span ms; both may be a text or a timedelta."""

from __future__ import annotations

import inspect
from datetime import timedelta
from typing import Any

import pytest

from streamactors import ActorSystem, Sink, Source, StreamTimeout, VirtualClock
from streamactors.clock import timeout_s
from streamactors.kafka import Control, DrainingControl
from tools.time_units import public_callables, times_of


def test_a_parameter_named_timeout_takes_seconds_text_and_timedelta() -> None:
    """The annotation says so for every public parameter of that name."""
    takes = {
        name: str(inspect.signature(value).parameters["timeout"].annotation)
        for name, value, _ in public_callables()
        if "timeout" in times_of(value) and not name.endswith((".Source.ask", ".Flow.ask"))  # typed by their overloads
    }
    assert "streamactors.actors.futures.StreamFuture.result" in takes
    wrong = {name: annotation for name, annotation in takes.items() if "Timeout" not in annotation}
    assert wrong == {}


@pytest.mark.parametrize(
    ("given", "seconds"), [(5, 5.0), (0.5, 0.5), ("250ms", 0.25), ("1m", 60.0), (timedelta(minutes=2), 120.0)]
)
def test_a_timeout_is_a_number_of_seconds_a_text_or_a_timedelta(given: Any, seconds: float) -> None:
    assert timeout_s(given) == seconds


@pytest.mark.parametrize("given", [True, "soon", None, float("nan"), [5]])
def test_anything_else_is_an_error_that_names_it(given: Any) -> None:
    with pytest.raises((TypeError, ValueError), match=r"not a (timeout|duration)"):
        timeout_s(given)


def test_the_methods_that_wait_take_texts_too(actor_system: ActorSystem) -> None:
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


def test_a_number_of_an_operator_named_timeout_is_seconds() -> None:
    """`idle_timeout(5)` was 5 ms, and `.result(5)` was 5 s."""
    clock = VirtualClock()
    with ActorSystem(clock=clock) as system:
        done = Source.never().idle_timeout(5).run_with(Sink.ignore(), system)
        clock.advance("4900ms")
        assert not done.done()
        clock.advance("200ms")
        with pytest.raises(StreamTimeout, match="within 5000 ms"):
            done.result("10s")
