"""Keys that are read and written again have the bytes that their producer gave them, or the run does not begin."""

from __future__ import annotations

import json
import logging
import struct
from typing import Any

import pytest
from confluent_kafka import Producer as BareProducer

from streamactors import ActorSystem
from streamactors.kafka import Consumer
from streamactors.kafka.errors import RecordError
from streamactors.kafka.serdes.serdes import INT32, INT64, JSON, SERDES
from streamactors.kafka.state.topic_keys import TopicKeys
from streamactors.kafka.state.topology_rows import TopologyRows
from streamactors.windows import Record
from streamactors.windows.topology.edges import Output
from streamactors.windows.topology.topics import TopologyTopics

FOUR, EIGHT = struct.Struct(">i").pack, struct.Struct(">q").pack
ROWS = 20


@pytest.fixture
def write(cluster):
    producer = BareProducer({"bootstrap.servers": cluster.bootstrap_servers, "partitioner": "murmur2_random"})

    def write(topic, rows, first_ms=1_000):
        for at, (key, value) in enumerate(rows):
            producer.produce(topic, key=key, value=value, timestamp=first_ms + at)
        producer.flush()

    return write


def joining(settings, key, key_of):
    """Orders, whose value is a number, meet the person whose key `key_of` makes of it."""
    topics, at = Consumer.topics(settings), settings.group_id
    people = topics.table(f"{at}-people", key=key)
    orders = topics.stream(f"{at}-orders").select_key(lambda row: key_of(int(row.value)))
    orders.join_table(people, lambda order, person: order).to(f"{at}-out", key=key)
    return topics.graph()


def number(n: int) -> int:
    return n


KEYS: dict[str, tuple[str, Any, Any]] = {
    "four-bytes": ("integer", number, FOUR),
    "eight-bytes": ("integer", number, EIGHT),
    "int32": ("int32", number, FOUR),
    "int64": ("int64", number, EIGHT),
    "compact-json": ("json", lambda n: {"id": n}, lambda n: b'{"id":%d}' % n),
    "json-in-utf-8": ("json", lambda n: f"é{n}", lambda n: f'"é{n}"'.encode()),
    "sorted-json": ("canonical-json", lambda n: {"b": 1.0, "a": n}, lambda n: b'{"a":%d,"b":1}' % n),
}


@pytest.mark.parametrize("name", KEYS)
def test_every_row_meets_the_row_that_a_foreign_producer_wrote(cluster, settings, write, read_all, wait_for, name):
    # 4 of 20 met with keys of four bytes, which were written with eight, 6 with compact JSON, 3 with JSON that has an é
    key, key_of, raw = KEYS[name]
    for topic in ("people", "orders", "out"):
        cluster.create_topic(f"{name}-{topic}", partitions=4)
    settings = settings.with_group_id(name)
    write(f"{name}-people", [(raw(n), b"p") for n in range(ROWS)])
    write(f"{name}-orders", [(b"o", b"0")], 2_000)
    with ActorSystem("first") as system:
        control = joining(settings, key, key_of).run(system)
        wait_for(lambda: len(read_all(f"{name}-out", 4)) == 1)
        control.shutdown().result(30)
    write(f"{name}-orders", [(b"o", b"%d" % n) for n in range(1, ROWS)], 3_000)
    with ActorSystem("second") as system:  # reads no person again: their keys come from the changelog
        control = joining(settings, key, key_of).run(system)
        wait_for(lambda: len(read_all(f"{name}-out", 4)) >= ROWS)
        control.shutdown().result(30)
    found = read_all(f"{name}-out", 4)
    assert sorted(each.value() for each in found) == sorted(b"%d" % n for n in range(ROWS))
    assert {each.key() for each in found} == {raw(n) for n in range(ROWS)}


def test_a_topic_whose_keys_would_be_written_otherwise_is_refused_before_the_run(
    cluster, settings, system, write, read_all
):
    for topic in ("people", "orders", "out"):
        cluster.create_topic(f"spaced-{topic}", partitions=4)
    write("spaced-people", [(json.dumps({"id": n}).encode(), b"p") for n in range(ROWS)])
    write("spaced-orders", [(b"o", b"%d" % n) for n in range(ROWS)])
    with pytest.raises(RecordError, match=r"topic spaced-people: the key .*b'{\"id\": .*b'{\"id\":.*give key= a serde"):
        joining(settings.with_group_id("spaced"), "json", lambda n: {"id": n}).run(system)
    assert read_all("spaced-out", 4) == []


