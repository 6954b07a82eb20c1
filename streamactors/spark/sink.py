"""SparkSink: sinks whose elements become rows of Spark's micro-batches."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, Final

from streamactors.dsl.sink import Sink
from streamactors.engine.blueprint import StageModule
from streamactors.engine.user_code import shortened
from streamactors.errors import BuildError
from streamactors.spark.files import absolute
from streamactors.spark.parquet import EPOCH, QUERY, ParquetWriter, Transform
from streamactors.spark.query import SparkStreamQuery
from streamactors.spark.rows import BadRow
from streamactors.spark.runner import BatchFunction
from streamactors.spark.schema import row_schema
from streamactors.spark.session import check_session
from streamactors.spark.sink_logic import SinkSettings
from streamactors.spark.sink_stage import SparkSinkStage
from streamactors.spark.source import register
from streamactors.spark.trigger import Trigger, trigger_of
from streamactors.stages.checks import at_least, plain_function

MAX_ROWS: Final = 100_000
TARGET_BATCH_S: Final = 5.0


class SparkSink:
    """Factories. Elements are tuples, dicts or dataclass instances that fit the schema, or Arrow record batches and tables.

    The sources must be ones that can be read again (Kafka topics; ranges, lists, files), and the stages on the way must keep the order
    and remember nothing: after a crash a batch is made again from its range of positions. The checkpoint is the truth about what was
    written; a second run with the same checkpoint goes on behind it, and the offsets of a Kafka group follow it."""

    @staticmethod
    def foreach_batch(
        spark: Any,
        fn: Callable[[Any, int], object],
        schema: Any,
        checkpoint: str | os.PathLike[str],
        max_rows: int = MAX_ROWS,
        trigger: Trigger = None,
        *,
        target_batch_s: float = TARGET_BATCH_S,
        dead_letters: BadRow | None = None,
        fail_on_data_loss: bool = True,
        query_name: str | None = None,
        bind: str = "127.0.0.1",
        advertise: str | None = None,
    ) -> Sink[Any, SparkStreamQuery]:
        """Call `fn(df, epoch_id)` with each batch, in order, in this process: at least once per batch, with the same rows each time.

        `schema`: DDL ("key string, n long") or a StructType. `checkpoint`: a folder of this query's own, a relative one from where this
        process is. `max_rows`: of a batch; how many it
        gets follows from how long batches take, so that one takes about `target_batch_s`. `trigger`: None (as soon as the batch before is
        done), "available_now" (end with the input), or seconds between batches. `dead_letters(row, error)` gets rows that do not fit;
        without it the first one fails the stream. `fail_on_data_loss=False`: records that retention has taken from under the checkpoint are
        skipped instead of failing the query. `bind`, `advertise`: the address the rows are served at, and the one executors reach
        it by; loopback unless told otherwise.
        Materializes: a SparkStreamQuery.
        """
        plain_function("SparkSink.foreach_batch", fn)
        return _sink(
            "SparkSink.foreach_batch",
            spark,
            lambda: lambda frame, epoch, _: fn(frame, epoch),
            schema,
            checkpoint,
            max_rows,
            trigger,
            target_batch_s,
            dead_letters,
            fail_on_data_loss,
            query_name,
            bind,
            advertise,
        )

    @staticmethod
    def parquet(
        spark: Any,
        path: str | os.PathLike[str],
        schema: Any,
        checkpoint: str | os.PathLike[str],
        transform: Transform | None = None,
        partition_by: Sequence[str] = (),
        max_rows: int = MAX_ROWS,
        trigger: Trigger = None,
        *,
        target_batch_s: float = TARGET_BATCH_S,
        dead_letters: BadRow | None = None,
        fail_on_data_loss: bool = True,
        query_name: str | None = None,
        bind: str = "127.0.0.1",
        advertise: str | None = None,
    ) -> Sink[Any, SparkStreamQuery]:
        """Write each batch as Parquet below `path`, exactly once: one folder per (query, epoch), replaced when the batch is repeated.

        Read it as one table: `spark.read.parquet(path)`, `pandas.read_parquet(path)`; it has the columns query_id and epoch_id besides.
        `transform(df, epoch_id) -> df` may join, aggregate or select; `partition_by`: columns. The rest as in `foreach_batch`.
        Materializes: a SparkStreamQuery.
        """
        name = "SparkSink.parquet"
        if transform is not None:
            plain_function(f"{name}: transform", transform)
        columns = (partition_by,) if isinstance(partition_by, str) else tuple(partition_by)
        if not all(isinstance(column, str) for column in columns):
            raise BuildError(f"{name}: partition_by must be names of columns, got {shortened(partition_by, 60)}")
        if {QUERY, EPOCH} & set(columns):
            raise BuildError(f"{name}: {QUERY} and {EPOCH} are the table's own columns; partition by others")
        return _sink(
            name,
            spark,
            lambda: ParquetWriter(spark, _folder(name, spark, "path", path), transform, columns),
            schema,
            checkpoint,
            max_rows,
            trigger,
            target_batch_s,
            dead_letters,
            fail_on_data_loss,
            query_name,
            bind,
            advertise,
        )


def _sink(
    name: str,
    spark: Any,
    make_write: Callable[[], BatchFunction],
    schema: Any,
    checkpoint: str | os.PathLike[str],
    max_rows: int,
    trigger: Trigger,
    target_batch_s: float,
    dead_letters: BadRow | None,
    fail_on_data_loss: bool,
    query_name: str | None,
    bind: str,
    advertise: str | None,
) -> Sink[Any, SparkStreamQuery]:
    """Return a sink with what both have in common checked; `make_write` is called with a session that is known to be good."""
    check_session(spark)
    at_least(name, "max_rows", max_rows, 1)
    if not isinstance(target_batch_s, (int, float)) or target_batch_s <= 0:
        raise BuildError(f"{name}: target_batch_s must be a positive number of seconds, got {target_batch_s!r}")
    if dead_letters is not None:
        plain_function(f"{name}: dead_letters", dead_letters)
    rows = row_schema(schema)
    register(spark)
    settings = SinkSettings(
        spark=spark,
        write=make_write(),
        schema=rows,
        checkpoint=_folder(name, spark, "checkpoint", checkpoint),
        max_rows=max_rows,
        target_ms=target_batch_s * 1_000,
        trigger=trigger_of(name, trigger),
        query_name=query_name,
        bad_rows=dead_letters,
        host=bind,
        advertised_host=advertise,
        strict=bool(fail_on_data_loss),
    )
    return Sink(StageModule(SparkSinkStage(name, settings)))


def _folder(name: str, spark: Any, what: str, given: object) -> str:
    if not isinstance(given, (str, os.PathLike)) or not os.fspath(given):
        raise BuildError(f"{name}: {what} must be a folder, got {shortened(given, 60)}")
    return absolute(spark, str(os.fspath(given)))
