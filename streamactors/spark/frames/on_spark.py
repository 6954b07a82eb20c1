"""on_spark: a Flow as a transformation of DataFrames. The flow runs in Spark's workers, task by task."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from streamactors.collector import collecting_seldom
from streamactors.dsl.flow import Flow
from streamactors.engine.planning.plan import flat_of
from streamactors.engine.user_code import shortened
from streamactors.errors import BuildError
from streamactors.spark.errors import SparkSetupError
from streamactors.spark.frames.elements import Elements, elements_of
from streamactors.spark.frames.expressions import as_expressions
from streamactors.spark.rows import Rows
from streamactors.spark.schema import row_schema
from streamactors.spark.session.session import check_pyspark, is_connect
from streamactors.spark.shipping import entry
from streamactors.spark.shipping.chain import ChainSegment, line_of, links_of
from streamactors.spark.shipping.parcel import copied, made_with, pack
from streamactors.spark.shipping.task_errors import told_in_a_sentence


def on_spark(
    flow: Flow[Any, Any, Any],
    schema: Any,
    *,
    elements: Elements = "tuples",
    per_task: bool = False,
    expressions: bool = False,
) -> Callable[[Any], Any]:
    """Return a function from a DataFrame to the DataFrame of the flow's results: `on_spark(flow, "id long, k string")(df)`, or
    `df.transform(on_spark(…))`. Works for batch and streaming DataFrames.

    `schema`: of the results, as in SparkSink; results are tuples, dicts, records, Arrow data or frames of pandas, as in SparkSink.
    `elements`: what the flow gets of the rows: "tuples", "dicts", "batches" (pyarrow.RecordBatch) or "pandas" (DataFrames).
    `per_task`: allow stages that remember earlier elements (grouped, scan, sliding …). They begin anew in each of Spark's tasks, and Spark
    chooses the rows of a task. Without it such a stage is a BuildError, as are junctions, throttle, and functions that cannot be pickled.
    `expressions`: make Spark's own expressions of the flow, which run in its JVMs without a Python worker. The flow must have maps and filters
    only, whose functions are one expression of operators over a tuple and constants, as `lambda row: (row[0], row[1] * 2)`; any other is a
    BuildError that names the step. A null makes the result of an operator null, where Python would raise.

    Maps and filters run in one generated loop, other stages on the engine in the worker. A task that Spark repeats calls the functions again.
    A DataFrame of Spark Connect is taken, too, except with `expressions`: then SparkSetupError."""
    check_pyspark()
    if not isinstance(flow, Flow):
        raise BuildError(
            f"on_spark expects a Flow (Flow.map(…).filter(…)), got {type(flow).__name__} {shortened(flow, 60)}"
        )
    convert = elements_of("on_spark", elements)
    if expressions and (elements != "tuples" or per_task):
        raise BuildError("on_spark: expressions are made of a flow of tuples; leave elements and per_task out")
    flat = flat_of(flow.module)
    nodes = [flat.nodes[i] for i in line_of(flat, flat.inlets[0][0], "on_spark")]
    links = tuple(links_of(nodes, "on_spark", may_remember=per_task))

    def transform(frame: Any) -> Any:
        check_frame("on_spark", frame, connect=not expressions)
        rows = row_schema(schema)
        if expressions:
            return as_expressions("on_spark", links, frame, rows.spark)
        parcel = pack(_Transformation(ChainSegment(links, remembers=per_task), convert, rows.arrow), "on_spark", links)
        return frame.mapInArrow(copied(entry.over_batches(parcel, made_with()), entry), rows.spark)

    return transform


def check_frame(who: str, frame: Any, *, connect: bool = False) -> None:
    """Raise unless `frame` is a DataFrame of a session in this process; `connect`: or one of Spark Connect."""
    if is_connect(frame):
        if connect:
            return
        raise SparkSetupError(
            f"{who}: this DataFrame is of Spark Connect, and its columns and rows are reached through a JVM of this process; "
            "use a DataFrame of a classic session: spark_session(master=…)"
        )
    from pyspark.sql import DataFrame

    if not isinstance(frame, DataFrame):
        raise BuildError(f"{who} expects a DataFrame of Spark, got {type(frame).__name__}")


@dataclass
class _Transformation:
    """What a worker runs."""

    segment: ChainSegment
    elements: Callable[[Any], list[Any]]
    schema: Any

    def run(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Yield the results of record batches as record batches."""
        rows = Rows(self.schema)
        with collecting_seldom(), told_in_a_sentence():
            for results in self.segment.chunks(self.elements(batch) for batch in batches if batch.num_rows):
                yield from rows.batches(results)