@pytest.mark.expects_log("the topology of group")
def test_a_key_that_would_be_written_otherwise_fails_the_run_when_it_comes(cluster, settings, system, write, wait_for):
    for topic in ("people", "orders", "out"):
        cluster.create_topic(f"later-{topic}", partitions=4)
    control = joining(settings.with_group_id("later"), "json", lambda n: {"id": n}).run(system)
    write("later-people", [(b'{"id": 1}', b"p")])
    with pytest.raises(Exception, match=r"topic later-people: the key"):
        control.completion.result(30)


# ── without a broker ──────────────────────────────────────────────────────────────────────────────────────────────────


def rows_of(build: Any) -> TopologyRows:
    topics = TopologyTopics("strict")
    build(topics)
    return TopologyRows(topics.topology)


class Message:
    """As librdkafka's."""

    def __init__(self, topic: str, key: bytes) -> None:
        self._topic, self._key = topic, key

    def topic(self) -> str:
        return self._topic

    def key(self) -> bytes:
        return self._key

    def partition(self) -> int:
        return 0

    offset = partition

    def headers(self) -> None:
        return None

    def timestamp(self) -> tuple[int, int]:
        return 1, 1_000


class Found:
    def __init__(self, topic: str, key: bytes) -> None:
        self.message = Message(topic, key)
        self.value = b"v"


def through(rows: TopologyRows, source: str, key: bytes, sink: str) -> Any:
    """Return the key's bytes after a row went from one topic to another."""
    return rows.write(Output(sink, rows.read(Found(source, key)))).key  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("serde", "raw"),
    [
        ("integer", FOUR(7)),
        ("integer", EIGHT(7)),
        ("json", b'{"b": 1,  "a": "\\u00e9"}'),
        ("msgpack", b"\xd9\x01a"),  # a string with a longer length than it needs
    ],
)
def test_a_key_that_is_not_changed_keeps_its_bytes(serde: str, raw: bytes) -> None:
    rows = rows_of(
        lambda topics: topics.stream("in", key=serde).filter(bool).map_values(str.upper).to("out", key=serde)
    )
    assert through(rows, "in", raw, "out") == raw


def test_a_key_that_is_changed_has_the_bytes_of_the_serde() -> None:
    rows = rows_of(lambda topics: topics.stream("in", key="json").to("out", key="json"))
    row = rows.read(Found("in", b'{"id": 1}'))  # type: ignore[arg-type]
    assert rows.write(Output("out", row.replace(key={"id": 2}))).key == b'{"id":2}'
    assert rows.write(Output("out", row)).key == b'{"id": 1}'


def test_integers_that_come_out_of_a_state_have_the_width_of_their_topic() -> None:
    rows = rows_of(lambda topics: topics.stream("in", key="integer").group_by_key().count().to("out", key="integer"))
    rows.read(Found("in", FOUR(7)))  # type: ignore[arg-type]
    assert rows.write(Output("out", Record(7, b"1", 1))).key == FOUR(7)
    assert rows.keys.asked == ["in"]


def test_keys_that_come_out_of_a_state_must_be_what_the_serde_writes() -> None:
    rows = rows_of(lambda topics: topics.table("in", key="json", name="kept").to("out", key="json"))
    assert through(rows, "in", b'{"id":1}', "out") == b'{"id":1}'
    with pytest.raises(RecordError, match=r"topic in: the key .* in the topic out it would be another key"):
        rows.read(Found("in", b'{"id": 1}'))  # type: ignore[arg-type]
    exact = rows_of(lambda topics: topics.table("in", key="json", name="kept").to("out", key="string"))
    exact.read(Found("in", b'{"id": 1}'))  # type: ignore[arg-type]  # nothing is written as it was read


def meeting(key: str) -> Any:
    def build(topics: TopologyTopics) -> None:
        people = topics.table("people", key=key)
        topics.stream("orders").select_key(lambda row: 1).join_table(people, lambda order, person: order).to("out")

    return build


def test_keys_of_another_width_than_those_written_are_an_error() -> None:
    rows = rows_of(meeting("integer"))
    [internal] = [topic for topic in rows._read if topic.endswith("repartition")]
    assert rows.write(Output(internal, Record(1, b"", 1))).key == EIGHT(1)
    with pytest.raises(RecordError, match=r"topic people: the key 5 has the 4 bytes .* keys of 8 bytes, for example"):
        rows.read(Found("people", FOUR(5)))  # type: ignore[arg-type]


