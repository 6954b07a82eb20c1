"""What a task does with a range equals, in order, what the single-process run does: windows, suppression, late rows, both semantics."""

from __future__ import annotations

import os
import random
import uuid
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import reactivex.operators as rx
from fsspec.implementations.local import LocalFileSystem
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from streamactors import EXACT, ChunkLogic, Directive, Flow, Stage
from streamactors.kafka import Consumer, ConsumerSettings, Subscriptions
from streamactors.spark import CheckpointError, SparkSetupError
from streamactors.spark.executors.folders import RemoteFolder, folder_at
from streamactors.spark.executors.program import KeptTasks
from streamactors.spark.executors.ranges import At
from streamactors.spark.executors.states import States
from streamactors.spark.shipping.parcel import pack, unpack
from streamactors.windows import BufferConfig, SessionWindows, SlidingWindows, Suppressed, TimeWindows, UnlimitedWindows
from tests.models.window_case import Case, cases
from tests.spark.executors._plain import Outcome, in_process, on_tasks, read_rows, spark_end, tasks_of, write_rows
from tests.windows.run_case import build as build_case

pytestmark = pytest.mark.timeout(300)
CLOSED = Suppressed.until_window_closes(BufferConfig.unbounded())
KINDS = {
    "tumbling": TimeWindows.of_size(100).with_grace(50),
    "hopping": TimeWindows.of_size(100).advance_by(40).with_grace(20),
    "session": SessionWindows.with_gap(30).with_grace(20),
    "sliding": SlidingWindows.of_difference(40).with_grace(20),
    "unlimited": UnlimitedWindows.of().start_on(0),
}


def given_rows(seed: int, n: int = 120) -> list[tuple[int, str | None, Any, int]]:
    """(partition, key, value, timestamp), out of order, some late, with tombstones and null keys."""
    dice = random.Random(seed)
    return [
        (
            dice.randrange(2),
            dice.choice(["a", "b", "c", None] if dice.random() < 0.1 else ["a", "b", "c"]),
            None if dice.random() < 0.05 else dice.randrange(9),
            max(0, i * 7 - dice.choice([0, 0, 10, 30, 60, 200])),
        )
        for i, _ in enumerate(range(n))
    ]


def ends_of(rows: list[tuple[int, Any, Any, int]]) -> dict[int, int]:
    return {partition: sum(row[0] == partition for row in rows) for partition in (0, 1)}


def new_topic() -> str:
    return f"t{uuid.uuid4().hex[:12]}"


@pytest.mark.parametrize("semantics", ["strict", "kafka"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_window_with_late_rows_and_steps_on_both_sides(
    cluster: Any, system: Any, tmp_path: Path, kind: str, semantics: Any
) -> None:
    final = kind != "unlimited" and not (semantics == "kafka" and kind in ("session", "sliding"))

    def build(records: Any, late: Any) -> Any:
        table = (
            records.filter(lambda record: record.value != 8)
            .group_by_key()
            .windowed_by(KINDS[kind], semantics=semantics, late=late)
            .aggregate(list, lambda found, value: [*found, value], lambda one, two: one + two)
        )
        stream = (table.suppress(CLOSED) if final else table).to_stream()
        return stream.filter(lambda row: row.key != "c").map(lambda row: row.replace(value=(row.value, row.key)))

    topic, rows = new_topic(), given_rows(len(kind))
    write_rows(cluster, topic, rows)
    wanted = in_process(system, build, read_rows(cluster, topic))
    assert wanted.error is None
    assert wanted.results
    graph = build(read_rows(cluster, topic), spark_end()).to(spark_end())
    tasks = tasks_of(cluster, topic, graph, tmp_path)
    for seed in range(2):
        folder = tmp_path / str(seed)
        tasks = tasks_of(cluster, topic, graph, folder)
        assert on_tasks(tasks, ends_of(rows), random.Random(seed)) == wanted


def equal_on_tasks(cluster: Any, system: Any, folder: Path, case: Case, seed: int) -> None:
    topic = new_topic()
    dice = random.Random(seed)
    rows = [(dice.randrange(2), *row) for row in case.rows]
    write_rows(cluster, topic, rows)
    try:
        graph = build_case(case, read_rows(cluster, topic)).to(spark_end())
    except ValueError:
        return  # a case that cannot be built
    wanted = in_process(system, lambda records, late: build_case(case, records), read_rows(cluster, topic))
    tasks = tasks_of(cluster, topic, graph, folder / topic)
    found = on_tasks(tasks, ends_of(rows), dice)
    if wanted.error is not None:
        assert found.error == wanted.error
    else:
        assert found == Outcome(wanted.results)


@given(case=cases(), seed=st.integers(0, 1 << 30))
@settings(max_examples=4, deadline=None, suppress_health_check=list(HealthCheck), phases=[Phase.generate])
def test_random_graphs_on_random_rows(cluster: Any, system: Any, tmp_path: Path, case: Case, seed: int) -> None:
    equal_on_tasks(cluster, system, tmp_path, case, seed)


@pytest.mark.slow
@given(case=cases(), seed=st.integers(0, 1 << 30))
@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck), phases=[Phase.generate])
def test_three_hundred_random_graphs(cluster: Any, system: Any, tmp_path: Path, case: Case, seed: int) -> None:
    equal_on_tasks(cluster, system, tmp_path, case, seed)


