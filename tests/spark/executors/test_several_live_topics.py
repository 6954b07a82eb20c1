"""Windows over several topics that are read without an end: batch by batch, while records come."""

from __future__ import annotations

import json
import random
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from streamactors import Keep
from streamactors.spark import SparkExecutors, SparkSink
from streamactors.spark.errors import CheckpointError
from streamactors.spark.executors import offsets
from streamactors.spark.executors.program import KeptTasks
from streamactors.spark.executors.ranges import Range
from streamactors.testing import WindowTestDriver
from tests.spark.executors._plain import lose_a_state, read_rows, spark_end, tasks_of, write_rows
from tests.spark.executors.test_in_spark import write_rows_again
from tests.spark.executors.test_program import CLOSED, KINDS, new_topic
from tests.spark.executors.test_several_topics import Rows, ends_of, rows_from

pytestmark = pytest.mark.timeout(300)


def counted(records: Any, kind: str) -> Any:
    windowed = records.group_by_key().windowed_by(KINDS[kind])
    table = windowed.aggregate(list, lambda found, value: [*found, value], lambda one, two: one + two)
    return table if kind == "unlimited" else table.suppress(CLOSED)


def merged(topics: list[Rows], partition: int) -> Rows:
    """The rows of a partition in the order of a task: of the heads of all topics the smallest timestamp first, then the first topic."""
    heads = [[row for row in rows if row[0] == partition] for rows in topics]
    found = []
    while any(heads):
        _, first = min((rows[0][3], at) for at, rows in enumerate(heads) if rows)
        found.append(heads[first].pop(0))
    return found


def plain(row: Any) -> tuple[Any, ...]:
    return row.key, row.start, row.end, row.value, row.timestamp


@pytest.mark.parametrize(
    ("kind", "seeds"), [("tumbling", 1), *(pytest.param(kind, 5, marks=pytest.mark.slow) for kind in KINDS)]
)
def test_each_time_the_topics_are_read_up_to_now_their_rows_come_in_time_order(
    cluster: Any, tmp_path: Path, kind: str, seeds: int
) -> None:
    for seed in range(seeds):
        dice = random.Random(seed)
        names = sorted(new_topic() for _ in range(3))
        # the second time brings rows that are older than rows of the other topic that were done the first time
        steps = [
            [rows_from(dice, 40, 0, 9), rows_from(dice, 15, 100, 20), []],
            [rows_from(dice, 20, 360, 9), rows_from(dice, 20, 150, 20), rows_from(dice, 5, 300, 9)],
            [[], rows_from(dice, 10, 700, 9), rows_from(dice, 10, 500, 40)],
        ]
        for at, name in enumerate(names):
            write_rows(cluster, name, [row for step in steps for row in step[at]])
        drivers = [WindowTestDriver(lambda records, kind=kind: counted(records, kind).to_stream()) for _ in range(2)]
        graph = counted(read_rows(cluster, tuple(names), until=None), kind).to_stream().to(spark_end())
        tasks = tasks_of(cluster, names[0], graph, tmp_path / str(seed))
        start = offsets.initial({f"0/{name}-{p}": 0 for name in names for p in (0, 1)}, windows=True)
        first = dict(offsets.positions(start))
        given = {name: list[Any]() for name in names}
        results = 0
        for step in steps:
            wanted = {
                p: [plain(out) for _, key, value, time in merged(step, p) for out in drivers[p].pipe(key, value, time)]
                for p in (0, 1)
            }
            for name, rows in zip(names, step, strict=True):
                given[name] += rows
            ends = ends_of(given)
            found: dict[int, list[Any]] = {0: [], 1: []}
            while (end := offsets.following(start, ends, dice.randint(5, 60))) is not start:
                for what in offsets.ranges(start, json.loads(json.dumps(end)), first):
                    if dice.random() < 0.3:
                        attempt = tasks.begin_range(what)
                        with suppress(StopIteration):
                            next(attempt)
                        attempt.close()
                    if dice.random() < 0.3:
                        tasks.kept = KeptTasks()  # another executor
                    for output in tasks.begin_range(Range.unpacked(what.packed())):
                        found[what.key.partition] += [plain(row) for row in output.rows]
                start = end
            assert found == wanted
            assert start["_done"] == sorted(ends, key=offsets.key_of)
            results += sum(map(len, found.values()))
        assert results > 10


