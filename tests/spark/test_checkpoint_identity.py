"""A checkpoint belongs to one cluster, one topic id, one file, one schema: what it was not written for is refused, or said in the log."""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer as BareProducer
from confluent_kafka.admin import AdminClient

from streamactors import Keep, Source
from streamactors.broker import Cluster
from streamactors.broker.apis import api03_metadata
from streamactors.kafka import Consumer, ConsumerSettings, Subscriptions
from streamactors.kafka.reading.assignment.start_positions import StartPositions
from streamactors.spark import CheckpointError, SparkSink, SparkStreamQuery
from streamactors.spark.files import Files
from streamactors.spark.query.checkpoint import Checkpoint
from streamactors.spark.query.source_identity import SourceIdentity, difference, merged

pytestmark = pytest.mark.timeout(600)
END_S = 300.0
SCHEMA = "struct<n:bigint>"


@pytest.fixture
def cluster() -> Iterable[Cluster]:
    with Cluster() as cluster:
        yield cluster


def run(
    spark: Any, folder: Path, source: Any, schema: str = "n long", rows: list[Any] | None = None
) -> SparkStreamQuery:
    """Run `source` into Spark with this checkpoint; the rows of each batch go to `rows`."""

    def write(df: Any, epoch: int) -> None:
        found = df.collect()
        if rows is not None:
            rows.extend(tuple(row) for row in found)

    query: SparkStreamQuery = source.to_mat(SparkSink.foreach_batch(spark, write, schema, folder), Keep.right).run()
    return query


def fill(cluster: Cluster, numbers: Iterable[int]) -> None:
    producer = BareProducer({"bootstrap.servers": cluster.bootstrap_servers})
    for n in numbers:
        producer.produce("t", str(n))
    producer.flush()


def records_of(cluster: Cluster) -> Any:
    settings = ConsumerSettings(cluster.bootstrap_servers, group_id="g", auto_offset_reset="earliest")
    return Consumer.source(settings, Subscriptions.topics("t"), until="end").map(lambda record: (int(record.value),))


def positions(cluster: Cluster) -> StartPositions:
    settings = ConsumerSettings(cluster.bootstrap_servers, group_id="g")
    return StartPositions(settings, Subscriptions.topics("t"), True, lambda where: None)


def opened(spark: Any, folder: Path, source: SourceIdentity, schema: str = SCHEMA) -> dict[str, Any]:
    """Open a checkpoint as a run does; return what its file holds then."""
    checkpoint = Checkpoint(Files(spark, str(folder)))
    checkpoint.open([source], schema)
    checkpoint.close()
    found: dict[str, Any] = json.loads((folder / "streamactors.json").read_text())
    return found


def written(folder: Path, source: SourceIdentity, *, committed: bool = True, version: int = 2) -> Path:
    """Make the files that a query leaves: batch 0 with its range, and, if it is committed, its commit."""
    for name in ("offsets", "commits"):
        (folder / name).mkdir(parents=True)
    (folder / "metadata").write_text('{"id":"x"}')
    (folder / "offsets" / "0").write_text("v1")
    if committed:
        (folder / "commits" / "0").write_text("v1")
    ours: dict[str, Any] = {"version": version, "initial": {"0/t-0": 0}}
    if version == 1:
        ours["sources"] = [source.label]
    else:
        ours |= {"sources": [source.as_json()], "schema": SCHEMA}
    (folder / "streamactors.json").write_text(json.dumps(ours))
    return folder


def said(caplog: pytest.LogCaptureFixture, level: int) -> list[str]:
    """What was said, but for a Python process of Spark that came late, or a query that ended late: that depends on the machine's speed."""
    lines = [r.getMessage() for r in caplog.records if r.levelno == level and r.name == "streamactors.spark"]
    return [line for line in lines if "did not start within" not in line and "the query still runs" not in line]


# ── Kafka ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_new_cluster_and_a_topic_made_again_are_refused_instead_of_read_as_done(
    spark: Any, tmp_path: Path, cluster: Cluster
) -> None:
    """Both had as many records as the checkpoint covered, so the second run read no row and succeeded."""
    cluster.create_topic("t", partitions=1)
    fill(cluster, range(3))
    rows: list[Any] = []
    assert run(spark, tmp_path / "ck", records_of(cluster), rows=rows).await_termination(END_S)
    assert rows == [(0,), (1,), (2,)]
    kept = json.loads((tmp_path / "ck" / "streamactors.json").read_text())["sources"][0]["identity"]
    with Cluster() as other:
        other.create_topic("t", partitions=1)
        fill(other, range(10, 13))
        now = positions(other).identity()["cluster id"]
        with pytest.raises(CheckpointError) as raised:
            run(spark, tmp_path / "ck", records_of(other)).await_termination(END_S)
    assert (
        f"was written for topic t with cluster id {kept['cluster id']}, this graph reads topic t with cluster id {now}"
        in str(raised.value)
    )
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    (deleted,) = admin.delete_topics(["t"]).values()
    deleted.result(30)
    cluster.create_topic("t", partitions=1)
    fill(cluster, range(20, 23))
    now = positions(cluster).identity()["id of topic t"]
    assert now != kept["id of topic t"]
    with pytest.raises(CheckpointError) as raised:
        run(spark, tmp_path / "ck", records_of(cluster)).await_termination(END_S)
    # plain texts: an id may have the sign + in it
    assert f"written for topic t with id of topic t {kept['id of topic t']}, this graph" in str(raised.value)
    assert f"with id of topic t {now};" in str(raised.value)