def counting(records: Any, late: Any = None) -> Any:
    return records.group_by_key().windowed_by(KINDS["tumbling"], late=late).count().suppress(CLOSED).to_stream()


@pytest.mark.expects_log("skipped")
def test_deciders_drop_the_row_that_raises_in_steps_and_in_windows(cluster: Any, system: Any, tmp_path: Path) -> None:
    def build(records: Any, late: Any) -> Any:
        return (
            records.map(lambda record: record.replace(value=12 // record.value))
            .group_by_key()
            .windowed_by(KINDS["tumbling"])
            .reduce(lambda old, new: old + 7 // (new - 3))
            .suppress(CLOSED)
            .to_stream()
            .with_attributes(decider=lambda error: Directive.RESUME)
        )

    topic, rows = new_topic(), given_rows(5, 60)
    write_rows(cluster, topic, rows)
    wanted = in_process(system, build, read_rows(cluster, topic))
    assert wanted.results
    tasks = tasks_of(cluster, topic, build(read_rows(cluster, topic), None).to(spark_end()), tmp_path)
    assert on_tasks(tasks, ends_of(rows), random.Random(1)) == wanted


def test_steps_that_no_loop_holds_run_on_the_engine_in_the_task(cluster: Any, system: Any, tmp_path: Path) -> None:
    async def same(record: Any) -> Any:
        return record

    def build(records: Any, late: Any) -> Any:
        twice = records.map_concat(lambda record: [record, record]).map_async(4, same)
        return counting(twice, late).map_concat(lambda row: [row, row.replace(value=-row.value)]).async_boundary()

    topic, rows = new_topic(), given_rows(7, 60)
    write_rows(cluster, topic, rows)
    wanted = in_process(system, build, read_rows(cluster, topic))
    graph = build(read_rows(cluster, topic), spark_end()).to(spark_end())
    assert on_tasks(tasks_of(cluster, topic, graph, tmp_path), ends_of(rows), random.Random(2)) == wanted


class Doubled(Stage[Any, Any]):
    """A user's stage, which remembers nothing."""

    handling = EXACT

    def logic(self) -> ChunkLogic[Any, Any]:
        return ChunkLogic(lambda chunk: [record.replace(value=record.value * 2) for record in chunk])


def test_rx_pipelines_and_stages_of_users_travel_and_run_in_the_task(cluster: Any, system: Any, tmp_path: Path) -> None:
    def build(records: Any, late: Any) -> Any:
        kept = records.via(Flow.rx(rx.filter(lambda record: record.value != 3), rx.map(lambda record: record)))
        return counting(kept.via(Flow.from_stage(Doubled())), late).via(
            Flow.rx(rx.map(lambda row: row.replace(value=-row.value)))
        )

    topic, rows = new_topic(), [row for row in given_rows(8, 60) if row[2] is not None]
    write_rows(cluster, topic, rows)
    wanted = in_process(system, build, read_rows(cluster, topic))
    tasks = tasks_of(cluster, topic, build(read_rows(cluster, topic), spark_end()).to(spark_end()), tmp_path)
    tasks.program = unpack(pack(tasks.program, "a test"))
    assert on_tasks(tasks, ends_of(rows), random.Random(3)) == wanted
    assert wanted.error is None
    assert sum(map(len, wanted.results.values())) > 3


def test_the_results_before_the_row_that_fails_come_out_and_no_state_is_written(cluster: Any, tmp_path: Path) -> None:
    topic = new_topic()
    write_rows(cluster, topic, [(0, "a", 1, 0), (0, "a", 1, 500), (0, "a", 0, 510)], 1)
    graph = counting(read_rows(cluster, topic, 1).map(lambda record: record.replace(value=1 // record.value))).to(
        spark_end()
    )
    tasks = tasks_of(cluster, topic, graph, tmp_path, 1)
    outputs = []
    with pytest.raises(ZeroDivisionError):
        for output in tasks.begin(0, At(0), At(3)):
            outputs += output.rows
    assert [(row.key, row.start, row.value) for row in outputs] == [("a", 0, 1)]
    assert not list(tmp_path.rglob("*.s"))


def test_silence_closes_windows_the_same_way_from_memory_and_from_files(cluster: Any, tmp_path: Path) -> None:
    topic = new_topic()
    write_rows(cluster, topic, [(0, "a", 1, 20), (0, "b", 1, 120)], 1)
    windows = read_rows(cluster, topic, 1).group_by_key().windowed_by(KINDS["tumbling"], idle_after="10ms")
    graph = windows.count().suppress(CLOSED).to_stream().to(spark_end())
    found = []
    for forget in (False, True):
        tasks = tasks_of(cluster, topic, graph, tmp_path / str(forget), 1)
        rows = []
        places = [At(0), At(2), At(2, 29), At(2, 30), At(2, 400)]
        for start, end in pairwise(places):
            if forget:
                tasks.kept = KeptTasks()
            rows.append([row.key for output in tasks.run(0, start, end) for row in output.rows])
        found.append(rows)
        assert tasks.states.due_ms(f"{topic}-0", At(2)) == 10 + 30
        assert tasks.states.due_ms(f"{topic}-0", At(2, 400)) is None
    assert found == [[[], [], ["a"], ["b"]]] * 2


def test_a_lost_state_is_computed_again_and_one_that_the_topic_does_not_tell_is_an_error(
    cluster: Any, tmp_path: Path
) -> None:
    topic = new_topic()
    rows = [(0, key, 1, at) for at, key in enumerate("abcabcabcabc")]
    write_rows(cluster, topic, rows, 1)
    graph = (
        read_rows(cluster, topic, 1).group_by_key().windowed_by(KINDS["tumbling"]).count().to_stream().to(spark_end())
    )

    def last(lost: list[str], event: At | None) -> list[tuple[str, int]]:
        tasks = tasks_of(cluster, topic, graph, tmp_path / (".".join(lost) or "none"), 1)
        for start, end in [(At(0), At(3)), (At(3), At(6, ended=True)), (At(6, ended=True), At(9))]:
            tasks.run(0, start, end, event=At(6, ended=True) if start.ended else None)
        tasks.kept = KeptTasks()
        for name in lost:
            tasks.states._folder.delete(f"{topic}-0/{name}.s")
            tasks.states._folder.delete(f"{topic}-0/{name}.d")
        return [(row.key, row.value) for out in tasks.run(0, At(9), At(12), event) for row in out.rows]

    whole = last([], At(6, ended=True))
    assert last(["9"], At(6, ended=True)) == whole
    with pytest.raises(CheckpointError, match=rf"state of {topic}-0 at 9 is missing, .* at 6e; restore the folder"):
        last(["9", "6e"], At(6, ended=True))


@pytest.mark.parametrize("middle", [[], [At(10)]], ids=["one batch", "two batches"])
def test_a_later_run_to_the_end_closes_its_windows_however_many_batches_it_has(
    cluster: Any, tmp_path: Path, middle: list[At]
) -> None:
    # of a run in one batch, behind the end of the run before, the windows that were open at the end were not closed
    topic = new_topic()
    write_rows(cluster, topic, [(0, "a", 1, n * 40) for n in range(12)], 1)
    counts = read_rows(cluster, topic, 1).group_by_key().windowed_by(KINDS["tumbling"]).count().suppress(CLOSED)
    tasks = tasks_of(cluster, topic, counts.to_stream().to(spark_end()), tmp_path, 1)
    found = []
    for start, end in pairwise([At(0), At(5, ended=True), *middle, At(12, ended=True)]):
        found += [(row.start, row.value) for output in tasks.run(0, start, end) for row in output.rows]
    assert found == [(0, 3), (100, 2), (200, 3), (300, 2), (400, 2)]


def test_old_states_are_collected_and_those_in_use_stay(cluster: Any, tmp_path: Path) -> None:
    topic = new_topic()
    write_rows(cluster, topic, [(0, "a", 1, at) for at in range(0, 300, 10)], 1)
    tasks = tasks_of(cluster, topic, counting(read_rows(cluster, topic, 1)).to(spark_end()), tmp_path, 1)
    for position in range(30):
        tasks.run(0, At(position), At(position + 1))
    name = f"{topic}-0"
    abandoned, unfinished = tmp_path / name / ".7.d.1-a", tmp_path / name / ".30.s.2-b"
    for path in (abandoned, unfinished):
        path.touch()
    os.utime(abandoned, (0, 0))
    before = len(tasks.states._folder.names(name))
    assert tasks.states.collect({name: [At(29), At(30)]}) > 10
    assert (abandoned.exists(), unfinished.exists()) == (False, True)
    left = tasks.states._folder.names(name)
    assert len(left) < before
    assert tasks.states.load(name, At(30)) is not None
    assert tasks.states.load(name, At(29)) is not None
    assert tasks.states.load(name, At(5)) is None
    (tmp_path / name / "30.s").write_bytes(b"no state")
    with pytest.raises(CheckpointError, match="30 cannot be read; delete that file"):
        tasks.states.load(name, At(30))


def test_states_lie_in_an_object_store_as_well(cluster: Any, tmp_path: Path) -> None:
    """fsspec's store in memory stands for s3 and others: no rename, a put is the commit."""
    topic = new_topic()
    write_rows(cluster, topic, [(0, "a", 1, at) for at in range(0, 300, 10)], 1)
    graph = counting(read_rows(cluster, topic, 1)).to(spark_end())
    found = []
    for folder in (folder_at(f"memory://{topic}"), folder_at(str(tmp_path)), folder_at(f"file:{tmp_path}/again")):
        tasks = tasks_of(cluster, topic, graph, tmp_path, 1)
        tasks.states = States(folder)
        rows = []
        for position in range(0, 30, 5):
            tasks.kept = KeptTasks()
            rows += [(row.start, row.value) for out in tasks.run(0, At(position), At(position + 5)) for row in out.rows]
        tasks.states.collect({f"{topic}-0": [At(25), At(30)]})
        assert tasks.states.load(f"{topic}-0", At(30)) is not None
        assert folder.get("nothing") is None
        assert folder.names("nothing") == []
        found.append(rows)
    assert found[0] == found[1] == found[2]
    assert found[0]
    with pytest.raises(SparkSetupError, match="nowhere://x: files there need fsspec and its package for nowhere"):
        folder_at("nowhere://x")


class Halting(LocalFileSystem):
    """A file system without atomic puts, such as HDFS: a writer is killed in the middle, or a rename finds a file."""

    protocol = "halting"
    cachable = False
    halts = False
    renames_onto_files = True

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **kwargs: Any) -> None:
        super().pipe_file(path, value[: len(value) // 2] if self.halts else value, mode, **kwargs)
        if self.halts:
            raise KeyboardInterrupt

    def mv(self, path1: str, path2: str, **kwargs: Any) -> None:
        if not self.renames_onto_files and self.exists(path2):
            raise FileExistsError(path2)
        super().mv(path1, path2, **kwargs)


def test_a_file_is_there_whole_or_not_at_all_where_a_put_is_not_atomic(tmp_path: Path) -> None:
    files = Halting()
    folder = RemoteFolder(files, str(tmp_path))
    files.halts = True
    with pytest.raises(KeyboardInterrupt):
        folder.put("p/1.s", b"abcdef")
    assert folder.get("p/1.s") is None
    files.halts = False
    folder.put("p/1.s", b"abcdef")
    for files.renames_onto_files in (True, False):
        folder.put("p/1.s", b"again")
        assert folder.get("p/1.s") == b"again"
    assert folder.names("p") == ["1.s"]
    for name in (".2.s.9-new", ".2.s.9-old", "2.s"):
        files.pipe_file(f"{tmp_path}/p/{name}", b"ab")
    os.utime(tmp_path / "p" / ".2.s.9-old", (0, 0))
    os.utime(tmp_path / "p" / "2.s", (0, 0))
    folder.tidy("p")
    assert sorted(folder.names("p")) == [".2.s.9-new", "1.s", "2.s"]


def test_record_batches_of_a_topic_go_through_the_steps_of_a_task(cluster: Any, tmp_path: Path) -> None:
    topic = new_topic()
    rows = [(i % 2, f"k{i}", i, i) for i in range(500)]
    write_rows(cluster, topic, rows)
    reading = ConsumerSettings(cluster.bootstrap_servers, "g", "earliest")
    source = Consumer.arrow_batches(reading, Subscriptions.topics(topic), until="end")
    tasks = tasks_of(
        cluster, topic, source.map(lambda batch: batch.select(["offset", "key"])).to(spark_end()), tmp_path
    )
    for partition in (0, 1):
        wanted = [(n, key.encode()) for n, (_, key, _, _) in enumerate(row for row in rows if row[0] == partition)]
        for start, end in ((0, 10), (10, 250)):
            batches = [batch for output in tasks.run(partition, At(start), At(end)) for batch in output.rows]
            found = [
                row for batch in batches for row in zip(*(column.to_pylist() for column in batch.columns), strict=True)
            ]
            assert found == wanted[start:end]
