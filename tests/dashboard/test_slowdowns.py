"""The stranger's test by the data of the page: one part of a pipeline becomes slow, and within ten seconds the first sentence on the page names it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.dashboard.slowdowns import CAUSE, PARTITIONS, SLOWDOWNS, TOPIC, WITHIN_S, Pipeline, held, pipeline, until

SETTINGS = {
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xss4m",
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": "1",
}


def flows(running: Pipeline, seconds: float, queries: int = 0) -> None:
    """Wait until every record is done that was written a moment ago, and nothing is said to hold a stream back."""

    def holds(state: dict[str, object]) -> bool:
        consumers: list[dict[str, list[dict[str, int]]]] = state["consumers"]  # type: ignore[assignment]
        partitions = [each for consumer in consumers for each in consumer["partitions"]]
        behind = max((each["position"] or 0) - (each["done"] or 0) for each in partitions) if partitions else 0
        spark: list[dict[str, int]] = state["spark"]  # type: ignore[assignment]
        begun = len(spark) == queries and all((each["batch"] or 0) > 1 for each in spark)
        there = len(consumers) == 1 + queries and len(partitions) == PARTITIONS * len(consumers)
        return there and begun and behind < 1_500 and not held(state)

    state = until(running, holds, seconds)
    assert holds(state), held(state)


def named(running: Pipeline, what: str) -> None:
    """Make one part slow, and expect its name in the first sentence."""
    running.slow(what)
    state = until(running, lambda state: CAUSE[what] in (held(state) or [""])[0], WITHIN_S)
    assert CAUSE[what] in (held(state) or [""])[0], (what, state["banners"])
    running.slow(None)


@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.parametrize("what", ["sink", "partition", "disk"])
def test_the_first_sentence_names_what_is_slow(tmp_path: Path, what: str) -> None:
    with pipeline(tmp_path, None) as running:
        flows(running, 30)
        named(running, what)
        if what == "partition":
            rows = running.page.state()["consumers"][0]["partitions"]
            late = max(rows, key=lambda row: (row["end"] or row["position"]) - row["done"])
            assert f"{TOPIC}-{late['partition']}" == CAUSE[what]


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.expects_log("Spark has not started after 3 s")
def test_a_stranger_finds_each_of_five_causes_within_ten_seconds(tmp_path: Path) -> None:
    from streamactors.spark import spark_session

    with pipeline(tmp_path, spark_session("slowdowns", **SETTINGS)) as running:
        for what in SLOWDOWNS:
            flows(running, 90, queries=1)
            named(running, what)
