"""The joins of the demo with tables of a few rows."""

from __future__ import annotations

import pandas as pd
import pytest

from streamactors.demo import joins
from streamactors.demo.hours import Hour
from streamactors.demo.hours_to_spark import WEATHER
from streamactors.demo.joins import compare, first_difference, flights_with_airlines, hours_with_weather

HOUR_MS = 3_600_000


def test_each_hour_meets_the_weather_of_its_origin_and_its_hour_in_any_order_of_the_hours():
    weather = pd.DataFrame(
        [("JFK", 0, *[1.0] * 5), ("EWR", 0, *[2.0] * 5), ("JFK", HOUR_MS, *[3.0] * 5)],
        columns=["origin", "hour_ms", *WEATHER],
    )
    hours = [Hour("JFK", HOUR_MS, 4, 0, 1.5), Hour("JFK", 0, 5, 1, 2.5), Hour("LGA", 0, 6, 0, None)]
    assert sorted(hours_with_weather(hours, weather)) == [
        ("JFK", 0, 5, 1, 2.5, *[1.0] * 5),
        ("JFK", HOUR_MS, 4, 0, 1.5, *[3.0] * 5),
        ("LGA", 0, 6, 0, None, *[None] * 5),
    ]


def test_each_flight_gets_the_name_of_its_airline_and_stays_without_one():
    flights = [("UA", 1), ("??", 2), ("UA", 1)]
    assert flights_with_airlines(flights, [("UA", "United"), ("AA", "American")]) == [
        ("UA", 1, "United"),
        ("??", 2, None),
        ("UA", 1, "United"),
    ]


@pytest.mark.parametrize(
    ("there", "found"),
    [
        ([(1, 2.0), (1, float("nan")), (1, 2.0)], (3, None)),
        ([(1, 2.0), (1, float("nan"))], (3, "(1, 2.0) is only here")),
        ([(1, 2.0), (1, 2.0), (1, None), (1, 3.0)], (3, "(1, 3.0) is only at Spark")),
    ],
)
def test_rows_are_compared_in_any_order_and_as_often_as_they_are_there(there, found):
    assert compare([(1, 2.0), (1, 2.0), (1, None)], there) == found


def test_a_wrong_value_at_spark_is_found_in_both_joins(monkeypatch):
    hour = Hour("JFK", HOUR_MS, 3, 0, 1.0)
    by_hour = pd.DataFrame([(*hour, *[4.0] * 5)], columns=[*Hour._fields, *WEATHER])
    monkeypatch.setattr(joins, "weather_frame", lambda: by_hour)
    flights = pd.DataFrame({"carrier": ["UA"], "flight": [7], "airline": ["United Air Lines Inc."]})
    right = {"hours with their weather": (1, None), "flights with their airlines": (1, None)}
    assert first_difference([hour], by_hour, flights) == right
    wrong = first_difference([hour], by_hour.assign(temp=-99.0), flights.assign(airline="Nobody"))
    assert all(differs is not None for _, differs in wrong.values())
