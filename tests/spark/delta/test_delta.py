"""SparkSink.delta with a real Delta Lake: a batch that comes again after kill -9 adds nothing to the table, here and on executors."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import urllib.parse
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest

from streamactors import ActorSystem
from streamactors.broker import Cluster
from tests.spark.delta import _environment
from tests.spark.executors._killed_task import counted
from tests.spark.executors._plain import in_process, read_rows, write_rows
from tests.spark.executors.test_in_spark import rows_of

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1_800),
    pytest.mark.skipif(not _environment.found(), reason="Java or Maven is not here"),
]
APP = Path(__file__).with_name("_killed_delta.py")
RUN_S = 600.0
TOPIC = "t"


class Table:
    """A Delta table as its log tells it, read without Spark."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.commits: list[tuple[str, int]] = []
        """The application and version of each commit that has one, in order."""
        self.files: list[tuple[str, dict[str, str]]] = []
        for path in sorted((folder / "_delta_log").glob("*.json")):
            for line in path.read_text().splitlines():
                action = json.loads(line)
                assert "remove" not in action
                if "txn" in action:
                    self.commits.append((action["txn"]["appId"], action["txn"]["version"]))
                if "add" in action:
                    self.files.append((urllib.parse.unquote(action["add"]["path"]), action["add"]["partitionValues"]))

    def rows(self) -> list[tuple[Any, ...]]:
        """Return all rows in the order of the commits: the partition, then the columns."""
        found = []
        for name, values in self.files:
            table = pyarrow.parquet.ParquetFile(self._folder / name).read()
            columns = (table[column].to_pylist() for column in table.column_names if column != "part")
            found += [(int(values["part"]), *row) for row in zip(*columns, strict=True)]
        return found


def run(cluster: Cluster, folder: Path, where: str, window: str = "", after: int = 0) -> bool:
    """Run the program once; return whether it came to its end."""
    command = [
        _environment.python(),
        str(APP),
        cluster.bootstrap_servers,
        TOPIC,
        str(folder),
        where,
        window,
        str(after),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=RUN_S, env=_environment.environment())
    finished = "finished" in done.stdout
    assert finished == (not window), done.stderr[-3_000:]
    assert done.returncode == (0 if finished else -signal.SIGKILL), done.stderr[-3_000:]
    return finished


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("where", ["sink", "executors"])
def test_after_kills_on_both_sides_of_the_commit_the_table_has_each_row_once(
    tmp_path: Path, where: str, seed: int
) -> None:
    dice = random.Random(f"{where}-{seed}")
    given = rows_of(seed, 300)
    with Cluster(process=True) as cluster, ActorSystem("here") as system:
        write_rows(cluster, TOPIC, given)
        for window in dice.sample(["before_write", "after_write", "after_write"], 3):
            run(cluster, tmp_path, where, window, dice.randint(1, 2))
        run(cluster, tmp_path, where)
        wanted = in_process(system, counted, read_rows(cluster, TOPIC))
    tables = [Table(tmp_path / name) for name in (["rows"] if where == "sink" else ["finals", "late"])]
    for table in tables:
        assert len({query for query, _ in table.commits}) == 1
        versions = [version for _, version in table.commits]
        assert versions == list(range(len(versions)))
        assert len(versions) >= 3
    if where == "sink":
        assert Counter(row[:1] + row[1:4] for row in tables[0].rows()) == Counter(
            (part, key, at, value) for part, key, value, at in given
        )
        return
    found: dict[int, list[Any]] = {}
    for row in tables[0].rows():
        found.setdefault(row[0], []).append(row[1:])
    assert found == {
        part: [(row[1], row[2], row[5], row[7].offset) for row in rows] for part, rows in wanted.results.items()
    }
    assert Counter((row[0], row[3]) for row in tables[1].rows()) == Counter(
        (part, row[-1].offset) for part, rows in wanted.late.items() for row in late_of(rows)
    )


def late_of(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Return late rows with their context at the end."""
    return [row[:6] for row in rows]
