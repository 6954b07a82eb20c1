"""Results and late rows that both go to Spark: one frame has both, and each kind is checked and split as its sink wants it."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from streamactors import Flow
from streamactors.kafka import Consumer, ConsumerSettings, ProducerSettings, Subscriptions
from streamactors.kafka.subscriptions import TopicPartition
from streamactors.spark import RowError
from streamactors.spark.executors.planner import Plans
from streamactors.spark.executors.query import ShippedQuery
from streamactors.spark.executors.ranges import At, Range
from streamactors.spark.executors.topic_end import TopicEnd
from streamactors.spark.executors.translate import translate
from streamactors.spark.executors.two_kinds import LATE, ROW, KindOfRow
from tests.spark.executors._plain import spark_end, write_rows
from tests.spark.executors.test_topic_end import counted

INNER = pa.struct([pa.field("a", pa.list_(pa.field("element", pa.int64(), nullable=False)), nullable=False)])
KEY = pa.struct([pa.field("key", pa.string(), nullable=False), pa.field("inner", INNER, nullable=False)])
NUMBERS = pa.struct(
    [pa.field("n", pa.int64(), nullable=False), pa.field("m", pa.map_(pa.string(), INNER), nullable=False)]
)
SCHEMA = pa.schema([pa.field(ROW, KEY), pa.field(LATE, NUMBERS)])


def test_a_row_of_one_kind_leaves_the_other_column_null_though_its_fields_must_not_be_null() -> None:
    (results,) = KindOfRow(SCHEMA, ROW).batches([("a", {"a": [1]}), {"key": "b", "inner": ([],)}])
    assert results.schema == SCHEMA
    results.validate(full=True)
    assert results.to_pylist() == [
        {"row": {"key": "a", "inner": {"a": [1]}}, "late": None},
        {"row": {"key": "b", "inner": {"a": []}}, "late": None},
    ]
    (late,) = KindOfRow(SCHEMA, LATE).batches([(7, {"x": ([2],)})])
    assert late.to_pylist() == [{"row": None, "late": {"n": 7, "m": [("x", {"a": [2]})]}}]


def test_arrow_data_may_be_of_either_kind() -> None:
    given = pa.record_batch([pa.array(["a"]), pa.array([{"a": [1]}], INNER)], names=["key", "inner"])
    (results,) = KindOfRow(SCHEMA, ROW).batches([given])
    assert results.to_pylist() == [{"row": {"key": "a", "inner": {"a": [1]}}, "late": None}]


@pytest.mark.parametrize(
    ("name", "row", "told"),
    [
        (ROW, (None, ([],)), r"^row \(None, .*field 'key' must not be null\n"),
        (ROW, ("a", ([None],)), r"^row .*: field 'inner\.a\[0\]' must not be null\n"),
        (LATE, (None, {}), r"^late rows: row \(None, \{\}\): field 'n' must not be null\n"),
        (LATE, (1, {"x": None, "y": (None,)}), r"^late rows: row .*: field 'm\['y'\]\.a' must not be null\n"),
    ],
)
def test_a_null_that_the_schema_forbids_is_named_as_the_user_knows_it(name: str, row: Any, told: str) -> None:
    """Spark's JVM found it: "IllegalStateException: Value at index is null"."""
    with pytest.raises(RowError, match=told):
        KindOfRow(SCHEMA, name).batches([row])


def test_with_dead_letters_in_a_topic_results_and_late_rows_keep_their_columns(cluster: Any, tmp_path: Path) -> None:
    """Late rows were taken for results as soon as anything of the graph was written to a topic."""
    topic, dead = (f"{kind}{uuid.uuid4().hex[:8]}" for kind in "td")
    write_rows(cluster, topic, [(0, "a", 1, 500), (0, "a", 2, 900), (0, "a", 3, 10)])
    cluster.create_topic(dead, partitions=1)
    settings = ConsumerSettings(cluster.bootstrap_servers, group_id=topic, auto_offset_reset="earliest")
    subscription = Subscriptions.topics(topic)
    source = Consumer.records(
        settings,
        subscription,
        key="string",
        value="json",
        timestamp=lambda r: r.value[1],
        dead_letters=dead,
        until="end",
    )
    late = Flow.map(lambda row: (row.record.value[0],)).to(spark_end())
    graph = counted(source, late).map(lambda row: (row.key, row.value)).to(spark_end())
    program = translate(graph.module).program
    assert program.windows is not None
    program.windows.partitions = 2
    plans = Plans(
        settings, subscription, {}, None, commits=False, windows=True, idle_after_ms=None, state_folder=str(tmp_path),
        max_rows=100, target_ms=1_000, skip_lost=False,
    )  # fmt: skip
    end = TopicEnd(ProducerSettings(cluster.bootstrap_servers), f"{topic}.spark", results=False, late=False)
    schema = pa.schema(
        [
            pa.field(ROW, pa.struct([pa.field("key", pa.string(), nullable=False), ("n", pa.int64())])),
            pa.field(LATE, pa.struct([pa.field("n", pa.int64(), nullable=False)])),
        ]
    )
    shipped = ShippedQuery(plans, program, schema, end)
    what = Range(TopicPartition(topic, 0), At(0), At(3, ended=True), 0)
    rows = [row for batch in shipped.read(what.packed()) for row in batch.to_pylist()]
    assert [row["row"] for row in rows if row["row"]] == [{"key": "a", "n": 1}, {"key": "a", "n": 1}]
    assert [row["late"] for row in rows if row["late"]] == [{"n": 3}]
    assert len(rows) == 3