@pytest.mark.slow
def test_a_query_that_reads_two_topics_up_to_now_goes_on_in_time_order(
    spark: Any, cluster: Any, tmp_path: Path
) -> None:
    dice = random.Random(31)
    names = sorted((new_topic(), new_topic()))
    steps = [[rows_from(dice, 80, 0, 9) for _ in names], [rows_from(dice, 40, 400, 9) for _ in names]]
    drivers = [WindowTestDriver(lambda records: counted(records, "tumbling").to_stream()) for _ in range(2)]
    written: list[Any] = []

    def write(frame: Any, epoch: int) -> None:
        written.extend(frame.collect())

    for fill, step in zip((write_rows, write_rows_again), steps, strict=True):
        for name, rows in zip(names, step, strict=True):
            fill(cluster, name, rows)
        records = read_rows(cluster, tuple(names), until=None)
        sink = SparkSink.foreach_batch(
            spark, write, "p int, key string, start long, n long", tmp_path / "ck", max_rows=50
        )
        graph = (
            counted(records, "tumbling")
            .to_stream()
            .map(lambda row: (row.context.partition, row.key, row.start, len(row.value)))
            .to_mat(sink, Keep.right)
        )
        query = graph.run(SparkExecutors(spark, trigger="available_now"))
        assert query.await_termination(120)
        wanted = [
            (p, out.key, out.start, len(out.value))
            for p in (0, 1)
            for _, key, value, time in merged(step, p)
            for out in drivers[p].pipe(key, value, time)
        ]
        assert sorted(map(tuple, written), key=lambda row: row[0]) == wanted
        assert written
        written.clear()


def test_a_lost_state_is_not_computed_again_because_the_order_does_not_follow_from_the_records(
    cluster: Any, tmp_path: Path
) -> None:
    dice = random.Random(3)
    names = sorted(new_topic() for _ in range(2))
    for name in names:
        write_rows(cluster, name, rows_from(dice, 40, 0, 9))
    graph = counted(read_rows(cluster, tuple(names), until=None), "tumbling").to_stream().to(spark_end())
    tasks = tasks_of(cluster, names[0], graph, tmp_path)
    first = dict.fromkeys((f"0/{name}-{p}" for name in names for p in (0, 1)), 0)
    start = offsets.initial(first, windows=True)
    for most in (5, 9):
        end = offsets.following(start, dict.fromkeys(first, most), 100)
        ranges = offsets.ranges(start, end, first)
        if most == 9:
            tasks.kept = KeptTasks()
            lose_a_state(tasks, ranges[0].key.partition, dice)
            with pytest.raises(
                CheckpointError, match=r"is missing.*the order of the rows of several topics depends on"
            ):
                list(tasks.begin_range(ranges[0]))
        else:
            for what in ranges:
                list(tasks.begin_range(what))
        start = end


def test_the_silence_of_a_task_ends_with_a_record_of_any_of_its_topics() -> None:
    first = {"0/a-0": 0, "0/b-0": 0, "0/a-1": 0, "0/b-1": 0}
    start = offsets.following(offsets.initial(first, windows=True), dict.fromkeys(first, 5), 100)
    silent = offsets.following(start, dict.fromkeys(first, 5), 100, silent={"0/a-0": 30, "0/a-1": 40})
    assert silent["_idle"] == {"0/a-0": 30, "0/a-1": 40}
    assert [(str(each.start), str(each.end), each.idle_ms) for each in offsets.ranges(start, silent, first)] == [
        ("5+5", "5+5i30", 30),
        ("5+5", "5+5i40", 40),
    ]
    more = offsets.following(silent, {**dict.fromkeys(first, 5), "0/b-0": 6}, 100, silent={"0/a-1": 70})
    assert more["_idle"] == {"0/a-1": 70}
    assert [(str(each.start), str(each.end), each.idle_ms) for each in offsets.ranges(silent, more, first)] == [
        ("5+5i30", "5+6", 0),
        ("5+5i40", "5+5i70", 30),
    ]
