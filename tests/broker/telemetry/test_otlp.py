"""The reader of pushes beside the official protocol buffers, and what it does with bad input."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamactors.broker.errors import CorruptMessage
from streamactors.broker.telemetry.otlp import MAX_ATTRIBUTES, MAX_POINTS, Point, read_metrics
from streamactors.broker.telemetry.pushed_metrics import MAX_SERIES_OF_CLIENT, PushedMetrics

metrics_pb2 = pytest.importorskip("opentelemetry.proto.metrics.v1.metrics_pb2")

KAFKA = "org.apache.kafka."
CLIENT = uuid.UUID(int=3)


def encoded(*points: Point) -> bytes:
    data = metrics_pb2.MetricsData()
    scope = data.resource_metrics.add().scope_metrics.add()
    for each in points:
        metric = scope.metrics.add(name=each.name, description="what it is", unit="1")
        if each.monotonic or each.delta:
            metric.sum.is_monotonic = each.monotonic
            metric.sum.aggregation_temporality = 1 if each.delta else 2
        where: Any = metric.sum.data_points if each.monotonic or each.delta else metric.gauge.data_points
        point = where.add(time_unix_nano=123, start_time_unix_nano=1)
        if each.value.is_integer():
            point.as_int = int(each.value)
        else:
            point.as_double = each.value
        for key, value in each.attributes:
            point.attributes.add(key=key).value.string_value = value
    return bytes(data.SerializeToString())


names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=40)
points = st.builds(
    Point,
    names,
    st.dictionaries(names, names, max_size=4).map(lambda found: tuple(sorted(found.items()))),
    st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**53), 2**53).map(float),
    st.booleans(),
    st.booleans(),
)


@given(st.lists(points, max_size=10))
def test_what_was_written_is_read(wanted: list[Point]) -> None:
    wanted = [
        each if abs(each.value) < 2**62 or not each.value.is_integer() else each._replace(value=0.5) for each in wanted
    ]
    read = read_metrics(encoded(*wanted))
    assert read.points == wanted
    assert read.dropped == 0


@given(st.binary(max_size=200))
def test_bytes_of_any_kind_are_read_or_refused(data: bytes) -> None:
    try:
        read_metrics(data)
    except CorruptMessage:
        pass


@given(st.lists(points, min_size=1, max_size=4), st.data())
def test_a_damaged_push_is_read_or_refused(wanted: list[Point], data: st.DataObject) -> None:
    content = bytearray(encoded(*(each._replace(value=0.5) for each in wanted)))
    content[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))
    try:
        read_metrics(bytes(content))
    except CorruptMessage:
        pass


def test_attributes_of_other_kinds_become_strings_and_lists_are_left_out() -> None:
    data = metrics_pb2.MetricsData()
    metric = data.resource_metrics.add().scope_metrics.add().metrics.add(name="m")
    point = metric.gauge.data_points.add(as_double=1.5)
    point.attributes.add(key="i").value.int_value = -4
    point.attributes.add(key="b").value.bool_value = True
    listed = metric.gauge.data_points.add(as_double=2.5)
    listed.attributes.add(key="l").value.array_value.values.add().string_value = "x"
    metric.gauge.data_points.add()  # no value
    read = read_metrics(data.SerializeToString())
    assert read.points == [Point("m", (("b", "true"), ("i", "-4")), 1.5, False, False)]
    assert read.dropped == 2


def test_histograms_long_names_and_what_is_beyond_the_bounds_are_counted() -> None:
    data = metrics_pb2.MetricsData()
    scope = data.resource_metrics.add().scope_metrics.add()
    scope.metrics.add(name="h").histogram.data_points.add(count=1)
    scope.metrics.add(name="n" * 201).gauge.data_points.add(as_double=1)
    many = scope.metrics.add(name="many").gauge
    for _ in range(MAX_POINTS + 3):
        many.data_points.add(as_double=1)
    read = read_metrics(data.SerializeToString())
    assert (len(read.points), read.dropped) == (MAX_POINTS, 5)
    wide = Point("w", tuple((f"a{i:03}", "v") for i in range(MAX_ATTRIBUTES + 1)), 0.5, False, False)
    assert read_metrics(encoded(wide)).dropped == 1


def family(pushed: PushedMetrics) -> dict[str, list[tuple[dict[str, str], float]]]:
    return {each.name: list(each.samples) for each in pushed.families()}


def test_totals_are_kept_and_differences_are_added() -> None:
    pushed = PushedMetrics()
    for value in (2.0, 3.0):
        total = Point(KAFKA + "producer.sent.total", (), value, True, False)
        growth = Point(KAFKA + "producer.errors", (("node.id", "1"),), value, True, True)
        pushed.add(CLIENT, "c", [total, growth], 10)
    own = {"client_id": "c", "client_instance_id": "AAAAAAAAAAAAAAAAAAAAAw"}
    assert family(pushed) == {
        "streamactors_client_producer_sent": [(own, 3.0)],
        "streamactors_client_producer_errors": [({**own, "node_id": "1"}, 5.0)],
    }


def test_a_silent_client_is_forgotten() -> None:
    pushed = PushedMetrics()
    pushed.add(CLIENT, "c", [Point("m", (), 1.0, False, False)], 10)
    pushed.add(uuid.UUID(int=4), "d", [Point("m", (), 2.0, False, False)], 20)
    pushed.expire(9)
    assert pushed.clients == 2
    pushed.expire(10)
    assert [labels["client_id"] for labels, _ in family(pushed)["streamactors_client_m"]] == ["d"]


def test_one_client_cannot_fill_the_page() -> None:
    pushed = PushedMetrics()
    pushed.add(
        CLIENT, "c", [Point("m", (("i", str(i)),), 1.0, False, False) for i in range(MAX_SERIES_OF_CLIENT + 7)], 10
    )
    assert len(family(pushed)["streamactors_client_m"]) == MAX_SERIES_OF_CLIENT
    assert pushed.dropped == 7


def test_two_metrics_that_would_have_one_name_do_not_mix() -> None:
    pushed = PushedMetrics()
    pushed.add(CLIENT, "c", [Point("a.b", (), 1.0, False, False), Point("a-b", (), 2.0, True, False)], 10)
    assert [value for _, value in family(pushed)["streamactors_client_a_b"]] == [1.0]
    assert pushed.dropped == 1


def test_the_names_of_metrics_that_are_not_kept_are_not_kept_either() -> None:
    # A client that makes up names filled the memory of the broker with them, push by push, while any client was alive.
    pushed = PushedMetrics()
    pushed.add(CLIENT, "c", [Point("m", (("i", str(i)),), 1.0, False, False) for i in range(MAX_SERIES_OF_CLIENT)], 10)
    pushed.add(CLIENT, "c", [Point("too.late", (), 1.0, False, False)], 10)
    other = uuid.UUID(int=4)
    pushed.add(other, "d", [Point("short.lived", (), 1.0, False, False)], 5)
    pushed.expire(5)
    for kind in ("too.late", "short.lived"):  # of these names nothing is known, so they may be of another kind now
        pushed.add(other, "d", [Point(kind, (), 2.0, True, False)], 10)
        assert [value for _, value in family(pushed)[f"streamactors_client_{kind.replace('.', '_')}"]] == [2.0]
    assert pushed.dropped == 1
