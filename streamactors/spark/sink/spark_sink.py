"""SparkSink: sinks whose elements become rows of Spark's micro-batches, and their stage. sink_logic.py has what runs."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import fields
from functools import wraps
from typing import Any, Final, ParamSpec, TypeVar

from streamactors.dsl.sink import Sink
from streamactors.engine.attributes import Attributes
from streamactors.engine.blueprint.modules import StageModule
from streamactors.engine.logic import Logic
from streamactors.engine.marks.marks import Needs
from streamactors.engine.stage import SINK, GraphStage
from streamactors.engine.stage_traits import StageTraits
from streamactors.engine.user_code import shortened
from streamactors.errors import BuildError
from streamactors.spark.files import absolute
from streamactors.spark.query.query import SparkStreamQuery
from streamactors.spark.query.runner import BatchFunction, batch_function
from streamactors.spark.schema import source_schema
from streamactors.spark.session.formats import register_bridge
from streamactors.spark.session.session import check_session
from streamactors.spark.sink.batch_size import MAX_ROWS
from streamactors.spark.sink.delta import DeltaWriter, check_delta
from streamactors.spark.sink.parquet import ParquetWriter, Transform, check_names
from streamactors.spark.sink.settings import SinkTarget, SparkSinkSettings
from streamactors.spark.sink.sink_logic import SparkSinkLogic
from streamactors.stages.checks import at_least, plain_function

ON_EXECUTORS: Final = (
    "; or, for windows and tables, run the graph on Spark's executors: graph.run(SparkExecutors(spark))"
)

DEFAULTS: Final = SparkSinkSettings()
_SETTINGS: Final = frozenset(field.name for field in fields(SparkSinkSettings))
P = ParamSpec("P")
S = TypeVar("S")


class SparkSinkStage(GraphStage):
    """Hand rows to Spark's foreachBatch, batch by batch.

    Backpressures when: the next batch is gathered and Spark is still busy with the previous one.
    Completes when: upstream has completed and Spark's checkpoint has everything.   Cancels when: the query fails or is stopped.
    Marks: done when Spark's checkpoint has the batch that ends there."""

    shape = SINK

    def __init__(self, name: str, target: SinkTarget) -> None:
        self.name = name
        self.target = target
        self.continues = (
            f"its Spark query was interrupted, and the next run of the graph continues from the checkpoint {target.checkpoint}; "
            "end a query with query.stop()"
        )
        self.traits = StageTraits(
            reads_marks=True,
            needs=Needs(name, exact=True, no_memory=True, replays=True, instead=ON_EXECUTORS),
            owns_positions=f"Spark's checkpoint {target.checkpoint}",
        )

    def create(self, attributes: Attributes) -> tuple[Logic, Any]:
        logic = SparkSinkLogic(self.target)
        return logic, logic.query


def _without_settings(factory: Callable[P, S]) -> Callable[P, S]:
    """Return a factory of a sink that says where a setting belongs. Raises TypeError."""

    @wraps(factory)
    def checked(*given: P.args, **named: P.kwargs) -> S:
        for name in named:
            if name in _SETTINGS:
                raise TypeError(
                    f"{factory.__qualname__}: {name} is one of its settings: settings=SparkSinkSettings({name}={shortened(named[name], 60)})"
                )
        return factory(*given, **named)

    return checked


