"""The format streamactors: a source with its steps, named by its module, as a streaming DataFrame."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.errors.exceptions.base import PySparkException
from pyspark.sql.types import StructType

from streamactors import Source
from streamactors.broker import Cluster
from streamactors.dsl.named import GraphFailed, GraphNotFound
from streamactors.errors import BuildError
from streamactors.kafka import Producer, ProducerRecord, ProducerSettings
from streamactors.spark import register_graph_format
from streamactors.spark.graph_format.reading import graph_options, parcel_of
from streamactors.spark.shipping.parcel import unpack
from streamactors.spark.sink.batch_size import MAX_ROWS
from tests.spark.own_queries import finished

pytestmark = pytest.mark.timeout(600)
SCHEMA = StructType().add("key", "string").add("n", "long")
NUMBERS = range(60)

MODULE = """
from streamactors import Sink
from streamactors.kafka import Consumer, ConsumerSettings, Subscriptions

settings = ConsumerSettings({servers!r}, group_id="fruit-in-spark", auto_offset_reset="earliest")


def doubled(record):
    return record.key, 2 * record.value


fruit = Consumer.records(settings, Subscriptions.topics("fruit"), key="string", value="json").map(doubled)
odd = fruit.scan(0, lambda before, _: before + 1)
run = fruit.to(Sink.ignore())


def made():
    return fruit


def broken():
    raise LookupError("no such shop")
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as cluster:
        cluster.create_topic("fruit", 2)
        records = Source.from_iterable(NUMBERS).map(
            lambda n: ProducerRecord("fruit", json.dumps(n), "abc"[n % 3], partition=n % 2)
        )
        records.run_with(Producer.plain_sink(ProducerSettings(cluster.bootstrap_servers))).result(30)
        yield cluster


@pytest.fixture(scope="module")
def folder(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the user's module is: a folder on the driver's import path only."""
    folder = tmp_path_factory.mktemp("modules")
    (folder / "fruit_streams.py").write_text(MODULE.format(servers=cluster.bootstrap_servers))
    return folder


@pytest.fixture
def session(spark: Any, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(folder))
    register_graph_format(spark)
    return spark


def reading(session: Any, **options: str) -> Any:
    return session.readStream.format("streamactors").options(**options)


@pytest.mark.slow
def test_a_named_source_is_a_streaming_frame_that_goes_on_at_its_checkpoint(session: Any, tmp_path: Path) -> None:
    def run(name: str) -> Any:
        frame = reading(session, source="fruit_streams:fruit", maxRows="25").schema(SCHEMA).load()
        counts = frame.groupBy("key").agg({"n": "sum"})
        writing = counts.writeStream.outputMode("complete").format("memory").queryName(name)
        return finished(writing.option("checkpointLocation", str(tmp_path / "ck")).trigger(availableNow=True).start)

    query = run("first")
    wanted: Counter[str] = Counter()
    for n in NUMBERS:
        wanted["abc"[n % 3]] += 2 * n
    assert {row["key"]: row["sum(n)"] for row in session.table("first").collect()} == dict(wanted)
    batches = [each["numInputRows"] for each in query.recentProgress if each["numInputRows"]]
    assert sum(batches) == 60
    assert max(batches) <= 25
    assert json.loads(query.lastProgress["sources"][0]["latestOffset"]) == {"0/fruit-0": 30, "0/fruit-1": 30}
    again = run("second")
    assert not sum(each["numInputRows"] for each in again.recentProgress), "the checkpoint has all records"


def test_what_is_missing_is_said_in_a_sentence_by_spark(session: Any, folder: Path, tmp_path: Path) -> None:
    with pytest.raises(AnalysisException, match=r'give it: .schema\("key string, n long"\)'):
        reading(session, source="fruit_streams:fruit").load()
    with pytest.raises(PySparkException, match=r"a source is a stream; use spark\.readStream"):
        session.read.format("streamactors").option("source", "fruit_streams:fruit").schema(SCHEMA).load().collect()
    frame = reading(session, source="fruit_streams:fruits").schema(SCHEMA).load()
    writing = frame.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "none"))
    with pytest.raises(StreamingQueryException, match="fruit_streams has no fruits; did you mean fruit"):
        finished(writing.start)


@pytest.mark.parametrize(
    ("options", "error", "sentence"),
    [
        ({}, BuildError, r'option source is missing: \.option\("source", "my_streams:orders"\)'),
        ({"source": "a:b", "maxrow": "5"}, BuildError, "has no option maxrow here; did you mean maxRows"),
        ({"source": "a:b", "maxrows": "0"}, BuildError, "option maxRows must be a number of at least 1, got '0'"),
        (
            {"source": "a:b", "failondataloss": "no"},
            BuildError,
            "option failOnDataLoss must be true or false, got 'no'",
        ),
        ({"source": "fruit"}, GraphNotFound, "'fruit' names no graph; its form is MODULE:SOURCE"),
        ({"source": "fruit_streams:run"}, GraphNotFound, "fruit_streams:run is a RunnableGraph, not a source"),
        ({"source": "no_fruit:run"}, GraphNotFound, "there is no module 'no_fruit'"),
        ({"source": "fruit_streams:broken"}, GraphFailed, "fruit_streams:broken raised LookupError: no such shop"),
        ({"source": "fruit_streams:odd"}, BuildError, "streamactors, fruit_streams:odd: stage 'scan' remembers"),
    ],
)
def test_options_that_name_no_source_of_spark(
    folder: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, str], error: type[Exception], sentence: str
) -> None:
    monkeypatch.syspath_prepend(str(folder))
    with pytest.raises(error, match=sentence):
        parcel_of(options, SCHEMA, ())


def test_the_options_mean_what_the_parameters_of_frame_mean() -> None:
    assert graph_options({"source": "a:b"}) == ("a:b", MAX_ROWS, True)
    assert graph_options({"source": "a:b", "maxrows": "7", "failondataloss": "false"}) == ("a:b", 7, False)


def test_a_function_that_returns_a_source(folder: Path) -> None:
    parcel = parcel_of({"source": f"{folder}/fruit_streams.py:made"}, SCHEMA, ())
    assert unpack(parcel)._plans.to_skip == "failOnDataLoss=false"  # not as SparkSource.frame has it
