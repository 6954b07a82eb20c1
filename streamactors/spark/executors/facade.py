"""SparkExecutors: `graph.run(SparkExecutors(spark))` runs a graph on a Spark cluster."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

from streamactors.dsl.runnable import RunnableGraph
from streamactors.engine.blueprint.modules import Module
from streamactors.engine.blueprint.plan import evaluate
from streamactors.engine.stage import NOT_USED
from streamactors.errors import BuildError
from streamactors.kafka.writing.producer_stage import ProducerStage
from streamactors.spark.executors.runner import GraphRun, Late
from streamactors.spark.executors.topic_end import SCHEMA, TopicEnd
from streamactors.spark.executors.translate import WHO, Translated, explained, translate
from streamactors.spark.files import absolute
from streamactors.spark.schema import row_schema
from streamactors.spark.session.session import check_session
from streamactors.spark.sink.sink_logic import SinkSettings
from streamactors.spark.sink.spark_sink import MAX_ROWS, TARGET_BATCH_S, SparkSinkStage, Trigger, trigger_of
from streamactors.stages.checks import at_least


class SparkExecutors:
    """Runs graphs on the executors of a Spark cluster: `query = graph.run(SparkExecutors(spark))`.

    A task of Spark runs the whole graph for a range of one partition: it reads the range from Kafka, runs the steps and windows, and gives
    the results as rows. The results, and their order within a partition, are those of `graph.run()` in this process. No record becomes
    a row of Spark before the steps, nothing is shuffled, and windows close by the stream time of their own partition.

    `checkpoint`, `trigger`, `max_rows`: as in SparkSink, for a sink that leaves them open; two values that differ are a BuildError. A
    bounded read (until="end") ends the query when all of it is written, and takes no interval as trigger.

    A graph has one Kafka source (Consumer.source, Consumer.records or Consumer.plain_source), steps that remember nothing and keep the
    order, at most one window stage, and ends in SparkSink.foreach_batch, SparkSink.parquet,
    or a topic (Transactional.sink, Producer.plain_sink); `late=` takes such a sink, too. A topic is written exactly once: each task in one
    transaction with the position behind its range, committed for the group "<group_id>.spark"; `run` then returns the SparkStreamQuery,
    and `checkpoint` is needed.
    `explain(graph)` says where each stage runs, or why it cannot."""

    def __init__(
        self,
        spark: Any,
        *,
        checkpoint: str | os.PathLike[str] | None = None,
        trigger: Trigger = None,
        max_rows: int | None = None,
    ) -> None:
        check_session(spark)
        self._spark = spark
        self._checkpoint = None if checkpoint is None else absolute(spark, str(os.fspath(checkpoint)))
        self._trigger = trigger_of(WHO, trigger)
        self._max_rows = None if max_rows is None else at_least(WHO, "max_rows", max_rows, 1)

    def materialize(self, module: Module) -> Any:
        """Start a closed graph on the executors; return its materialized value. `RunnableGraph.run` calls this."""
        graph = translate(module)
        topic = None
        if graph.topic is not None:
            settings, topic = self._for_topic(graph), _topic_end(graph, graph.topic)
        else:
            stage = graph.sink.stage
            assert isinstance(stage, SparkSinkStage)
            settings = self._settled(stage.settings)
        if graph.plan.until_end and "processingTime" in settings.trigger:
            raise BuildError(
                f'{WHO}: the source ends (until="end"), and a query with an interval as trigger does not; leave the trigger out'
            )
        late = None
        if graph.late_sink is not None and topic is None:
            late_stage = graph.late_sink.stage
            assert isinstance(late_stage, SparkSinkStage)
            late = Late(late_stage.settings.schema, late_stage.settings.write)
        run = GraphRun(graph, settings, late, topic)
        if topic is not None:
            run.start()
            return run.query
        nodes = graph.way.flat.nodes
        values: list[Any] = [NOT_USED] * len(nodes)
        values[graph.way.source] = run.control
        values[graph.way.sink] = run.query
        if graph.way.late:
            values[graph.way.late[-1]] = run.query
        value = evaluate(graph.way.flat.mat, values)
        run.start()
        return value

    def explain(self, graph: RunnableGraph[Any]) -> str:
        """Return a table of the graph's stages: where each runs on a cluster, or why it cannot, with the way out."""
        if not isinstance(graph, RunnableGraph):
            raise BuildError(f"explain expects a graph (source.to(sink)), got {type(graph).__name__}")
        return explained(graph.module)

    def _for_topic(self, graph: Translated) -> SinkSettings:
        """Return the settings of a query whose tasks write a topic: Spark's part is to run them."""
        if self._checkpoint is None:
            raise BuildError(
                f"{WHO}: a graph that ends in a topic needs SparkExecutors(spark, checkpoint=…): a folder that no other query uses"
            )
        return SinkSettings(
            spark=self._spark,
            write=lambda frame, epoch, query_id: frame.collect(),
            schema=row_schema(SCHEMA),
            checkpoint=self._checkpoint,
            max_rows=self._max_rows or MAX_ROWS,
            target_ms=TARGET_BATCH_S * 1_000,
            trigger=self._trigger,
            query_name=None,
            bad_rows=None,
            host="127.0.0.1",
            advertised_host=None,
            strict=True,
        )

    def _settled(self, sink: SinkSettings) -> SinkSettings:
        if sink.spark is not self._spark:
            raise BuildError(f"{WHO}: the sink was made for another Spark session; make both with the same one")
        if self._checkpoint is not None and self._checkpoint != sink.checkpoint:
            raise BuildError(
                f"{WHO}: checkpoint {self._checkpoint} differs from the sink's {sink.checkpoint}; give it once"
            )
        if self._trigger and sink.trigger and self._trigger != dict(sink.trigger):
            raise BuildError(
                f"{WHO}: trigger {self._trigger} differs from the sink's {dict(sink.trigger)}; give it once"
            )
        if self._max_rows is not None and sink.max_rows not in (MAX_ROWS, self._max_rows):
            raise BuildError(f"{WHO}: max_rows {self._max_rows} differs from the sink's {sink.max_rows}; give it once")
        return replace(sink, trigger=sink.trigger or self._trigger, max_rows=self._max_rows or sink.max_rows)


def _topic_end(graph: Translated, producer: ProducerStage) -> TopicEnd:
    """Return how the tasks write. The positions that are committed with the output have a group of their own."""
    group = graph.plan.settings.group_id
    if not group:
        raise BuildError(
            f"{WHO}: what was written to a topic is kept with the offsets of a group, and the source has none; "
            "give ConsumerSettings(…, group_id='…')"
        )
    return TopicEnd(producer.settings, f"{group}.spark")
