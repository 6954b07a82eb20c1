"""A batch that failed comes again at the next start with the same rows, though the elements that follow its range are filtered out."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from streamactors import Keep, Source
from streamactors.broker import Cluster
from streamactors.kafka import Consumer, ConsumerSettings, Producer, ProducerRecord, ProducerSettings, Subscriptions
from streamactors.spark import SparkSink

pytestmark = pytest.mark.timeout(600)
END_S = 300.0

BEFORE = [2, 4, 6]
AFTER = [*BEFORE, 7, 9, 11]


def in_memory(numbers: list[int]) -> Source[int, Any]:
    return Source.from_iterable(numbers)


def ranges(numbers: list[int]) -> Source[int, Any]:
    return Source.range(2, 7 if numbers == BEFORE else 12)


def lines(numbers: list[int]) -> Source[int, Any]:
    file = Path(lines.folder) / "numbers"  # type: ignore[attr-defined]
    file.write_text("".join(f"{n}\n" for n in numbers))
    return Source.from_lines(file).map(int)


def even_rows(source: Source[int, Any]) -> Source[tuple[int], Any]:
    """The stages of this file: everything after the first batch is dropped before the boundary."""
    return source.filter(lambda n: n % 2 == 0 and n <= 6).async_boundary().map(lambda n: (n,))


class Away:
    """A database that is away at first."""

    def __init__(self) -> None:
        self.seen: list[list[int]] = []
        self.away = True

    def write(self, df: Any, epoch: int) -> Any:
        self.seen.append(sorted(row.n for row in df.collect()))
        if self.away:
            raise OSError("the database is away")
        return df


@pytest.mark.parametrize("source", [in_memory, ranges, lines])
def test_a_failed_batch_is_repeated_when_what_follows_is_filtered_out(
    spark: Any, tmp_path: Path, source: Callable[[list[int]], Source[int, Any]]
) -> None:
    database = Away()
    lines.folder = tmp_path  # type: ignore[attr-defined]

    def run(numbers: list[int]) -> None:
        sink = SparkSink.foreach_batch(spark, database.write, "n long", tmp_path / "ck")
        even_rows(source(numbers)).to_mat(sink, Keep.right).run().await_termination(END_S)

    with pytest.raises(OSError, match="the database is away"):
        run(BEFORE)
    database.away = False
    run(AFTER)
    assert database.seen[:2] == [BEFORE, BEFORE]
    assert not any(database.seen[2:])


def test_a_table_has_the_rows_of_a_batch_once_that_failed_and_was_repeated(spark: Any, tmp_path: Path) -> None:
    database = Away()

    def run(numbers: list[int]) -> None:
        sink = SparkSink.parquet(spark, tmp_path / "t", "n long", tmp_path / "ck", transform=database.write)
        even_rows(in_memory(numbers)).to_mat(sink, Keep.right).run().await_termination(END_S)

    with pytest.raises(OSError, match="the database is away"):
        run(BEFORE)
    database.away = False
    run(AFTER)
    assert sorted(row.n for row in spark.read.parquet(str(tmp_path / "t")).collect()) == BEFORE


def test_a_failed_batch_of_several_partitions_is_repeated_when_what_follows_is_filtered_out(
    spark: Any, tmp_path: Path
) -> None:
    database = Away()
    with Cluster() as cluster:
        cluster.create_topic("t", partitions=2)
        settings = ConsumerSettings(cluster.bootstrap_servers, group_id="g", auto_offset_reset="earliest")

        def produce(numbers: Iterable[int]) -> None:
            records = Source.from_iterable([ProducerRecord("t", str(n), partition=n // 2 % 2) for n in numbers])
            records.run_with(Producer.plain_sink(ProducerSettings(cluster.bootstrap_servers))).result(60)

        def run() -> dict[str, int]:
            numbers = Consumer.source(settings, Subscriptions.topics("t"), until="end").map(lambda r: int(r.value))
            sink = SparkSink.foreach_batch(spark, database.write, "n long", tmp_path / "ck")
            query = even_rows(numbers).to_mat(sink, Keep.right).run()
            query.await_termination(END_S)
            checkpoint: dict[str, int] = query.progress()["checkpoint"]
            return checkpoint

        produce(BEFORE)
        with pytest.raises(OSError, match="the database is away"):
            run()
        produce([7, 9, 11])
        database.away = False
        assert run() == {"0/t-0": 2, "0/t-1": 4}, "the checkpoint has moved over what was filtered out"
    assert database.seen[:2] == [BEFORE, BEFORE]
    assert not any(database.seen[2:])
