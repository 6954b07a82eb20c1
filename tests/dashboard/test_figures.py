"""Figures on the page equal what an independent client computes: ends, commits, lag in records and in seconds, rates, lag of groups."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import confluent_kafka as ck
import pytest

from tests.dashboard.slowdowns import PARTITIONS, SLOW_PARTITION, TOPIC, Pipeline, pipeline, until

GROUP = "store"


@contextmanager
def independent(running: Pipeline, group: str) -> Iterator[Any]:
    """Give a client that knows nothing of the page, and belongs to no group."""
    servers = running.bootstrap
    client = ck.Consumer({"bootstrap.servers": servers, "group.id": group, "enable.auto.commit": False})
    try:
        yield client
    finally:
        client.close()


def ends(client: Any) -> dict[int, int]:
    return {n: client.get_watermark_offsets(ck.TopicPartition(TOPIC, n), 20)[1] for n in range(PARTITIONS)}


def committed(client: Any) -> dict[int, int]:
    asked = [ck.TopicPartition(TOPIC, n) for n in range(PARTITIONS)]
    return {each.partition: max(0, each.offset) for each in client.committed(asked, 20)}


def rows(running: Pipeline) -> tuple[dict[str, Any], dict[int, dict[str, Any]]]:
    """Return a state that was made after the call, and its partitions by number."""
    asked_ms = int(time.time() * 1000)
    state = until(running, lambda state: state["at_ms"] > asked_ms + 100)
    return state, {each["partition"]: each for each in state["consumers"][0]["partitions"]}


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_ends_commits_lag_and_rates_are_between_two_looks_of_an_independent_client(tmp_path: Path) -> None:
    with pipeline(tmp_path, None) as running, independent(running, GROUP) as client:
        until(
            running,
            lambda state: (
                sum((p["done"] or 0) > 200 for c in state["consumers"] for p in c["partitions"]) == PARTITIONS
            ),
        )
        first, first_s = ends(client), time.monotonic()
        time.sleep(4.0)
        ends_before, committed_before = ends(client), committed(client)
        state, found = rows(running)
        ends_after, committed_after, last_s = ends(client), committed(client), time.monotonic()
        broker = state["broker"]
    assert found.keys() == set(range(PARTITIONS))
    for n, row in found.items():
        assert ends_before[n] - 100 <= row["end"] <= ends_after[n], "the end is that of the last fetch"
        assert committed_before[n] - 200 <= (row["committed"] or 0) <= committed_after[n]
        assert (row["committed"] or 0) <= row["done"] <= row["position"] <= ends_after[n]
        assert row["lag"] == row["end"] - row["done"] or row["lag"] <= ends_after[n] - row["done"]
        rate = (ends_after[n] - first[n]) / (last_s - first_s)
        assert row["per_s"] == pytest.approx(rate, rel=0.4)
    total = (sum(ends_after.values()) - sum(first.values())) / (last_s - first_s)
    (topic,) = [each for each in broker["topics"] if each["name"] == TOPIC]
    assert topic["messages_per_s"] == pytest.approx(total, rel=0.4)
    (group,) = [each for each in broker["groups"] if each["id"] == GROUP]
    assert 0 <= group["lag"] <= sum(ends_after.values()) - sum(committed_before.values()) + 4_000
    for each in broker["partitions"]:
        if each["topic"] == TOPIC:
            assert first[each["partition"]] <= each["end"] <= ends_after[each["partition"]]


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_lag_in_seconds_is_the_age_of_the_oldest_record_that_is_not_done(tmp_path: Path) -> None:
    with pipeline(tmp_path, None) as running, independent(running, "other") as client:
        until(
            running,
            lambda state: sum((p["done"] or 0) > 50 for c in state["consumers"] for p in c["partitions"]) == PARTITIONS,
        )
        running.slow("partition")
        time.sleep(8.0)
        state, found = rows(running)
        row = found[SLOW_PARTITION]
        client.assign([ck.TopicPartition(TOPIC, SLOW_PARTITION, row["done"])])
        message = client.poll(20)
        assert message is not None
        assert message.offset() == row["done"]
        age_s = (state["at_ms"] - message.timestamp()[1]) / 1000
        running.slow(None)
    assert row["lag"] > 100
    assert row["lag_seconds"] == pytest.approx(age_s, abs=2.5), (
        "done may be a chunk further than the record whose age is known"
    )
    others = [each["lag_seconds"] or 0.0 for n, each in found.items() if n != SLOW_PARTITION]
    assert max(others) < row["lag_seconds"]
