"""SparkSource: DataFrames as sources of streams in the driver's process."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

from streamactors.dsl.source import Source
from streamactors.engine.blueprint.modules import StageModule
from streamactors.engine.stage import NotUsed
from streamactors.engine.stage_traits import StageTraits
from streamactors.errors import BuildError
from streamactors.spark.files import absolute
from streamactors.spark.frames.elements import Elements, elements_of
from streamactors.spark.frames.on_spark import check_frame
from streamactors.spark.frames.record_batches import record_batches
from streamactors.spark.frames.stream_rows import StreamRows
from streamactors.spark.query.query import SparkStreamQuery
from streamactors.spark.session.session import check_pyspark
from streamactors.spark.sink.batch_size import MAX_ROWS
from streamactors.spark.sink.settings import Trigger, trigger_of
from streamactors.stages.sources.iterables import FromIterable


class SparkSource:
    """Factories of sources whose elements are rows that Spark computes."""

    @staticmethod
    def of(frame: Any, *, elements: Elements = "tuples") -> Source[Any, NotUsed]:
        """Emit the rows of a DataFrame, in the order of its partitions. Each run is one job of Spark.

        `elements`: "tuples" (in the order of the columns), "dicts", "pandas" (DataFrames), or "batches": one pyarrow.RecordBatch per
        element, which is the fastest. Back-pressure: Spark computes one partition ahead of the stream. The rows cannot be replayed, because Spark promises no order;
        for SparkSink write them to a topic first.
        Emits when: Spark has computed rows.   Completes when: the job has.   Fails when: the job fails."""
        check_pyspark()
        who = "SparkSource.of"
        check_frame(who, frame)
        if frame.isStreaming:
            raise BuildError(
                f"{who} takes a batch DataFrame, and this one is streaming; use SparkSource.of_stream(df, checkpoint=…)"
            )
        return Source(StageModule(FrameRows(DataFrameRows(frame, elements_of(who, elements)))))

    @staticmethod
    def of_stream(
        frame: Any,
        *,
        checkpoint: str | os.PathLike[str],
        elements: Elements = "tuples",
        trigger: Trigger = None,
    ) -> Source[Any, SparkStreamQuery]:
        """Emit the rows of a streaming DataFrame, batch by batch. Materializes the SparkStreamQuery.

        Spark's checkpoint has a batch when all its rows are done at every sink of the run; so each row arrives at least once, and a batch that
        was done before a crash is recognised by its number and not emitted again. The stages downstream must keep exact cuts (as for
        a transaction), because Spark begins no batch before the one before it is done.
        `checkpoint`, `trigger`: as in SparkSink. `elements`: as in `of`.
        Emits when: Spark has computed a batch.   Completes when: the query ends or is stopped.   Fails when: the query fails.
        Cancels when: downstream cancels; that stops the query."""
        check_pyspark()
        who = "SparkSource.of_stream"
        check_frame(who, frame)
        if not frame.isStreaming:
            raise BuildError(f"{who} takes a streaming DataFrame, and this one is not; use SparkSource.of(df)")
        folder = absolute(frame.sparkSession, str(os.fspath(checkpoint)))
        return Source(StageModule(StreamRows(frame, elements_of(who, elements), folder, trigger_of(who, trigger))))

    @staticmethod
    def frame(
        spark: Any, source: Source[Any, Any], schema: Any, *, max_rows: int = MAX_ROWS, fail_on_data_loss: bool = True
    ) -> Any:
        """Return a Kafka source with its steps as a streaming DataFrame, for withWatermark, joins, transformWithState and every sink of
        Spark. The records are read and the steps run on the executors, as with SparkExecutors.

        `source`: Consumer.source, Consumer.records or Consumer.plain_source with steps that remember nothing; without windows. A query
        without a checkpoint begins at the group's committed offsets, which follow the query's checkpoint; the group must be the query's own.
        `schema`: of the rows, as in SparkSink. `max_rows`: the most records of a batch. Spark's progress shows the ends of the partitions.
        `spark` may be a session of Spark Connect, whose server's workers need streamactors.
        Raises BuildError naming a stage that cannot run there, GroupInUse, TopicNotFound."""
        from streamactors.spark.executors.frame import frame_of

        return frame_of(spark, source, schema, max_rows, fail_on_data_loss)


class FrameRows(FromIterable):
    """Emit the rows of a DataFrame.

    Emits when: Spark has computed rows.   Completes when: the job has.   Fails when: the job fails."""

    name = "spark_frame"

    def __init__(self, reader: DataFrameRows) -> None:
        super().__init__(reader)
        self.traits = StageTraits()  # another run of the same plan may give another order


class DataFrameRows:
    """The rows of a DataFrame; each iteration runs a job."""

    def __init__(self, frame: Any, elements: Callable[[Any], list[Any]]) -> None:
        self._frame = frame
        self._elements = elements

    def __iter__(self) -> Iterator[Any]:
        for batch in record_batches(self._frame):
            yield from self._elements(batch)
