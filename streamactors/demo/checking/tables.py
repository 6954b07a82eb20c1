"""The tables that a run ends in, read from what it wrote: Parquet files and topics. `tables/*.csv` are the same row for row after
every run, however often it was killed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from streamactors import Sink
from streamactors.demo import flights_to_spark, hours, hours_on_executors, hours_to_spark, joins, topics
from streamactors.demo.alerts import Alert
from streamactors.demo.checking.truth import WEATHER, by_airline
from streamactors.demo.flight import Flight
from streamactors.kafka import Consumer, ConsumerRecord, Subscriptions

if TYPE_CHECKING:
    import pandas as pd

    from streamactors.demo.folder import Folder

T = TypeVar("T")


@dataclass(frozen=True)
class Tables:
    """The tables of a run. `dead`: dead letters per graph, each source position once. `both_ways`: for each topic that graph 2 writes here
    and on executors, the number of rows, and the first difference. `joined`: the same for each join that Spark and this package did."""

    flights: int
    by_airline: pd.DataFrame
    hours: pd.DataFrame
    alerts: pd.DataFrame
    late: int
    dead: dict[str, int]
    both_ways: dict[str, tuple[int, str | None]]
    joined: dict[str, tuple[int, str | None]]
    late_flight: Flight | None = None
    """One of the late ones."""


def read_tables(folder: Folder, bootstrap: str) -> Tables:
    """Read everything back and write `tables/*.csv`."""
    import pandas as pd

    by_spark = pd.read_parquet(folder.parquet / flights_to_spark.NAME)
    flights = by_spark.assign(cancelled=by_spark["dep_delay"].isna(), month=by_spark["month"].astype("int64"))
    by_hour = pd.read_parquet(folder.parquet / hours_to_spark.NAME)
    by_hour = by_hour[["origin", "hour_ms", "flights", "cancelled", "mean_delay", *WEATHER]]
    last = dict(read(bootstrap, topics.ALERTS, lambda record: (record.key, Alert.from_json(record.value or b""))))
    alerts = pd.DataFrame(last.values(), columns=Alert._fields).fillna("")
    letters = set(read(bootstrap, topics.FLIGHTS_DEAD, origin_of))
    late = read(bootstrap, topics.LATE, lambda record: Flight.from_json(record.value))
    tables = Tables(
        flights=len(flights),
        by_airline=by_airline(flights),
        hours=by_hour.sort_values(["origin", "hour_ms"], ignore_index=True),
        alerts=alerts.sort_values(["origin", "hour_ms"], ignore_index=True),
        late=len(late),
        dead={
            stage: sum(letter[0] == stage for letter in letters) for stage in sorted({letter[0] for letter in letters})
        },
        both_ways=hours_on_executors.first_difference(partial(read, bootstrap)),
        joined=joins.first_difference(
            read(bootstrap, topics.HOURS, lambda record: hours.Hour.from_json(record.value or b"")), by_hour, by_spark
        ),
        late_flight=late[0] if late else None,
    )
    for name in ("by_airline", "hours", "alerts"):
        getattr(tables, name).to_csv(folder.tables / f"{name}.csv", index=False)
    counts = {
        "flights": tables.flights,
        "late": tables.late,
        **{f"dead in {graph}": n for graph, n in tables.dead.items()},
    }
    pd.Series(counts, name="count").to_csv(folder.tables / "counts.csv", index_label="what")
    return tables


def origin_of(letter: ConsumerRecord) -> tuple[str, str, str, str]:
    """Return the graph a dead letter comes from, and the position of its record: one letter, however often it was written."""
    told = {name.removeprefix("dead-letter."): (value or b"").decode() for name, value in letter.headers}
    graph = hours.NAME if told["stage"] == "Consumer.records" else told["stage"]
    return graph, told["topic"], told["partition"], told["offset"]


def read(bootstrap: str, topic: str, parse: Callable[[ConsumerRecord], T]) -> list[T]:
    """Return every committed record of a topic, parsed."""
    everything: Any = Subscriptions.assignment_with_offset({(topic, n): 0 for n in range(topics.PARTITIONS[topic])})
    source = Consumer.plain_source(topics.consumer(bootstrap, "tables"), everything, until="end")
    return source.map(parse).run_with(Sink.to_list()).result(timeout=120)
