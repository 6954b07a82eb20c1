"""The state of windows moves between one process and executors: the results are those of a run that stayed in one process."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from streamactors import BuildError, Keep
from streamactors.kafka import ProducerSettings, Transactional
from streamactors.kafka.client.admin import Admin
from streamactors.kafka.client.ranges import RangeReader
from streamactors.kafka.state.changelogs.changelog_topics import ON_EXECUTORS
from streamactors.kafka.subscriptions import TopicPartition
from streamactors.spark import CheckpointError, SparkExecutors, SparkSink
from streamactors.spark.executors.carried import carry_back, carry_in
from streamactors.spark.executors.folders import LocalFolder
from streamactors.spark.executors.program import KeptTasks
from streamactors.spark.executors.ranges import At, Range
from streamactors.spark.executors.states import States
from streamactors.spark.executors.translate import translate
from streamactors.windows.errors import RestoreError
from tests.spark.executors._killed_task import as_record, counted
from tests.spark.executors._plain import write_rows
from tests.spark.executors.test_in_spark import END_S, new_topic, records_of, rows_of, write_rows_again
from tests.spark.executors.test_topic_end import read_topic

pytestmark = pytest.mark.timeout(400)


class Moving:
    """One graph over one topic, which runs here or on executors, piece by piece of the input."""

    def __init__(self, spark: Any, cluster: Any, system: Any, folder: Path, topic: str, group: str) -> None:
        self._spark, self._cluster, self._system, self._folder = spark, cluster, system, folder
        self._topic, self._group = topic, group
        self.out = new_topic()
        cluster.create_topic(self.out, partitions=2)

    def graph(self) -> Any:
        producer = ProducerSettings(self._cluster.bootstrap_servers, transactional_id=self.out)
        results = counted(records_of(self._cluster, self._topic, group=self._group)).map(as_record(self.out))
        return results.to_mat(Transactional.sink(producer), Keep.right)

    def here(self) -> None:
        self.graph().run(self._system).result(END_S)

    def executors(self, checkpoint: str) -> SparkExecutors:
        return SparkExecutors(self._spark, checkpoint=self._folder / checkpoint, max_rows=60)

    def there(self, checkpoint: str) -> None:
        assert self.graph().run(self.executors(checkpoint)).await_termination(END_S)


@pytest.mark.slow
def test_windows_move_to_executors_and_back_and_there_again(
    spark: Any, cluster: Any, system: Any, tmp_path: Path
) -> None:
    topic = new_topic()
    pieces = [rows_of(20 + i, 100, 100 * i) for i in range(4)]
    moving = Moving(spark, cluster, system, tmp_path, topic, "moving")
    staying = Moving(spark, cluster, system, tmp_path, topic, "staying")
    write_rows(cluster, topic, pieces[0])
    moving.here()
    staying.here()
    write_rows_again(cluster, topic, pieces[1])
    moving.there("first")
    staying.here()
    assert read_topic(cluster, moving.out) == read_topic(cluster, staying.out)
    with pytest.raises(
        RestoreError, match=r"on Spark's executors, and the state of its windows is in checkpoint .*first"
    ):
        moving.here()
    with pytest.raises(CheckpointError, match=r"whose windows are in checkpoint .*first and not in the changelogs"):
        moving.there("another")
    carried = moving.executors("first").carry_back(moving.graph())
    assert sum(carried.values()) == 200
    write_rows_again(cluster, topic, pieces[2])
    moving.here()
    staying.here()
    assert read_topic(cluster, moving.out) == read_topic(cluster, staying.out)
    write_rows_again(cluster, topic, pieces[3])
    moving.there("second")
    staying.here()
    found = read_topic(cluster, moving.out)
    assert found == read_topic(cluster, staying.out)
    assert sum(map(len, found.values())) > 50
    states = tmp_path / "second" / "streamactors-state" / f"{topic}-0"
    for path in states.iterdir():
        if path.name != "begin":
            path.unlink()
    write_rows_again(cluster, topic, rows_of(9, 40, 400))
    with pytest.raises(CheckpointError):
        moving.there("second")


class LocalFiles:
    """A checkpoint's files without Spark's JVM."""

    def __init__(self, root: Path) -> None:
        self.root = str(root)
        self._root = root

    def names(self, folder: str) -> list[str]:
        return [path.name for path in (self._root / folder).iterdir()]

    def read(self, name: str) -> str:
        return (self._root / name).read_text()


def test_changelogs_become_states_and_states_become_changelogs(cluster: Any, system: Any, tmp_path: Path) -> None:
    """As above, with a task's program in place of Spark."""
    topic = new_topic()
    pieces = [rows_of(20 + i, 100, 100 * i) for i in range(3)]
    moving = Moving(None, cluster, system, tmp_path, topic, "moving")
    staying = Moving(None, cluster, system, tmp_path, topic, "staying")
    write_rows(cluster, topic, pieces[0])
    moving.here()
    staying.here()
    write_rows_again(cluster, topic, pieces[1])
    staying.here()
    found, wanted = read_topic(cluster, moving.out), read_topic(cluster, staying.out)
    graph = translate(moving.graph().module)
    windows, settings = graph.program.windows, graph.plan.settings
    assert windows is not None
    windows.partitions = 2
    keys = [TopicPartition(topic, partition) for partition in (0, 1)]
    with Admin(settings) as admin:
        committed = admin.committed(str(settings.group_id), keys)
        first = {f"0/{key}": committed[key] for key in keys}
        states = States(LocalFolder(tmp_path / "ck" / "states"))
        assert carry_in(windows, settings, first, states, None)
        ends: dict[str, Any] = {}
        reader = RangeReader(settings)
        for key in keys:
            start = At(committed[key])
            end = sum(row[0] == key.partition for piece in pieces[:2] for row in piece)
            for stop in (At((start.position + end) // 2), At(end, ended=True)):
                what = Range(key, start, stop, committed[key])
                for output in graph.program.run(what, reader.read, states, KeptTasks()):
                    found[key.partition] += [json.loads(record.value) for record in output.rows]
                start = stop
            ends[f"0/{key}"] = end
        assert found == wanted

        checkpoint = tmp_path / "ck"
        for name, text in (
            ("offsets/0", "v1\n{}\n" + json.dumps({**ends, "_end": 1, "_idle": {}, "_event": {}})),
            ("commits/0", ""),
            ("streamactors.json", json.dumps({"initial": first})),
        ):
            (checkpoint / name).parent.mkdir(parents=True, exist_ok=True)
            (checkpoint / name).write_text(text)
        admin.commit(str(settings.group_id), dict.fromkeys(keys, 1), f"{ON_EXECUTORS}{checkpoint}")
        with pytest.raises(RestoreError, match=r"has reached 1 of .* on Spark's executors, .* is in checkpoint .*ck"):
            moving.here()
        with pytest.raises(CheckpointError, match=r"whose windows are in checkpoint .*ck and not in the changelogs"):
            carry_in(windows, settings, first, states, None)
    (checkpoint / "offsets" / "1").write_text("")
    files: Any = LocalFiles(checkpoint)
    with pytest.raises(CheckpointError, match=r"batch 1 of checkpoint .* was begun and is not written"):
        carry_back(windows, settings, files, states, ProducerSettings(cluster.bootstrap_servers))
    (checkpoint / "offsets" / "1").unlink()
    carried = carry_back(windows, settings, files, states, ProducerSettings(cluster.bootstrap_servers))
    assert carried == {key: ends[f"0/{key}"] for key in keys}
    write_rows_again(cluster, topic, pieces[2])
    before = {part: len(rows) for part, rows in read_topic(cluster, moving.out).items()}
    moving.here()
    staying.here()
    more = {part: rows[len(wanted[part]) :] for part, rows in read_topic(cluster, staying.out).items()}
    assert {part: rows[before[part] :] for part, rows in read_topic(cluster, moving.out).items()} == more
    assert all(more.values())
    with pytest.raises(CheckpointError, match=r"has reached .*, and checkpoint .*ck ends at .*: another run has"):
        carry_back(windows, settings, files, states, ProducerSettings(cluster.bootstrap_servers))


def test_what_would_not_continue_in_one_process_is_refused(spark: Any, cluster: Any, tmp_path: Path) -> None:
    executors = SparkExecutors(spark, checkpoint=tmp_path / "ck")
    results = counted(records_of(cluster, "nowhere"))
    sink = SparkSink.foreach_batch(spark, print, "n long", tmp_path / "ck")
    with pytest.raises(BuildError, match="only a graph whose results end in a topic can be carried back"):
        executors.carry_back(results.map(lambda row: (row.value,)).to(sink))
