"""SparkSinkSettings: what does not work is refused where it is written, without a session."""

from __future__ import annotations

from typing import Any

import pytest

from streamactors.errors import BuildError
from streamactors.spark import SparkSinkSettings
from streamactors.spark.sink.settings import SinkTarget


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"target_batch_s": 0}, "target_batch_s must be a positive number of seconds, got 0"),
        ({"target_batch_s": float("nan")}, "target_batch_s must be a positive number of seconds, got nan"),
        ({"target_batch_s": "5s"}, "target_batch_s must be a positive number of seconds, got '5s'"),
        ({"trigger": "sometimes"}, "trigger must be None"),
        ({"trigger": -1}, "trigger must be None"),
        ({"trigger": float("inf")}, "trigger must be None"),
        ({"dead_letters": 5}, "dead_letters"),
        ({"query_name": ""}, "query_name must be a string that is not empty"),
    ],
)
def test_a_setting_that_cannot_work_is_named(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(BuildError, match=f"SparkSinkSettings: {said}"):
        SparkSinkSettings(**settings)


def test_settings_are_copied_with_another_trigger_and_name() -> None:
    settings = SparkSinkSettings(dead_letters=print, bind="0.0.0.0")
    other = settings.with_trigger("5 seconds").with_query_name("hours")
    assert other == SparkSinkSettings(dead_letters=print, bind="0.0.0.0", trigger="5 seconds", query_name="hours")
    assert settings.trigger is settings.query_name is None
    with pytest.raises(BuildError, match="SparkSinkSettings: trigger must be None"):
        settings.with_trigger("sometimes")


def test_the_target_has_the_time_of_a_batch_and_the_trigger_as_spark_wants_them() -> None:
    settings = SparkSinkSettings(trigger=5, target_batch_s=1.5)
    target = SinkTarget(None, print, None, "ck", 10, settings)  # type: ignore[arg-type]
    assert (target.target_ms, target.trigger) == (1_500, {"processingTime": "5000 milliseconds"})
