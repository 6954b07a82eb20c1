"""Windows over several topics in a task: the rows of all topics in time order, whatever the batches are cut into."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from streamactors.kafka.subscriptions import TopicPartition
from streamactors.spark.executors import offsets
from streamactors.spark.executors.in_time_order import JointInput, PartitionRange
from streamactors.spark.executors.program import KeptTasks
from streamactors.spark.executors.ranges import At, Range, at_of
from streamactors.windows import InvalidRecord, Record, RecordContext
from tests.spark.executors._plain import (
    Outcome,
    Tasks,
    in_process,
    lose_a_state,
    read_rows,
    shown,
    spark_end,
    tasks_of,
    write_rows,
)
from tests.spark.executors.test_program import CLOSED, KINDS, new_topic

pytestmark = pytest.mark.timeout(300)
Rows = list[tuple[int, str | None, Any, int]]


def rows_from(dice: random.Random, n: int, begin: int, step: int) -> Rows:
    """(partition, key, value, timestamp), out of order, some late."""
    return [
        (dice.randrange(2), dice.choice("abc"), i, max(0, begin + i * step - dice.choice([0, 0, 10, 60, 200])))
        for i in range(n)
    ]


def ends_of(written: dict[str, Rows]) -> dict[str, int]:
    return {f"0/{topic}-{p}": sum(row[0] == p for row in rows) for topic, rows in written.items() for p in (0, 1)}


def on_planned_tasks(
    tasks: Tasks, start: offsets.Offsets, ends: dict[str, int], dice: random.Random, trouble: float = 0.4
) -> tuple[Outcome, offsets.Offsets]:
    """Run batches as the planner cuts them, with attempts that are closed early, lost caches and lost states on the way."""
    outcome, first = Outcome(), dict.fromkeys(ends, 0)
    while (end := offsets.following(start, ends, dice.randint(1, 60), is_end=True)) is not start:
        for what in offsets.ranges(start, json.loads(json.dumps(end)), first):
            again = Range.unpacked(what.packed())
            assert again == what
            if dice.random() < trouble:
                attempt = tasks.begin_range(again)
                with suppress(StopIteration):
                    next(attempt)
                attempt.close()
            if dice.random() < trouble:
                tasks.kept = KeptTasks()  # another executor
            if dice.random() < trouble / 2 and not what.start.ended:
                lose_a_state(tasks, what.key.partition, dice)
            for output in tasks.begin_range(again):
                into = outcome.late if output.late else outcome.results
                into.setdefault(what.key.partition, []).extend(map(shown, output.rows))
        start = end
    return outcome, start


@pytest.mark.parametrize(
    ("kind", "seeds"),
    [("tumbling", 1), *(pytest.param(kind, 4, marks=pytest.mark.slow, id=f"{kind}-long") for kind in KINDS)],
)
def test_rows_of_three_topics_give_the_results_of_the_single_process(
    cluster: Any, system: Any, tmp_path: Path, kind: str, seeds: int
) -> None:
    def build(records: Any, late: Any) -> Any:
        table = (
            records.map_concat(lambda record: [record] * (1 + record.value % 2))
            .group_by_key()
            .windowed_by(KINDS[kind], late=late)
            .aggregate(list, lambda found, value: [*found, value], lambda one, two: one + two)
        )
        return (table if kind == "unlimited" else table.suppress(CLOSED)).to_stream()

    dice = random.Random(kind)
    topics = tuple(sorted(new_topic() for _ in range(3)))
    written = {topics[0]: rows_from(dice, 60, 0, 9), topics[1]: rows_from(dice, 25, 250, 30), topics[2]: []}
    for topic, rows in written.items():
        write_rows(cluster, topic, rows)
    wanted = in_process(system, build, read_rows(cluster, topics))
    assert wanted.error is None
    assert {context.topic for rows in wanted.results.values() for *_, context in rows} == {*topics[:2]}
    graph = build(read_rows(cluster, topics), spark_end()).to(spark_end())
    begin = offsets.initial(dict.fromkeys(ends_of(written), 0), windows=True)
    for seed in range(seeds):
        tasks = tasks_of(cluster, topics[0], graph, tmp_path / str(seed))
        found, _ = on_planned_tasks(tasks, begin, ends_of(written), random.Random(seed))
        assert found == wanted


@pytest.mark.slow
def test_a_second_run_goes_on_behind_the_end_of_the_first_with_states_lost_on_the_way(
    cluster: Any, tmp_path: Path
) -> None:
    dice = random.Random(8)
    topics = tuple(sorted(new_topic() for _ in range(2)))
    graph = read_rows(cluster, topics).group_by_key().windowed_by(KINDS["tumbling"]).count().to_stream().to(spark_end())
    first = {topic: rows_from(dice, 40, 0, 9) for topic in topics}
    more = {topic: rows_from(dice, 40, 300, 9) for topic in topics}
    whole = {topic: first[topic] + more[topic] for topic in topics}
    for topic in topics:
        write_rows(cluster, topic, whole[topic])
    outcomes = []
    for trouble in (0.0, 0.6):
        tasks = tasks_of(cluster, topics[0], graph, tmp_path / str(trouble))
        begin = offsets.initial(dict.fromkeys(ends_of(whole), 0), windows=True)
        one, middle = on_planned_tasks(tasks, begin, ends_of(first), random.Random(1), trouble)
        assert middle["_end"] == 1
        assert middle["_done"] == list(ends_of(first))
        two, last = on_planned_tasks(tasks, middle, ends_of(whole), random.Random(2), 0.0)
        assert last["_event"] == {f"0/{topics[0]}-{p}": str(offsets.at(middle, *_task(middle, p))) for p in (0, 1)}
        outcomes.append((one, two))
    assert outcomes[0] == outcomes[1]
    assert outcomes[0][1].results


def _task(found: offsets.Offsets, partition: int) -> tuple[str, dict[str, int], tuple[str, ...]]:
    name, beside = list(offsets.tasks(found).items())[partition]
    return name, {}, beside


def test_a_partition_waits_for_the_other_topic_and_stops_within_a_record() -> None:
    a, b = TopicPartition("a", 0), TopicPartition("b", 0)
    times = {a: [10, 20, 30, 40], b: [15, 20, 50, 60]}

    def stepped(key: TopicPartition, start: int, end: int) -> Any:  # two rows of each record, one record a chunk
        for offset in range(start, end):
            context = RecordContext(key.topic, 0, offset)
            yield [Record("k", n, times[key][offset] + n, context=context) for n in (0, 8)]

    def run(starts: tuple[int, int], ends: tuple[int, int], done: bool, entries: Any) -> list[tuple[str, int]]:
        parts = [PartitionRange(key, *each, done) for key, *each in zip((a, b), starts, ends, strict=True)]
        joint = JointInput(parts, entries, stepped)
        rows = [(row.context.topic, row.timestamp) for chunk in joint for row in chunk]
        entries.update({(change.store, change.key): change.value for change in joint.changes()})
        return rows

    whole = run((0, 0), (4, 4), True, {})
    head = [("a", 10), ("b", 15), ("a", 18), ("a", 20), ("b", 23), ("b", 20), ("a", 28), ("a", 30)]
    assert whole[:2] == head[:2]
    for cuts in ([(1, 1)], [(0, 4)], [(4, 0)], [(2, 1), (2, 2), (3, 4)], [(1, 0), (1, 1), (2, 1), (2, 2), (3, 3)]):
        entries: Any = {}
        found: list[tuple[str, int]] = []
        start = (0, 0)
        for cut in [*cuts, (4, 4)]:
            found += run(start, cut, cut == (4, 4), entries)
            start = cut
        assert found == whole


def test_a_record_that_is_gone_takes_no_rows_of_the_next_record_with_it() -> None:
    # fail_on_data_loss=False: one row of offset 2 was taken, then retention deleted it; the first row of offset 3 was dropped in its place
    a, b = TopicPartition("a", 0), TopicPartition("b", 0)
    kept = {a: [0, 1, 2, 3], b: [0]}
    times = {a: [10, 20, 30, 40], b: [25]}

    def stepped(key: TopicPartition, start: int, end: int) -> Any:  # two rows of each record that is still there
        for offset in range(start, end):
            if offset in kept[key]:
                context = RecordContext(key.topic, 0, offset)
                yield [Record("k", n, times[key][offset] + n, context=context) for n in (0, 8)]

    def run(starts: tuple[int, int], done: bool) -> list[tuple[str, int]]:
        parts = [PartitionRange(a, starts[0], 4, done), PartitionRange(b, starts[1], 1, done)]
        joint = JointInput(parts, entries, stepped)
        rows = [(row.context.topic, row.timestamp) for chunk in joint for row in chunk]
        entries.update({(change.store, change.key): change.value for change in joint.changes()})
        return rows

    for later in ([3], []):
        kept[a] = [0, 1, 2, 3]
        entries: Any = {}
        assert run((0, 0), done=False)[-3:] == [("a", 28), ("a", 30), ("b", 33)]
        kept[a] = later
        left = run((4, 1), done=True)
        assert left == [row for offset in later for row in (("a", times[a][offset]), ("a", times[a][offset] + 8))]


def test_a_row_without_context_is_refused() -> None:
    parts = [PartitionRange(TopicPartition(topic, 0), 0, 1, True) for topic in "ab"]
    joint = JointInput(parts, {}, lambda key, start, end: iter([[Record("k", 1, 5)]] * (end - start)))
    with pytest.raises(InvalidRecord, match=r"has no context, so its order among several topics is unknown"):
        list(joint)


def test_places_of_several_partitions_have_names_and_an_order() -> None:
    places = [At(3, beside=(0, 7)), At(3, beside=(1, 7)), At(4, beside=(1, 7)), At(4, ended=True, beside=(1, 7))]
    assert [at_of(str(place)) for place in places] == places
    assert [str(place) for place in places] == ["3+0+7", "3+1+7", "4+1+7", "4+1+7e"]
    assert max(places) == places[-1]
    assert at_of("12i30") == At(12, 30)


def test_a_task_reads_the_partitions_of_one_number() -> None:
    first = {"0/a-0": 5, "0/b-0": 0, "0/a-1": 0}
    start = offsets.initial(first, windows=True)
    plain: Callable[..., Any] = offsets.initial
    assert offsets.tasks(plain(first, windows=False)) == {"0/a-0": (), "0/a-1": (), "0/b-0": ()}
    assert offsets.tasks(start) == {"0/a-0": ("0/b-0",), "0/a-1": ()}
    end = offsets.following(start, {"0/a-0": 9, "0/b-0": 0, "0/a-1": 4}, 4, is_end=True)
    ranges = offsets.ranges(start, end, first)
    assert [(str(each.key), str(each.start), str(each.end)) for each in ranges] == [
        ("a-0", "5+0", "7+0"),
        ("a-1", "0", "2"),
    ]
    assert ranges[0].begin == ranges[0].start
    assert ranges[0].beside is not None
    assert ranges[0].beside.done == (False, True)
    assert ranges[0].beside.done_before == (False, False)
    assert ranges[1].beside is None