def test_two_topics_whose_rows_meet_have_integers_of_one_width() -> None:
    def build(topics: TopologyTopics) -> None:
        topics.table("left", key="integer").join(topics.table("right", key="integer"), max).to("out", key="integer")

    rows = rows_of(build)
    rows.read(Found("left", FOUR(5)))  # type: ignore[arg-type]
    with pytest.raises(RecordError, match=r"topic right: the key 5 has the 8 bytes .*, and left has keys of 4 bytes"):
        rows.read(Found("right", EIGHT(5)))  # type: ignore[arg-type]


def test_rows_that_were_repartitioned_with_another_width_are_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    # an instance that had seen no key, or an earlier release, wrote eight bytes
    rows = rows_of(meeting("integer"))
    [internal] = [topic for topic in rows._read if topic.endswith("repartition")]
    rows.read(Found("people", FOUR(5)))  # type: ignore[arg-type]
    serde = rows.keys.of_repartition(internal)
    with caplog.at_level(logging.WARNING, "streamactors.kafka"):
        assert [serde.deserialize(EIGHT(n)) for n in range(3)] == [0, 1, 2]
    assert caplog.text.count("keys of 8 bytes") == 1


def test_only_topics_whose_bytes_could_change_are_looked_at_before_the_run() -> None:
    def keys(key: Any) -> TopicKeys:
        return rows_of(meeting(key)).keys

    assert [keys(key).asked for key in ("string", "bytes", "int32", "int64")] == [[], [], [], []]
    assert [keys(key).asked for key in ("integer", "json", "msgpack")] == [["people"], ["people"], ["people"]]


def test_integers_of_a_named_width_refuse_the_other() -> None:
    assert (INT32.serialize(-2), INT64.serialize(-2)) == (FOUR(-2), EIGHT(-2))
    assert (INT32.deserialize(FOUR(-2)), INT64.deserialize(EIGHT(-2))) == (-2, -2)
    for serde, raw in ((INT32, EIGHT(1)), (INT64, FOUR(1))):
        with pytest.raises(ValueError, match=f"an {serde.name} has {4 if serde is INT32 else 8} bytes, got"):
            serde.deserialize(raw)
    with pytest.raises(OverflowError):
        INT32.serialize(1 << 31)


def test_json_is_compact_and_utf_8_and_still_carries_lone_surrogates() -> None:
    assert JSON.serialize({"a": [1, "é"], "b": None}) == '{"a":[1,"é"],"b":null}'.encode()
    assert JSON.deserialize(JSON.serialize("\ud800")) == "\ud800"


@pytest.mark.parametrize(
    ("value", "written"),
    [  # numbers: section 3.2.2.3 and appendix B of RFC 8785, keys: section 3.2.3
        (333333333.33333329, "333333333.3333333"),
        (1e30, "1e+30"),
        (4.50, "4.5"),
        (2e-3, "0.002"),
        (0.000000000000000000000000001, "1e-27"),
        (-0.0, "0"),
        (5e-324, "5e-324"),
        (1.7976931348623157e308, "1.7976931348623157e+308"),
        (295147905179352830000.0, "295147905179352830000"),
        (9.999999999999997e22, "9.999999999999997e+22"),
        (1e23, "1e+23"),
        (999999999999999700000.0, "999999999999999700000"),
        (0.000001, "0.000001"),
        (9.999999999999997e-7, "9.999999999999997e-7"),
        (10.0, "10"),
        ([56, {"d": True, "10": None, "1": []}], '[56,{"1":[],"10":null,"d":true}]'),
        ({"\ufb33": 1, "\U0001f600": 2, "ö": 3, "\r": 4}, '{"\\r":4,"ö":3,"\U0001f600":2,"\ufb33":1}'),
    ],
)
def test_canonical_json_is_that_of_rfc_8785(value: Any, written: str) -> None:
    assert SERDES["canonical-json"].serialize(value) == written.encode()


@pytest.mark.parametrize("value", [float("nan"), float("inf"), (1 << 53) + 1, {1: 2}, object()])
def test_what_has_no_canonical_form_is_refused(value: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        SERDES["canonical-json"].serialize(value)