def test_brokers_without_topic_ids_are_not_compared_and_one_warning_says_so(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A broker that answers Metadata up to version 9 reports no topic ids, as Apache Kafka before 2.8."""
    monkeypatch.setattr(api03_metadata, "API", replace(api03_metadata.API, versions=(0, 9)))
    with Cluster() as cluster:
        cluster.create_topic("t", partitions=1)
        found = positions(cluster).identity()
    assert found["cluster id"]
    assert found["id of topic t"] is None
    known = {**found, "id of topic t": "AAAAAAAAAAEAAAAAAAAAAg"}
    folder = written(tmp_path / "ck", SourceIdentity("topic t", known))
    kept = opened(spark, folder, SourceIdentity("topic t", found))
    (warning,) = said(caplog, logging.WARNING)
    assert "the brokers do not report the id of topic t, so the run cannot notice" in warning
    assert kept["sources"][0]["identity"] == known  # a later run on newer brokers compares it


def test_version_1_is_taken_over_with_one_line(
    spark: Any, tmp_path: Path, cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "streamactors.spark")
    cluster.create_topic("t", partitions=1)
    source = SourceIdentity("topic t", positions(cluster).identity())
    folder = written(tmp_path / "ck", source, version=1)
    kept = opened(spark, folder, source)
    assert kept == {"version": 2, "sources": [source.as_json()], "schema": SCHEMA, "initial": {"0/t-0": 0}}
    (line,) = said(caplog, logging.INFO)
    assert f"cluster id {source.identity['cluster id']}" in line
    caplog.clear()
    opened(spark, folder, source)
    assert not said(caplog, logging.INFO)
    with pytest.raises(CheckpointError, match="with cluster id"):
        opened(spark, folder, SourceIdentity("topic t", {"cluster id": "another"}))


# ── the schema ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_another_schema_is_refused_only_while_a_batch_must_be_repeated(
    spark: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "streamactors.spark")
    source = SourceIdentity("topic t")
    half = written(tmp_path / "half", source, committed=False)
    with pytest.raises(CheckpointError, match=rf"batch 0 must be repeated with .*{SCHEMA}, and .* is struct<n:string>"):
        opened(spark, half, source, "struct<n:string>")
    assert opened(spark, half, source)["schema"] == SCHEMA
    whole = written(tmp_path / "whole", source)
    assert opened(spark, whole, source, "struct<n:string>")["schema"] == "struct<n:string>"
    assert [f"the schema was {SCHEMA} and is now struct<n:string>" in line for line in said(caplog, logging.INFO)] == [
        True
    ]


# ── elements in memory, ranges and files ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.expects_log("cannot verify that this")
def test_a_list_says_how_its_second_run_is_meant(spark: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Another list with the same checkpoint gave no row and no word."""
    folder = tmp_path / "ck"
    assert run(spark, folder, Source.from_iterable([(1,), (2,)])).await_termination(END_S)
    assert not said(caplog, logging.WARNING)
    shorter = shutil.copytree(folder, tmp_path / "shorter")
    rows: list[Any] = []
    assert run(spark, folder, Source.from_iterable([(7,), (8,), (9,)]), rows=rows).await_termination(END_S)
    assert rows == [(9,)]
    (warning,) = said(caplog, logging.WARNING)
    assert "cannot verify that this from_iterable source matches the checkpoint" in warning
    assert "continuing after element 2;" in warning
    with pytest.raises(CheckpointError, match="continues at 2 of 0/0, but the input ends at 1"):
        run(spark, shorter, Source.from_iterable([(5,)])).await_termination(END_S)


def test_a_range_that_begins_elsewhere_and_another_file_are_refused(spark: Any, tmp_path: Path) -> None:
    folder = written(tmp_path / "ck", SourceIdentity("range", {"start and step": "0 and 1"}))
    with pytest.raises(
        CheckpointError, match="range with start and step 0 and 1, this graph reads range with start and step 5 and 2"
    ):
        run(spark, folder, Source.range(5, 50, 2).map(lambda n: (n,))).await_termination(END_S)
    other = written(tmp_path / "other", SourceIdentity("from_lines", {"file": "/data/a.txt"}))
    with pytest.raises(
        CheckpointError, match=f"from_lines with file /data/a.txt, this graph reads from_lines with file {tmp_path}/b"
    ):
        run(spark, other, Source.from_lines(tmp_path / "b").map(lambda line: (int(line),))).await_termination(END_S)


# ── the comparison itself ─────────────────────────────────────────────────────────────────────────────────────────────


def test_a_topic_that_came_later_is_added_and_one_that_is_gone_is_kept() -> None:
    kept = SourceIdentity("topics like ^t", {"cluster id": "c", "id of topic t1": "1"})
    read = SourceIdentity("topics like ^t", {"cluster id": "c", "id of topic t2": "2"})
    assert difference([kept], [read]) is None
    assert merged(kept, read).identity == {"cluster id": "c", "id of topic t1": "1", "id of topic t2": "2"}
