"""SparkSink: sinks whose elements become rows of Spark's micro-batches, and their stage; what runs is in sink_logic.py."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NoReturn

from streamactors.clock import Timeout, timeout_s
from streamactors.dsl.sink import Sink
from streamactors.engine.blueprint.attributes import Attributes
from streamactors.engine.blueprint.modules import StageModule
from streamactors.engine.logic import Logic
from streamactors.engine.marks.marks import Needs
from streamactors.engine.stage import SINK, GraphStage
from streamactors.engine.user_code import shortened
from streamactors.errors import BuildError
from streamactors.spark.files import absolute
from streamactors.spark.query.query import SparkStreamQuery
from streamactors.spark.query.query_name import checked_name
from streamactors.spark.query.runner import BatchFunction, batch_function
from streamactors.spark.rows import BadRow
from streamactors.spark.schema import source_schema
from streamactors.spark.session.formats import register_bridge
from streamactors.spark.session.session import check_session
from streamactors.spark.sink.batch_size import MAX_ROWS, TARGET_BATCH_S
from streamactors.spark.sink.delta import DeltaWriter, check_delta
from streamactors.spark.sink.parquet import ParquetWriter, Transform, check_names
from streamactors.spark.sink.sink_logic import SinkSettings, SparkSinkLogic
from streamactors.spark.sink.tables import ICEBERG, ICEBERG_WAY, refuse
from streamactors.stages.checks import at_least, plain_function

ON_EXECUTORS: Final = (
    "; or, for windows and tables, run the graph on Spark's executors: graph.run(SparkExecutors(spark))"
)

Trigger = Timeout | None
"""When Spark begins a batch. None: when the batch before is done. "available_now": until the input ends. Otherwise the time between batches:
a number of seconds, a timedelta, or a string such as "5 seconds"."""

SHORTEST_MS, LONGEST_MS = 1, 366 * 86_400_000


@dataclass(frozen=True)
class Given:
    """The settings that all sinks of Spark have, as a user gives them. SparkSink.foreach_batch explains them."""

    spark: Any
    schema: Any
    checkpoint: str | os.PathLike[str]
    max_rows: int
    trigger: Trigger
    target_batch_s: float
    dead_letters: BadRow | None
    fail_on_data_loss: bool
    query_name: str | None
    bind: str
    advertise: str | None
    encrypt: bool

    def sink(
        self,
        name: str,
        make_write: Callable[[], BatchFunction],
        table: str | None = None,
        check_columns: Callable[[str, Sequence[str]], None] | None = None,
    ) -> Sink[Any, SparkStreamQuery]:
        """Check the settings and return the sink; `make_write` is called when the session has been checked. Raises BuildError, SparkSetupError.

        `check_columns(what, names)` raises BuildError for names that the sink cannot write."""
        check_session(self.spark)
        at_least(name, "max_rows", self.max_rows, 1)
        if not isinstance(self.target_batch_s, (int, float)) or self.target_batch_s <= 0:
            raise BuildError(
                f"{name}: target_batch_s must be a positive number of seconds, got {self.target_batch_s!r}"
            )
        if self.dead_letters is not None:
            plain_function(f"{name}: dead_letters", self.dead_letters)
        rows = source_schema(self.schema)
        if check_columns is not None:
            check_columns(f"{name}: schema", rows.spark.fieldNames())
        register_bridge(self.spark)
        settings = SinkSettings(
            spark=self.spark,
            write=make_write(),
            schema=rows,
            checkpoint=_folder(name, self.spark, "checkpoint", self.checkpoint),
            max_rows=self.max_rows,
            target_ms=self.target_batch_s * 1_000,
            trigger=trigger_of(name, self.trigger),
            query_name=checked_name(name, self.query_name),
            bad_rows=self.dead_letters,
            host=self.bind,
            advertised_host=self.advertise,
            strict=bool(self.fail_on_data_loss),
            encrypt=bool(self.encrypt),
            table=table,
        )
        return Sink(StageModule(SparkSinkStage(name, settings)))


class SparkSinkStage(GraphStage):
    """Hand rows to Spark's foreachBatch, batch by batch.

    Backpressures when: the next batch is gathered and Spark is still busy with the one before.
    Completes when: upstream has completed and Spark's checkpoint has everything.   Cancels when: the query fails or is stopped.
    Marks: done when Spark's checkpoint has the batch that ends there."""

    shape = SINK
    reads_marks = True

    def __init__(self, name: str, settings: SinkSettings) -> None:
        self.name = name
        self.settings = settings
        self.needs = Needs(name, exact=True, no_memory=True, replays=True, instead=ON_EXECUTORS)
        self.owns_positions = f"Spark's checkpoint {settings.checkpoint}"

    def create(self, attributes: Attributes) -> tuple[Logic, Any]:
        logic = SparkSinkLogic(self.settings)
        return logic, logic.query


