"""The sentences on top of the page: which come, in which order, and what they name."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from streamactors import ActorSystem, Sink, Source
from streamactors.dashboard.banners import banners
from streamactors.dashboard.combining import combined
from streamactors.dashboard.model import (
    CauseState,
    ConsumerState,
    GraphState,
    OldestMark,
    PartitionState,
    StageState,
)
from streamactors.dashboard.model_cluster import (
    BrokerPartition,
    BrokerState,
    DiskState,
    NodeState,
    SparkState,
    TopicState,
)
from streamactors.dashboard.sampling import Sampler


def graph(*causes: CauseState, name: str = "flights") -> GraphState:
    stages = tuple(StageState(n, f"stage{n}", "map", 0, culprit=any(c.stage == n for c in causes)) for n in range(4))
    return GraphState("0", name, 1_000, stages, (), causes)


def partition(number: int, todo: int, **more: Any) -> PartitionState:
    return PartitionState("flights", number, position=1_000 + todo, done=1_000, end=1_000 + todo, **more)


def consumer(*todos: int, **more: Any) -> ConsumerState:
    rows = [partition(n, todo, **(more if todo == max(todos) else {})) for n, todo in enumerate(todos)]
    return ConsumerState("flights", "g", "", partitions=tuple(rows))


BUSY = CauseState(1, "works", 0.97, "stage1 works 97% of the time")
IDLE = CauseState(0, "source", 1.0, "stage0 has no elements 100% of the time")


def test_a_graph_in_which_nothing_is_slow_has_no_banner() -> None:
    assert banners([graph()]) == ()


def test_a_cause_that_is_not_marked_is_only_good_to_know() -> None:
    unmarked = replace(graph(BUSY), stages=tuple(replace(stage, culprit=False) for stage in graph(BUSY).stages))
    assert [each.holds for each in banners([unmarked])] == [False]


def test_a_cause_in_the_cluster_comes_before_the_graphs_that_suffer_from_it() -> None:
    node = NodeState(1, "broker", disk_write_ms_p99=150.0, disk_busy=0.9)
    found = banners([graph(BUSY)], broker=BrokerState((node,)))
    assert [each.kind for each in found] == ["broker", "works"]
    assert "broker 1: its disk is slow" in found[0].sentence
    assert "150 ms" in found[0].sentence


@pytest.mark.parametrize(("busy", "p99"), [(0.9, 1.0), (0.01, 150.0), (None, None)])
def test_a_disk_that_is_busy_or_slow_but_not_both_is_not_named(busy: float | None, p99: float | None) -> None:
    node = NodeState(1, "broker", disk_write_ms_p99=p99, disk_busy=busy)
    assert banners([], broker=BrokerState((node,))) == ()


def test_a_failed_disk_a_full_one_and_missing_replicas_are_named() -> None:
    disks = (DiskState("/a", 5, 100, 1), DiskState("/b", 5, 100, 50, "input/output error"))
    broker = BrokerState(
        (NodeState(2, "broker", disks=disks),),
        (TopicState("flights", 3, under_replicated=2),),
        (BrokerPartition("flights", 0, None, (), (1, 2)),),
    )
    said = [each.sentence for each in banners([], broker=broker)]
    assert "nearly full: 1% of /a is free" in said[0]
    assert "/b: input/output error" in said[1]
    assert "2 partitions have fewer replicas in sync" in said[2]
    assert "1 partition has no leader" in said[3]


def test_one_partition_that_is_far_behind_is_named_with_the_sink_that_waits_for_it() -> None:
    behind = consumer(3, 0, 900, 5, lag_seconds=12.0, oldest_mark=OldestMark(1_000, 9_000, "store"))
    (found,) = banners([graph()], [behind])
    assert (found.kind, found.graph) == ("partition", "0")
    for part in ("flights-2", "900", "12 s", "each of the other 3 has at most 5", "store"):
        assert part in found.sentence


@pytest.mark.parametrize("todos", [(0, 0, 50), (900, 880, 870), (900,), (900, 700, 1)])
def test_partitions_that_are_behind_together_or_hardly_behind_are_not_named(todos: Iterable[int]) -> None:
    assert banners([graph()], [consumer(*todos)]) == ()


def test_a_source_without_elements_says_whether_everything_has_been_read() -> None:
    (read,) = banners([graph(IDLE)], [consumer(0, 0)])
    assert not read.holds
    assert "everything in its topics has been read" in read.sentence
    unread = replace(consumer(), partitions=(PartitionState("flights", 0, position=10, end=5_000),))
    (slow,) = banners([graph(IDLE)], [unread])
    assert slow.holds
    assert "4,990 records are still unread" in slow.sentence
    (other,) = banners([graph(IDLE)])
    assert not other.holds


def test_a_source_is_not_blamed_where_something_else_holds_its_graph_back() -> None:
    """The sources of partitions had no demand of their own in the look, and the broker was called slow while a sink was."""
    unread = replace(consumer(), partitions=(PartitionState("flights", 0, position=10, end=5_000),))
    assert [each.kind for each in banners([graph(BUSY, IDLE)], [unread])] == ["works"]


def test_the_stage_that_works_most_is_named_first() -> None:
    less = replace(graph(replace(BUSY, share=0.53, sentence="look up holds elements"), name="store"), id="1")
    assert [each.graph for each in banners([less, graph(BUSY)])] == ["0", "1"]


def test_a_batch_that_spark_writes_for_long_is_named_if_as_many_rows_wait_for_the_next_one() -> None:
    slow = SparkState("q", "flights", writing_rows=2_000, writing_ms=8_000, gathered_rows=2_000)
    (found,) = banners([graph()], spark=[slow])
    assert (found.kind, found.graph) == ("spark", "0")
    assert "Spark is slow: it has been writing a batch of 2,000 rows for 8 s, and 2,000 rows wait" in found.sentence
    for other in (replace(slow, gathered_rows=100), replace(slow, writing_ms=1_000), replace(slow, writing_rows=0)):
        assert banners([graph()], spark=[other]) == ()


def test_spark_stays_named_between_two_batches_that_take_long() -> None:
    """The sentence went each time a batch had ended, until the next one had taken long, too."""
    slow = SparkState(
        "q", "flights", writing_rows=1_500, writing_ms=1_500, gathered_rows=300, rows=1_600, duration_ms=8_000
    )
    (found,) = banners([graph()], spark=[slow])
    assert "Spark is slow: its last batch of 1,600 rows took 8 s, and 300 rows have come in 2 s" in found.sentence
    keeps_up = replace(
        slow, gathered_rows=180
    )  # of a trigger that rests between batches: 200 rows a second are written, 120 come
    begins = replace(slow, writing_ms=400)
    for other in (keeps_up, begins, replace(slow, duration_ms=1_000), replace(slow, rows=0)):
        assert banners([graph()], spark=[other]) == ()


def test_blocked_stages_come_before_busy_ones_and_graphs_are_named_where_there_are_several() -> None:
    blocked = CauseState(2, "blocked", 1.0, "a function of stage2 has not returned for 12 s")
    found = banners([graph(BUSY), graph(blocked, name="other")])
    assert [each.sentence for each in found] == [
        "other: a function of stage2 has not returned for 12 s",
        "flights: stage1 works 97% of the time",
    ]


def test_states_of_several_processes_say_what_happens_in_their_cluster_once() -> None:
    def state(name: str) -> dict[str, Any]:
        process = {"name": name, "pid": 1, "host": "h", "started_ms": 0, "python": "", "streamactors": ""}
        process |= {"cpu_share": None, "rss_bytes": None}
        names = ("graphs", "consumers", "windows", "stores", "latency", "spark", "dead_letters", "stalls")
        parts: dict[str, Any] = {each: [] for each in names}
        said = [("limit", False, "throttle lets pass", "0"), ("broker", True, "broker 1: slow", None)]
        return {
            **parts, "process": process, "processes": [process], "broker": None,
            "banners": [{"kind": k, "holds": h, "sentence": s, "graph": g, "stage": None, "process": None} for k, h, s, g in said],
        }  # fmt: skip

    both = combined([state("one"), state("two")], 1)["banners"]
    assert [(each["sentence"], each["graph"], each["process"]) for each in both] == [
        ("broker 1: slow", None, "one"),
        ("one: throttle lets pass", "0:0", "one"),
        ("two: throttle lets pass", "1:0", "two"),
    ]


class Failing:
    """A reader that cannot read."""

    problem: str | None = None

    def read(self, now_s: float, runs: object) -> dict[str, Any]:
        raise LookupError("no such part\nERROR forged \x1b[31m")


class Waiting:
    problem: str | None = "the cluster does not answer"

    def read(self, now_s: float, runs: object) -> dict[str, Any]:
        return {}


@pytest.mark.expects_log("the page cannot read", "the page shows no newer")
def test_what_the_page_cannot_read_is_on_the_page_and_once_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    # It was said at DEBUG only, and the page just lacked the part.
    with ActorSystem("failing") as system:
        Source.never().to(Sink.ignore()).run(system)
        sampler = Sampler(system, readers=[Failing(), Waiting()])
        for _ in range(4):
            frame = sampler._make()[1].decode()
            time.sleep(0.002)
    assert "the page cannot read failing" in frame
    assert "LookupError: no such part" in frame
    assert "the cluster does not answer" in frame
    warned = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert len(warned) == 2, warned
    assert all("\n" not in text and "\x1b" not in text for text in warned), "an error's text makes no line of the log"
    assert any("level DEBUG" in text for text in warned)