class SparkSink:
    """Factories. Elements are tuples, dicts, instances of dataclasses, pydantic models or msgspec structs that fit the schema, or Arrow record
    batches and tables, or DataFrames of pandas.

    The sources must be readable again (Kafka topics, ranges, lists, files), and the stages on the way must keep the order and remember
    nothing: after a crash a batch is made again from its range of positions. The checkpoint says what was written. A second run with the
    same checkpoint continues after it, and the committed offsets of a Kafka group follow it.

    Every sink takes these arguments:
    `schema`: DDL ("key string, n long"), a StructType, a dataclass, a pydantic model, a msgspec struct, or a pa.schema.
    `checkpoint`: a folder that no other query uses. A relative path begins at this process's working directory.
    `max_rows`: the most rows of a batch.
    `settings`: the trigger, dead letters, the query's name, and the address that serves the rows: SparkSinkSettings.
    Every sink materializes a SparkStreamQuery. Raises BuildError, and SparkSetupError for a session that cannot work."""

    @staticmethod
    @_without_settings
    def foreach_batch(
        spark: Any,
        fn: Callable[..., object],
        schema: Any,
        checkpoint: str | os.PathLike[str],
        max_rows: int = MAX_ROWS,
        settings: SparkSinkSettings = DEFAULTS,
    ) -> Sink[Any, SparkStreamQuery]:
        """Call `fn(df, epoch_id)` with each batch, in order, in this process: at least once per batch, with the same rows each time.

        If `fn` declares a parameter `query_id`, it gets the query's id, which the checkpoint keeps. What `fn` writes under
        (query_id, epoch_id) is written exactly once. The class SparkSink explains the other arguments."""
        name = "SparkSink.foreach_batch"
        plain_function(name, fn)
        return _sink(name, spark, lambda: batch_function(fn), schema, checkpoint, max_rows, settings)

    @staticmethod
    @_without_settings
    def parquet(
        spark: Any,
        path: str | os.PathLike[str],
        schema: Any,
        checkpoint: str | os.PathLike[str],
        transform: Transform | None = None,
        partition_by: Sequence[str] = (),
        max_rows: int = MAX_ROWS,
        settings: SparkSinkSettings = DEFAULTS,
    ) -> Sink[Any, SparkStreamQuery]:
        """Write each batch as Parquet below `path`, exactly once: one folder per (query, epoch), replaced when the batch is repeated.

        Read it as one table: `spark.read.parquet(path)`, `pandas.read_parquet(path)`. The columns query_id and epoch_id are added, so
        the schema may not have such names.
        `transform(df, epoch_id) -> df`: may join, aggregate or select.
        `partition_by`: names of columns. The class SparkSink explains the other arguments."""
        name = "SparkSink.parquet"
        columns = _columns(name, transform, partition_by)
        check_names(f"{name}: partition_by", columns)
        table = _folder(name, spark, "path", path)

        def write() -> BatchFunction:
            return ParquetWriter(spark, table, transform, columns)

        return _sink(name, spark, write, schema, checkpoint, max_rows, settings, table, check_names, transform is None)

    @staticmethod
    @_without_settings
    def delta(
        spark: Any,
        path: str | os.PathLike[str],
        schema: Any,
        checkpoint: str | os.PathLike[str],
        transform: Transform | None = None,
        partition_by: Sequence[str] = (),
        max_rows: int = MAX_ROWS,
        settings: SparkSinkSettings = DEFAULTS,
    ) -> Sink[Any, SparkStreamQuery]:
        """Append each batch to the Delta table at `path`, exactly once. The first batch creates the table.

        A batch is one commit with the query's id as `txnAppId` and the epoch as `txnVersion`. Delta Lake skips a batch that comes again.
        The session must have Delta Lake, which has releases for PySpark 4.2 and older; a SparkSetupError names the versions and settings.
        `transform(df, epoch_id) -> df`: may join, aggregate or select.
        `partition_by`: names of columns. The class SparkSink explains the other arguments."""
        name = "SparkSink.delta"
        columns = _columns(name, transform, partition_by)
        check_session(spark)
        check_delta(name, spark)
        table = _folder(name, spark, "path", path)

        def write() -> BatchFunction:
            return DeltaWriter(table, transform, columns)

        return _sink(name, spark, write, schema, checkpoint, max_rows, settings, table)


def _sink(
    name: str,
    spark: Any,
    make_write: Callable[[], BatchFunction],
    schema: Any,
    checkpoint: object,
    max_rows: int,
    settings: SparkSinkSettings,
    table: str | None = None,
    check_columns: Callable[[str, Sequence[str]], None] | None = None,
    is_table_of_rows: bool = False,
) -> Sink[Any, SparkStreamQuery]:
    """Check the arguments and return the sink; `make_write` is called when the session has been checked. Raises BuildError, SparkSetupError.

    `check_columns(what, names)` raises BuildError for names that the sink cannot write. `is_table_of_rows`: the table has the rows as they are."""
    check_session(spark)
    at_least(name, "max_rows", max_rows, 1)
    if not isinstance(settings, SparkSinkSettings):
        raise BuildError(f"{name}: settings must be SparkSinkSettings(…), got {shortened(settings, 60)}")
    rows = source_schema(schema)
    if check_columns is not None:
        check_columns(f"{name}: schema", rows.spark.fieldNames())
    register_bridge(spark)
    folder = _folder(name, spark, "checkpoint", checkpoint)
    target = SinkTarget(
        spark, make_write(), rows, folder, max_rows, settings, table, rows.spark if is_table_of_rows else None
    )
    return Sink(StageModule(SparkSinkStage(name, target)))


def _columns(name: str, transform: Transform | None, partition_by: Sequence[str]) -> tuple[str, ...]:
    """Check the arguments of a table; return the columns that it is partitioned by."""
    if transform is not None:
        plain_function(f"{name}: transform", transform)
    columns = (partition_by,) if isinstance(partition_by, str) else tuple(partition_by)
    if not all(isinstance(column, str) for column in columns):
        raise BuildError(f"{name}: partition_by must be names of columns, got {shortened(partition_by, 60)}")
    return columns


def _folder(name: str, spark: Any, what: str, given: object) -> str:
    if not isinstance(given, (str, os.PathLike)) or not os.fspath(given):
        raise BuildError(f"{name}: {what} must be a folder, got {shortened(given, 60)}")
    return absolute(spark, str(os.fspath(given)))