class SparkSink:
    """Factories. Elements are tuples, dicts or dataclass instances that fit the schema, or Arrow record batches and tables.

    The sources must be ones that can be read again (Kafka topics; ranges, lists, files), and the stages on the way must keep the order
    and remember nothing: after a crash a batch is made again from its range of positions. The checkpoint says what was written: a second
    run with the same checkpoint continues behind it, and the committed offsets of a Kafka group follow it."""

    @staticmethod
    def foreach_batch(
        spark: Any,
        fn: Callable[..., object],
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
        encrypt: bool = False,
    ) -> Sink[Any, SparkStreamQuery]:
        """Call `fn(df, epoch_id)` with each batch, in order, in this process: at least once per batch, with the same rows each time.

        If `fn` declares a parameter `query_id`, it gets the query's id, which the checkpoint keeps: what `fn` writes under (query_id, epoch_id)
        is written exactly once.
        `schema`: DDL ("key string, n long") or a StructType.
        `checkpoint`: a folder that no other query uses; a relative path begins at this process's working directory.
        `max_rows`: the most rows of a batch. Batches get fewer rows if a batch would take longer than about `target_batch_s` seconds.
        `trigger`: None (when the batch before is done), "available_now" (end with the input), or the time between batches (seconds, a timedelta, "5 seconds").
        `dead_letters(row, error)`: gets each row that does not fit the schema; without it the first such row fails the stream.
        `fail_on_data_loss`: False skips records that retention has deleted before Spark wrote them; True fails the query.
        `query_name`: the query's name in Spark's progress and pages. A session has one active query of a name.
        `bind`, `advertise`: the address where the rows are served, and the address by which executors reach it; loopback by default.
        `encrypt`: serve the rows over TLS, with a certificate made for this run (extra `tls`).
        Materializes: a SparkStreamQuery.
        """
        plain_function("SparkSink.foreach_batch", fn)
        given = Given(
            spark,
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
            encrypt,
        )
        return given.sink("SparkSink.foreach_batch", lambda: batch_function(fn))

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
        encrypt: bool = False,
    ) -> Sink[Any, SparkStreamQuery]:
        """Write each batch as Parquet below `path`, exactly once: one folder per (query, epoch), replaced when the batch is repeated.

        Read it as one table: `spark.read.parquet(path)`, `pandas.read_parquet(path)`; the columns query_id and epoch_id are added,
        so the schema may not have such names.
        `transform(df, epoch_id) -> df`: may join, aggregate or select.
        `partition_by`: names of columns. All other settings as in `foreach_batch`.
        Materializes: a SparkStreamQuery.
        """
        name = "SparkSink.parquet"
        columns = _columns(name, transform, partition_by)
        check_names(f"{name}: partition_by", columns)
        table = _folder(name, spark, "path", path)
        given = Given(
            spark,
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
            encrypt,
        )
        return given.sink(name, lambda: ParquetWriter(spark, table, transform, columns), table, check_names)

    @staticmethod
    def delta(
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
        encrypt: bool = False,
    ) -> Sink[Any, SparkStreamQuery]:
        """Append each batch to the Delta table at `path`, exactly once: a batch is one commit with the query's id as `txnAppId` and the epoch
        as `txnVersion`, and Delta Lake skips a batch that comes again. The table is created with the first batch.

        The session must have Delta Lake, which has releases for PySpark 4.2 and older; a SparkSetupError names the versions and settings.
        `transform(df, epoch_id) -> df`: may join, aggregate or select.
        `partition_by`: names of columns. All other settings as in `foreach_batch`.
        Materializes: a SparkStreamQuery.
        """
        name = "SparkSink.delta"
        columns = _columns(name, transform, partition_by)
        check_session(spark)
        check_delta(name, spark)
        table = _folder(name, spark, "path", path)
        given = Given(
            spark,
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
            encrypt,
        )
        return given.sink(name, lambda: DeltaWriter(table, transform, columns), table)

    @staticmethod
    def iceberg(*args: Any, **settings: Any) -> NoReturn:
        """Raise SparkSetupError: this sink has not been tested. The error names the versions of Iceberg and PySpark, and other sinks."""
        refuse("SparkSink.iceberg", ICEBERG, ICEBERG_WAY)


def _columns(name: str, transform: Transform | None, partition_by: Sequence[str]) -> tuple[str, ...]:
    """Check the settings of a table; return the columns that it is partitioned by."""
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


def trigger_of(name: str, given: Any) -> dict[str, Any]:
    """Return what PySpark's `trigger` takes. Raises BuildError naming what was given."""
    if given is None:
        return {}
    if given == "available_now":
        return {"availableNow": True}
    try:
        ms = timeout_s(given) * 1_000
    except (TypeError, ValueError):
        ms = 0
    if SHORTEST_MS <= ms <= LONGEST_MS:
        return {"processingTime": f"{round(ms)} milliseconds"}
    raise BuildError(
        f'{name}: trigger must be None, "available_now", or the time between batches, from 1 ms to a year: seconds, a timedelta or "5 seconds", '
        f"got {given!r}"
    )
