"""frame_of: a Kafka source with its steps as a streaming DataFrame, for queries of the user's own."""

from __future__ import annotations

from typing import Any, Final

from streamactors.dsl.source import Source
from streamactors.errors import BuildError
from streamactors.kafka.client.ranges import TO_SKIP
from streamactors.kafka.reading.assignment.start_positions import StartPositions
from streamactors.spark.executors.query import ShippedQuery
from streamactors.spark.executors.runner import named, plans_of, registered
from streamactors.spark.executors.translate import translate_source
from streamactors.spark.query.source_identity import SourceIdentity
from streamactors.spark.schema import RowSchema, source_schema
from streamactors.spark.session.session import check_session
from streamactors.spark.shipping.parcel import pack
from streamactors.spark.sink.batch_size import TARGET_BATCH_S
from streamactors.stages.checks import at_least

WHO: Final = "SparkSource.frame"


def frame_of(spark: Any, source: Any, schema: Any, max_rows: int, fail_on_data_loss: bool) -> Any:
    """See SparkSource.frame."""
    check_session(spark, over_connect=None)
    if not isinstance(source, Source):
        raise BuildError(f"{WHO} expects a source (Consumer.records(…).map(…)), got {type(source).__name__}")
    at_least(WHO, "max_rows", max_rows, 1)
    rows = source_schema(schema)
    parcel = frame_parcel(source, rows, WHO, max_rows, fail_on_data_loss)
    return spark.readStream.format(registered(spark, parcel)).schema(rows.spark).load()


def frame_parcel(
    source: Source[Any, Any], rows: RowSchema, who: str, max_rows: int, fail_on_data_loss: bool, to_skip: str = TO_SKIP
) -> bytes:
    """Return the parcel of a query that reads a source with its steps. Asks the broker where it begins.

    `to_skip`: how the user turns `fail_on_data_loss` off."""
    plan, program, links = translate_source(source.module, who)
    positions = StartPositions(plan.settings, plan.subscription, plan.until_end, lambda _: None)
    first = dict(sorted(named(positions.initial(skip_lost=not fail_on_data_loss)).items()))
    plans = plans_of(
        plan,
        positions,
        first,
        max_rows=max_rows,
        target_ms=TARGET_BATCH_S * 1_000,
        skip_lost=not fail_on_data_loss,
        to_skip=to_skip,
        source=SourceIdentity(positions.label, positions.identity()),
    )
    return pack(ShippedQuery(plans, program, rows.arrow), who, links)
