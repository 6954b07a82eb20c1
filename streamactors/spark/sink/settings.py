"""The settings of SparkSink: what a user may choose for any sink, and what a sink's query writes where."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from streamactors.durations import Duration, duration_s
from streamactors.errors import BuildError
from streamactors.spark.files import Files
from streamactors.spark.query.query_name import checked_name
from streamactors.spark.query.table_schema import QueryTable
from streamactors.spark.rows import BadRow
from streamactors.spark.schema import RowSchema
from streamactors.spark.sink.batch_size import TARGET_BATCH_S
from streamactors.stages.checks import plain_function

Trigger = Duration | None
"""When Spark begins a batch. None: when the previous batch is written. "available_now": until the input ends. Otherwise the time between
batches: a number of seconds, a timedelta, or a string such as "5 seconds"."""

SHORTEST_MS, LONGEST_MS = 1, 366 * 86_400_000


def trigger_of(who: str, given: Any) -> dict[str, Any]:
    """Return what PySpark's `trigger` takes. Raises BuildError naming what was given."""
    if given is None:
        return {}
    if given == "available_now":
        return {"availableNow": True}
    try:
        ms = duration_s(given, "trigger") * 1_000
    except (TypeError, ValueError):
        ms = 0
    if SHORTEST_MS <= ms <= LONGEST_MS:
        return {"processingTime": f"{round(ms)} milliseconds"}
    raise BuildError(
        f'{who}: trigger must be None, "available_now", or the time between batches, from 1 ms to a year: seconds, a timedelta or "5 seconds", '
        f"got {given!r}"
    )


@dataclass(frozen=True, kw_only=True)
class SparkSinkSettings:
    """How a sink of Spark forms batches and serves their rows. One object may serve several sinks."""

    trigger: Trigger = None
    """When Spark begins a batch. None: when the previous batch is written. "available_now": the query ends with its input. Otherwise the time
    between batches: seconds, a timedelta or "5 seconds"."""

    target_batch_s: float = TARGET_BATCH_S
    """A batch that would take longer than about this many seconds gets fewer rows."""

    dead_letters: BadRow | None = None
    """`dead_letters(row, error)` gets each row that does not fit the schema. None: the first such row fails the stream."""

    fail_on_data_loss: bool = True
    """False skips records that retention deleted before Spark wrote them. True fails the query."""

    query_name: str | None = None
    """The query's name in Spark's progress, listeners and pages. A session has one active query of a name. None: the sink and what it reads, as in
    "SparkSink.parquet topic flights", with a number if that name is taken."""

    bind: str = "127.0.0.1"
    """The address where this process serves the rows."""

    advertise: str | None = None
    """The address by which executors reach this process. None: the address of `bind`."""

    encrypt: bool = False
    """Serve the rows over TLS, with a certificate made for each run (extra `tls`)."""

    def __post_init__(self) -> None:
        who = "SparkSinkSettings"
        trigger_of(who, self.trigger)
        if not isinstance(self.target_batch_s, (int, float)) or not self.target_batch_s > 0:
            raise BuildError(f"{who}: target_batch_s must be a positive number of seconds, got {self.target_batch_s!r}")
        if self.dead_letters is not None:
            plain_function(f"{who}: dead_letters", self.dead_letters)
        checked_name(who, self.query_name)

    def with_trigger(self, trigger: Trigger) -> SparkSinkSettings:
        """Return these settings with another trigger."""
        return replace(self, trigger=trigger)

    def with_query_name(self, query_name: str | None) -> SparkSinkSettings:
        """Return these settings for a query of another name."""
        return replace(self, query_name=query_name)


@dataclass(frozen=True)
class SinkTarget:
    """What a sink's query writes, and where. `write(frame, epoch, query id)` writes one batch."""

    spark: Any
    write: Callable[[Any, int, str], object]
    schema: RowSchema
    checkpoint: str
    max_rows: int
    settings: SparkSinkSettings = SparkSinkSettings()
    table: str | None = None
    """The folder that `write` writes to, for a sink that owns one."""
    table_schema: Any = None
    """The StructType of the files in `table`, where they are the rows themselves and only their reader would compare them."""

    @property
    def trigger(self) -> dict[str, Any]:
        """What PySpark's `trigger` takes."""
        return trigger_of("SparkSinkSettings", self.settings.trigger)

    @property
    def query_table(self) -> QueryTable | None:
        """The table whose schema the checkpoint compares."""
        if self.table is None or self.table_schema is None:
            return None
        return QueryTable(self.table, self.table_schema, Files(self.spark, self.table).exists())

    @property
    def target_ms(self) -> float:
        """The time that a batch should take."""
        return self.settings.target_batch_s * 1_000
