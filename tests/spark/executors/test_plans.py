"""What the driver tells the planner of a query on executors, for each kind of source and with or without windows."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from streamactors.kafka import ConsumerSettings, Subscriptions
from streamactors.kafka.reading.messages import Commits
from streamactors.kafka.subscriptions import Subscription, TopicPartition
from streamactors.spark.errors import SparkError
from streamactors.spark.executors.planner import Plans
from streamactors.spark.executors.runner import GraphRun, plans_of

FIRST = {"0/b-1": 5, "0/a-0": 3}
SETTINGS = ConsumerSettings("nowhere:1", group_id="g")


def plans(
    subscription: Subscription, *, until_end: bool = False, commits: Commits = Commits.NOBODY, **choices: Any
) -> Plans:
    plan: Any = SimpleNamespace(settings=SETTINGS, subscription=subscription, until_end=until_end, commits=commits)
    positions: Any = SimpleNamespace(ends=lambda: {"a-0": 9, "b-1": 7})
    return plans_of(plan, positions, FIRST, **{"max_rows": 10, "target_ms": 5.0, "skip_lost": True, **choices})


def test_a_plan_without_windows_has_no_times_and_no_state() -> None:
    found = plans(Subscriptions.topics("a", "b"))
    assert (found.windows, found.idle_after_ms, found.state_folder) == (False, None, "")
    assert (found.max_rows, found.target_ms, found.skip_lost, found.first) == (10, 5.0, True, FIRST)
    assert found.topics == ("a", "b")
    assert (found.drain_file, found.note, found.source) == ("", "", None)


@pytest.mark.parametrize("idle_after_ms", [None, 30_000])
def test_a_plan_with_windows_knows_when_a_partition_is_silent(idle_after_ms: int | None) -> None:
    windows = SimpleNamespace(factory=SimpleNamespace(idle_after_ms=idle_after_ms))
    found = plans(Subscriptions.topics("a", "b"), windows=windows, state_folder="ck/state")
    assert (found.windows, found.idle_after_ms, found.state_folder) == (True, idle_after_ms, "ck/state")


def test_only_a_source_that_ends_has_ends() -> None:
    assert plans(Subscriptions.topics("a", "b"), until_end=True).ends == {"0/a-0": 9, "0/b-1": 7}
    assert plans(Subscriptions.topics("a", "b")).ends is None


@pytest.mark.parametrize("commits", list(Commits))
def test_only_a_source_that_commits_what_is_done_lets_the_planner_commit(commits: Commits) -> None:
    assert plans(Subscriptions.topics("a", "b"), commits=commits).commits is (commits is Commits.MARKS)


def test_topics_may_grow_and_assigned_partitions_may_not() -> None:
    parts = TopicPartition("a", 0), TopicPartition("b", 1)
    assert plans(Subscriptions.assignment(*parts)).topics == ()
    assert plans(Subscriptions.topic_pattern("[ab]")).topics == ("a", "b")


def test_a_control_that_wants_to_move_a_running_query_is_told_what_to_do_instead() -> None:
    with pytest.raises(SparkError, match=r"^Rewind: executors read ranges that Spark's batches name; stop the query"):
        GraphRun.asked(SimpleNamespace(), type("Rewind", (), {})())  # type: ignore[arg-type]
