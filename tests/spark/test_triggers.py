"""What a trigger may be: the same spans of time as a timeout. No Spark runs here."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from streamactors.durations import duration_s
from streamactors.errors import BuildError
from streamactors.spark.query.query import SparkStreamQuery
from streamactors.spark.sink.settings import trigger_of


@pytest.mark.parametrize("given", [5, 5.0, "5s", "5 seconds", "5000 ms", timedelta(seconds=5)])
def test_a_time_between_batches_is_what_a_timeout_is(given: Any) -> None:
    """A timedelta was refused as trigger, and "5 seconds" as timeout."""
    assert trigger_of("a sink", given) == {"processingTime": "5000 milliseconds"}
    assert duration_s(given, "trigger") == 5


@pytest.mark.parametrize("given", [0.001, "1 millisecond", timedelta(milliseconds=1)])
def test_a_query_is_waited_for_as_long_as_a_trigger_may_be(given: Any) -> None:
    assert trigger_of("a sink", given) == {"processingTime": "1 milliseconds"}
    assert not SparkStreamQuery().await_termination(given)


def test_the_triggers_without_a_time() -> None:
    assert trigger_of("a sink", None) == {}
    assert trigger_of("a sink", "available_now") == {"availableNow": True}


@pytest.mark.parametrize(
    "given",
    [
        float("inf"),
        float("nan"),
        0,
        -1,
        0.0001,
        1e12,
        True,
        "0 seconds",
        "5 fortnights",
        "5",
        "once",
        timedelta(0),
        [5],
    ],
)
@pytest.mark.filterwarnings("ignore:.*a bare number of a wait is seconds:UserWarning")
def test_any_other_trigger_is_refused_where_it_is_written(given: Any) -> None:
    """With an infinite one the sink raised an OverflowError, and Spark refused "5 fortnights" when the query started."""
    with pytest.raises(BuildError, match=r'a sink: trigger must be None, "available_now", or the time between batches'):
        trigger_of("a sink", given)
