"""The joins that Spark did, once more with this package: the weather of each hour, and the airline of each flight.

The hours come from their topic and join a table of the weather by origin and hour. The flights are the rows that Spark wrote, without the
airline's name, and join a global table by the carrier. Each result is compared with Spark's row."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from streamactors import Sink, Source, Topics
from streamactors.demo.data import data_file, weather_frame
from streamactors.demo.hours import Hour
from streamactors.demo.hours_to_spark import WEATHER
from streamactors.windows import Record

if TYPE_CHECKING:
    import pandas as pd

Row = tuple[Any, ...]
PATIENCE_SECONDS: Final = 120.0
UNKNOWN: Final = (None,) * len(WEATHER)
"""The weather of an hour of which nothing is known."""


def hours_with_weather(hours: Iterable[Hour], weather: pd.DataFrame) -> list[Row]:
    """Return each hour beside its weather: a left join of a stream and a table, both by origin and hour."""
    measured = [
        Record((origin, hour_ms), tuple(values), hour_ms)
        for origin, hour_ms, *values in weather[["origin", "hour_ms", *WEATHER]].itertuples(index=False)
    ]
    topics = Topics.in_memory(
        {
            "weather": Source.from_iterable(sorted(measured, key=lambda record: record.timestamp)),
            "hours": Source.from_iterable([Record(hour.origin, hour, hour.hour_ms) for hour in hours]),
        }
    )
    table = topics.table("weather")
    joined = (
        topics.stream("hours")
        .select_key(lambda record: (record.key, record.value.hour_ms))
        .join_table(table, lambda hour, values: (*hour, *(values or UNKNOWN)), how="left")
    )
    return _values(topics, joined)


def flights_with_airlines(flights: Iterable[Row], airlines: Iterable[tuple[str, str]]) -> list[Row]:
    """Return each flight, a row that begins with its carrier, beside the airline's name: a left join with a global table."""
    topics = Topics.in_memory(
        {
            "airlines": Source.from_iterable([Record(carrier, name, 0) for carrier, name in airlines]),
            "flights": Source.from_iterable([Record(None, flight, at) for at, flight in enumerate(flights)]),
        }
    )
    names = topics.global_table("airlines")
    joined = topics.stream("flights").join_global(
        names, lambda flight, name: (*flight, name), key=lambda record: record.value[0], how="left"
    )
    return _values(topics, joined)


def _values(topics: Any, joined: Any) -> list[Row]:
    values = topics.source(joined).map(lambda record: record.value)
    found: list[Row] = values.run_with(Sink.to_list()).result(timeout=PATIENCE_SECONDS)
    return found


def first_difference(
    hours: Iterable[Hour], hours_there: pd.DataFrame, flights_there: pd.DataFrame
) -> dict[str, tuple[int, str | None]]:
    """Join the hours, and the flights of Spark's table; compare with what Spark wrote.

    Return for each join its number of rows, and a row that only one of the two has; None if there is none."""
    import pandas as pd

    names = pd.read_csv(data_file("airlines.csv"))
    known = [name for name in flights_there.columns if name not in ("carrier", "airline")]
    flights = flights_there[["carrier", *known, "airline"]]
    rows = list(flights.itertuples(index=False, name=None))
    joined = flights_with_airlines((row[:-1] for row in rows), zip(names["carrier"], names["name"], strict=True))
    expected = hours_there[[*Hour._fields, *WEATHER]].itertuples(index=False, name=None)
    return {
        "hours with their weather": compare(hours_with_weather(hours, weather_frame()), expected),
        "flights with their airlines": compare(joined, rows),
    }


def compare(here: Iterable[Row], there: Iterable[Row]) -> tuple[int, str | None]:
    """Compare rows in any order. Return the number of rows here, and a row that is missing on one side."""
    ours, theirs = Counter(map(_plain, here)), Counter(map(_plain, there))
    size = ours.total()
    for rows, other, where in ((ours, theirs, "only here"), (theirs, ours, "only at Spark")):
        for row in rows:
            if rows[row] > other[row]:
                return size, f"{row} is {where}"
    return size, None


def _plain(row: Row) -> Row:
    """Return the row with gaps as None: in a frame they are NaN."""
    return tuple(None if isinstance(each, float) and math.isnan(each) else each for each in row)
