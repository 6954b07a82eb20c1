"""SparkExecutors: `graph.run(SparkExecutors(spark))` runs a graph on a Spark cluster."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any, Final

from streamactors.dsl.runnable import RunnableGraph
from streamactors.engine.blueprint.graph import Flat
from streamactors.engine.blueprint.modules import Module
from streamactors.engine.planning.plan import evaluate, flat_of
from streamactors.engine.stage import NOT_USED
from streamactors.errors import BuildError
from streamactors.kafka.state.repartition import RepartitionRun
from streamactors.kafka.writing.producer_stage import ProducerStage
from streamactors.spark.executors.graph_chain import WHO, TwoChains, chain_of, chains_around_key_by
from streamactors.spark.executors.runner import GraphRun, Late
from streamactors.spark.executors.topic_end import SCHEMA, TopicEnd
from streamactors.spark.executors.translate import Translated, explained, translated
from streamactors.spark.executors.two_queries import TwoQueries
from streamactors.spark.files import absolute
from streamactors.spark.query.query_name import checked_name
from streamactors.spark.schema import row_schema
from streamactors.spark.session.session import check_session
from streamactors.spark.sink.batch_size import MAX_ROWS
from streamactors.spark.sink.settings import SinkTarget, SparkSinkSettings, Trigger, trigger_of
from streamactors.spark.sink.spark_sink import SparkSinkStage
from streamactors.stages.checks import at_least

KEY_BY: Final = "streamactors-key_by"
"""The checkpoint of the query that writes the topic of key_by, within that of the query that reads it."""

TRANSACTION_MS: Final = 60_000


class SparkExecutors:
    """Runs graphs on the executors of a Spark cluster: `query = graph.run(SparkExecutors(spark))`.

    A task of Spark runs the whole graph for a range of one partition: it reads the range from Kafka, runs the steps and windows, and gives
    the results as rows. The results, and their order within a partition, are those of `graph.run()` in this process. No record becomes
    a row of Spark before the steps, nothing is shuffled, and windows close by the stream time of their own partition.

    `checkpoint`, `trigger`, `max_rows`: as in SparkSink, for a sink that leaves them open; two values that differ are a BuildError. A
    bounded read (until="end") ends the query when all of it is written, and takes no interval as trigger.
    `query_name`: the query's name in Spark, here or at the sink; otherwise the name that the sink has by `named`, or its label and the source's group.
    `fail_on_data_loss`: False, here or at the sink, skips records that retention has deleted before they were read; True fails the query.

    A graph has one Kafka source (Consumer.source, Consumer.records or Consumer.plain_source), steps that remember nothing and keep the
    order, at most one key_by, at most one window stage, and ends in SparkSink.foreach_batch, SparkSink.parquet,
    SparkSink.delta, or a topic (Transactional.sink, Producer.plain_sink); `late=` takes such a sink, too. A topic is written exactly once: each task in one
    transaction with the position after its range, committed for the group "<group_id>.spark"; `run` then returns the SparkStreamQuery,
    and `checkpoint` is needed.
    `explain(graph)` says where each stage runs, or why it cannot."""

    def __init__(
        self,
        spark: Any,
        *,
        checkpoint: str | os.PathLike[str] | None = None,
        trigger: Trigger = None,
        max_rows: int | None = None,
        fail_on_data_loss: bool = True,
        query_name: str | None = None,
    ) -> None:
        check_session(
            spark,
            f"{WHO}: a session of Spark Connect has no JVM in this process, by which the checkpoint and the query's handles are reached",
        )
        self._spark = spark
        self._checkpoint = None if checkpoint is None else absolute(spark, str(os.fspath(checkpoint)))
        self._max_rows = None if max_rows is None else at_least(WHO, "max_rows", max_rows, 1)
        trigger_of(WHO, trigger)
        checked_name(WHO, query_name)
        self._settings = SparkSinkSettings(trigger=trigger, fail_on_data_loss=fail_on_data_loss, query_name=query_name)

    def materialize(self, module: Module) -> Any:
        """Start a closed graph on the executors; return its materialized value. `RunnableGraph.run` calls this."""
        flat = flat_of(module)
        two_chains = chains_around_key_by(flat)
        if two_chains is not None:
            return self._in_two_queries(flat, two_chains)
        graph = translated(chain_of(flat))
        run = self._run_of(graph)
        value = _value_of(graph, flat.mat, graph.chain.source, run)
        run.start()
        return value

    def _in_two_queries(self, flat: Flat, two_chains: TwoChains) -> Any:
        """Start the two queries of a graph with key_by."""
        between = two_chains.between
        first, second = translated(chain_of(flat, two_chains.first)), translated(chain_of(flat, two_chains.second))
        if between.bounded:
            second = replace(second, plan=replace(second.plan, until_end=True))
        reading = self._run_of(second)
        target = reading.target
        assert first.topic is not None
        first.topic.settings = first.topic.settings.with_property("transaction.timeout.ms", TRANSACTION_MS)
        name = None if target.settings.query_name is None else f"{target.settings.query_name} key_by"
        settings = SparkSinkSettings(
            trigger=target.settings.trigger, fail_on_data_loss=target.settings.fail_on_data_loss, query_name=name
        )
        writing = GraphRun(
            first,
            self._for_topic(f"{target.checkpoint}/{KEY_BY}", target.max_rows, settings),
            None,
            _topic_end(first, first.topic),
        )
        run = TwoQueries(between, writing, reading, in_turn=between.bounded or "availableNow" in target.trigger)
        mat: list[tuple[str, Any]] = [
            ("wired", (argument[0], lambda _: run.control))
            if op == "wired" and isinstance(argument[1], RepartitionRun)
            else (op, argument)
            for op, argument in flat.mat
        ]
        value = _value_of(second, mat, first.chain.source, run)
        run.start()
        return value

    def _run_of(self, graph: Translated) -> GraphRun:
        """Return the run of a chain, not started. Raises BuildError for settings that do not fit."""
        topic = None if graph.producer is None else _topic_end(graph, graph.producer)
        if topic is not None and topic.takes_all:
            if self._checkpoint is None:
                raise BuildError(
                    f"{WHO}: a graph that ends in a topic needs SparkExecutors(spark, checkpoint=…): a folder that no other query uses"
                )
            target = self._for_topic(self._checkpoint, self._max_rows or MAX_ROWS, self._settings)
        else:
            sink = graph.sink if graph.topic is None else graph.late_sink
            assert sink is not None
            assert isinstance(sink.stage, SparkSinkStage)
            target = self._settled(sink.stage.target)
        if graph.plan.until_end and "processingTime" in target.trigger:
            raise BuildError(
                f'{WHO}: the source ends (until="end"), and a query with an interval as trigger does not; leave the trigger out'
            )
        late = None
        if graph.late_sink is not None and graph.topic is None and graph.late_topic is None:
            late_stage = graph.late_sink.stage
            assert isinstance(late_stage, SparkSinkStage)
            if late_stage.target.table is not None and late_stage.target.table == target.table:
                raise BuildError(
                    f"{WHO}: results and late rows of a batch have the same number, so one would replace the other in {target.table}; "
                    "write late rows to a table of their own"
                )
            late = Late(late_stage.target.schema, late_stage.target.write)
        return GraphRun(graph, target, late, topic)

    def carry_back(self, graph: RunnableGraph[Any]) -> dict[str, int]:
        """Carry the state of a graph's windows, and its positions, back to where `graph.run()` in one process continues; return the positions.

        The state goes to the changelog topics and the positions to the source's group, in one transaction for each partition. A graph
        without windows has positions only. The query must have ended, and its last batch must be written. To continue on executors later,
        give the next run a new checkpoint.
        Raises BuildError for windows without changelogs, a source that does not commit, or a graph that does not end in a topic;
        CheckpointError, RestoreError, KafkaError."""
        translated_ = translated(chain_of(flat_of(graph.module)))
        windows, plan, topic = translated_.program.windows, translated_.plan, translated_.topic
        if topic is None or not plan.keeps_changelog or not (windows is None or windows.factory.intake.changelog):
            raise BuildError(
                f"{WHO}: only a graph whose results end in a topic can be carried back, with a source that commits, and without windows or with "
                "windows that have changelogs; this graph would not continue in one process"
            )
        run = self._run_of(translated_)
        return {str(key): position for key, position in run.carry_back(topic.settings).items()}

    def explain(self, graph: RunnableGraph[Any]) -> str:
        """Return a table of the graph's stages: where each runs on a cluster, or why it cannot, with the way out."""
        if not isinstance(graph, RunnableGraph):
            raise BuildError(f"explain expects a graph (source.to(sink)), got {type(graph).__name__}")
        return explained(graph.module)

    def _for_topic(self, checkpoint: str, max_rows: int, settings: SparkSinkSettings) -> SinkTarget:
        """Return the target of a query whose tasks write a topic: Spark only runs them."""
        return SinkTarget(
            self._spark,
            lambda frame, epoch, query_id: frame.count(),  # the tasks do the work
            row_schema(SCHEMA),
            checkpoint,
            max_rows,
            settings,
        )

    def _settled(self, sink: SinkTarget) -> SinkTarget:
        """Return the sink's target with what was set here. Raises BuildError for two values that differ."""
        own, its = self._settings, sink.settings
        if sink.spark is not self._spark:
            raise BuildError(f"{WHO}: the sink was made for another Spark session; make both with the same one")
        if self._checkpoint is not None and self._checkpoint != sink.checkpoint:
            raise BuildError(
                f"{WHO}: checkpoint {self._checkpoint} differs from the sink's {sink.checkpoint}; give it once"
            )
        if None not in (own.trigger, its.trigger) and trigger_of(WHO, own.trigger) != sink.trigger:
            raise BuildError(f"{WHO}: trigger {own.trigger!r} differs from the sink's {its.trigger!r}; give it once")
        if self._max_rows is not None and sink.max_rows not in (MAX_ROWS, self._max_rows):
            raise BuildError(f"{WHO}: max_rows {self._max_rows} differs from the sink's {sink.max_rows}; give it once")
        if own.query_name is not None and its.query_name not in (None, own.query_name):
            raise BuildError(
                f"{WHO}: query_name {own.query_name!r} differs from the sink's {its.query_name!r}; give it once"
            )
        settings = replace(
            its,
            query_name=its.query_name or own.query_name,
            trigger=own.trigger if its.trigger is None else its.trigger,
            fail_on_data_loss=its.fail_on_data_loss and own.fail_on_data_loss,
        )
        return replace(sink, max_rows=self._max_rows or sink.max_rows, settings=settings)


def _value_of(graph: Translated, mat: list[tuple[str, Any]], source: int, run: GraphRun | TwoQueries) -> Any:
    """Return the materialized value of a graph whose last chain is `graph`; for a graph that ends in a topic the query."""
    if graph.topic is not None:
        return run.query
    chain = graph.chain
    values: list[Any] = [NOT_USED] * len(chain.flat.nodes)
    values[source] = run.control
    values[chain.sink] = run.query
    if chain.late:
        values[chain.late[-1]] = run.query
    return evaluate(mat, values)


def _topic_end(graph: Translated, producer: ProducerStage) -> TopicEnd:
    """Return what the tasks write, and how. The positions that are committed with the output have a group of their own."""
    group = graph.plan.settings.group_id
    if not group:
        raise BuildError(
            f"{WHO}: what was written to a topic is kept with the offsets of a group, and the source has none; "
            "give ConsumerSettings(…, group_id='…')"
        )
    late_is_sparks = graph.late_sink is not None and graph.late_topic is None
    return TopicEnd(producer.settings, f"{group}.spark", results=graph.topic is not None, late=not late_is_sparks)
