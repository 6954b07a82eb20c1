"""Serdes by class, by name and of confluent-kafka, on both sides of a topic."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from typing import Any, Literal

import cloudpickle
import msgspec
import pydantic
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import Deserializer, MessageField, SerializationError, Serializer
from hypothesis import given
from hypothesis import strategies as st

from streamactors import Keep, Sink, Source
from streamactors.errors import BuildError
from streamactors.kafka import (
    Consumer,
    Producer,
    ProducerMessage,
    ProducerRecord,
    SendProducer,
    Subscriptions,
    Transactional,
)
from streamactors.kafka.errors import RecordError
from streamactors.kafka.serdes import serdes
from streamactors.kafka.serdes.serdes import JSON, SERDES, Serde, reading_serde, serde_of, writing_function
from streamactors.kafka.serdes.typed_records import Misfit


class Kind(Enum):
    IN = "in"
    OUT = "out"


@dataclass
class Leg:
    origin: str
    minutes: float | None = None


@dataclass
class Flight:
    number: int
    legs: list[Leg]
    when: datetime
    price: Decimal = Decimal(0)
    kind: Kind = Kind.IN
    tags: dict[str, int] = field(default_factory=dict)
    cabin: Literal["a", "b"] = "a"
    pair: tuple[int, str] = (0, "")
    after: Flight | None = None


class Struct(msgspec.Struct):
    number: int


class Model(pydantic.BaseModel):
    number: int


@pydantic.dataclasses.dataclass
class ModelDataclass:
    number: int


@dataclass
class Plain:
    number: int


KINDS = [Plain, Struct, Model, ModelDataclass]


@pytest.mark.slow
@given(
    st.builds(
        Flight,
        legs=st.lists(st.builds(Leg, minutes=st.none() | st.floats(allow_nan=False, allow_infinity=False))),
        when=st.datetimes(timezones=st.just(UTC)),
        price=st.decimals(allow_nan=False, allow_infinity=False),
        after=st.none(),
    )
)
def test_a_dataclass_comes_back_from_json_as_it_was(flight):
    serde = serde_of("value", Flight)
    assert serde.deserialize(serde.serialize(flight)) == flight
    nested = dataclasses.replace(flight, after=flight)
    assert serde.deserialize(serde.serialize(nested)) == nested


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"number": "7"}, "Flight.number: expected int, got str '7'"),
        ({"number": True}, "Flight.number: expected int, got bool True"),
        ({"legs": [{}]}, "Leg.origin is missing"),
        ({"legs": [{"origin": "a", "minutes": "x"}]}, "Leg.minutes: expected float | None, got str 'x'"),
        ({"when": "yesterday"}, "Flight.when: 'yesterday' is no datetime"),
        ({"kind": "up"}, "Flight.kind: 'up' is no Kind"),
        ({"cabin": "c"}, "Flight.cabin: expected one of 'a', 'b', got 'c'"),
        ({"pair": [1]}, "Flight.pair: expected 2 elements, got 1"),
        ({"tags": []}, "Flight.tags: expected dict, got list"),
    ],
)
def test_a_value_that_does_not_fit_names_the_field(change, sentence):
    serde = serde_of("value", Flight)
    given = {"number": 1, "legs": [], "when": "2026-01-01", "unknown": 1}
    assert serde.deserialize(json.dumps(given).encode()).number == 1
    with pytest.raises(Misfit) as raised:
        serde.deserialize(json.dumps(given | change).encode())
    assert sentence in str(raised.value)


def test_a_field_that_json_does_not_tell_is_refused_when_the_graph_is_built():
    @dataclass
    class Odd:
        what: complex

    with pytest.raises(BuildError, match=r"Odd\.what: a <class 'complex'> cannot be read from JSON"):
        reading_serde("value", Odd)


@pytest.mark.parametrize("kind", KINDS)
def test_records_of_a_class_go_through_a_topic_and_misfits_become_dead_letters(
    cluster, settings, producer_settings, system, read_all, kind
):
    topic, dead = f"typed-{kind.__name__}", f"typed-{kind.__name__}-dead"
    cluster.create_topic(topic, 1)
    cluster.create_topic(dead, 1)
    records = [ProducerRecord(topic, kind(number=n), str(n)) for n in range(3)]
    Source.from_iterable(records).run_with(
        Producer.plain_sink(producer_settings, key="string", value=kind), system
    ).result(30)
    misfit = ProducerRecord(topic, b'{"number": "many"}')
    Source.single(misfit).run_with(Producer.plain_sink(producer_settings), system).result(30)
    source = Consumer.records(
        settings, Subscriptions.topics(topic), key="string", value=kind, dead_letters=dead, until="end"
    )
    control, done = source.to_mat(Sink.to_list(), Keep.both).run(system)
    assert [(r.key, r.value) for r in done.result(30)] == [(str(n), kind(number=n)) for n in range(3)]
    control.is_shutdown.result(30)
    (letter,) = read_all(dead)
    assert letter.value() == b'{"number": "many"}'


def test_a_plain_class_stays_a_function_from_bytes():
    assert reading_serde("value", int).deserialize(b"42") == 42


@pytest.mark.parametrize("kind", KINDS)
def test_an_object_of_another_class_is_not_written(producer_settings, system, kind):
    sink = Producer.plain_sink(producer_settings, value=kind)
    with pytest.raises(RecordError, match=f"topic t: the value cannot be serialised as {kind.__name__}: expected"):
        Source.single(ProducerRecord("t", {"number": 1})).run_with(sink, system).result(30)


def test_every_writer_takes_serdes(cluster, producer_settings, system, read_all):
    cluster.create_topic("written", 1)
    record = ProducerRecord("written", {"a": 1}, 7)
    given = {"key": "integer", "value": "json"}
    message, several = ProducerMessage.message(record, "passed"), ProducerMessage.multi([record, record])
    flow = Producer.flexi_flow(producer_settings, **given)
    envelopes = [message, several, ProducerMessage.pass_through("through")]
    results = Source.from_iterable(envelopes).via(flow).run_with(Sink.to_list(), system).result(30)
    assert [each.pass_through for each in results] == ["passed", None, "through"]
    pairs = Producer.flow_with_context(producer_settings, **given)
    Source.from_iterable([(message, "context")]).via(pairs.as_flow()).run_with(Sink.ignore(), system).result(30)
    transactional = producer_settings.with_transactional_id("serdes")
    Source.single(record).run_with(Transactional.sink(transactional, **given), system).result(30)
    Source.single(message).via(Transactional.flow(transactional, **given)).run_with(Sink.ignore(), system).result(30)
    sender = SendProducer(producer_settings, **given)
    sender.send(record).result(30)
    sender.close()
    found = [(m.key(), m.value()) for m in read_all("written")]
    assert found == [((7).to_bytes(8, "big"), b'{"a":1}')] * 7


@pytest.mark.parametrize("given", ["jsn", 5, int])
def test_what_is_no_serde_is_refused_by_a_writer(producer_settings, given):
    with pytest.raises(
        BuildError,
        match=r"Producer.plain_sink: value must be a Serde, one of bytes, canonical-json, int32, int64, integer, json",
    ):
        Producer.plain_sink(producer_settings, value=given)


class SchemaSerializer(Serializer):
    def __call__(self, obj, ctx=None):
        return f"{ctx.topic}-{ctx.field}:{obj}".encode()


class SchemaDeserializer(Deserializer):
    def __call__(self, value, ctx=None):
        subject, text = value.decode().split(":")
        assert subject == ctx.topic + "-" + ctx.field
        assert ctx.field == MessageField.VALUE
        return text


@pytest.mark.parametrize("direct", [False, True])
def test_serdes_of_confluent_kafka_are_called_with_topic_and_field(
    cluster, settings, producer_settings, system, direct
):
    # AvroSerializer looks up the schema's subject by ctx.topic and ctx.field: called with the value alone it raised
    topic = f"schemas-{direct}"
    cluster.create_topic(topic, 1)
    serializer, deserializer = SchemaSerializer(), SchemaDeserializer()
    both = Serde.of(serializer, deserializer)
    sink = Producer.plain_sink(producer_settings, value=serializer if direct else both)
    Source.single(ProducerRecord(topic, "text")).run_with(sink, system).result(30)
    source = Consumer.records(
        settings, Subscriptions.topics(topic), value=deserializer if direct else both, until="end"
    )
    (record,) = source.run_with(Sink.to_list(), system).result(30)
    assert record.value == "text"


FLIGHT = """{"type": "record", "name": "Flight", "fields": [
    {"name": "number", "type": "int"}, {"name": "origin", "type": ["null", "string"], "default": null}]}"""


def test_avro_of_confluent_kafka_as_the_page_says(cluster, settings, producer_settings, system):
    registry = SchemaRegistryClient.new_client({"url": "mock://flights"})
    avro = Serde.of(AvroSerializer(registry, FLIGHT), AvroDeserializer(registry))
    cluster.create_topic("avro", 1)
    flights = [{"number": 1545, "origin": "EWR"}, {"number": 461, "origin": None}]
    records = Source.from_iterable(flights).map(lambda flight: ProducerRecord("avro", flight))
    records.run_with(Producer.plain_sink(producer_settings, value=avro), system).result(30)
    assert registry.get_subjects() == ["avro-value"]
    topic = Subscriptions.topics("avro")
    (raw, *_) = Consumer.source(settings, topic, until="end").run_with(Sink.to_list(), system).result(30)
    assert raw.value[:1] == b"\0", "the wire format of schema registries: a zero, and the id of the schema in 4 bytes"
    read = Consumer.records(settings.with_group_id("avro"), topic, value=avro, until="end")
    assert [record.value for record in read.run_with(Sink.to_list(), system).result(30)] == flights


def test_a_value_that_its_avro_schema_refuses_fails_the_writer_and_bytes_that_are_no_avro_the_reader(
    cluster, settings, producer_settings, system
):
    registry = SchemaRegistryClient.new_client({"url": "mock://refused"})
    avro = Serde.of(AvroSerializer(registry, FLIGHT), AvroDeserializer(registry))
    cluster.create_topic("refused", 1)
    wrong = Source.single(ProducerRecord("refused", {"number": "many"}))
    with pytest.raises(RecordError, match=r"topic refused: the value cannot be serialised.*(number|many)"):
        wrong.run_with(Producer.plain_sink(producer_settings, value=avro), system).result(30)
    plain = Source.single(ProducerRecord("refused", b"no avro"))
    plain.run_with(Producer.plain_sink(producer_settings), system).result(30)
    read = Consumer.records(settings, Subscriptions.topics("refused"), value=avro, until="end")
    with pytest.raises(SerializationError) as raised:
        read.run_with(Sink.to_list(), system).result(30)
    assert "ConsumerRecord(refused-0@0" in raised.value.__notes__[0]


def test_half_a_serde_says_which_half_is_missing():
    with pytest.raises(TypeError, match=r"the serde 'avro' has no serialize"):
        Serde.of(deserialize=SchemaDeserializer(), name="avro").serialize(1)
    with pytest.raises(BuildError, match=r"Serde\.of: serialize must be a function, got str"):
        Serde.of("json")


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
ENCODINGS = ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be", "latin-1"]


@pytest.fixture(scope="module", params=["msgspec", "standard library"])
def parser(request: pytest.FixtureRequest) -> Iterator[None]:
    """JSON is parsed by msgspec, or as where it is not installed."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "standard library":
            patch.setattr(serdes, "_parsed", serdes._scanned)
        yield


@pytest.mark.usefixtures("parser")
@given(value=JSON_VALUES, plain=st.booleans(), encoding=st.sampled_from(ENCODINGS), junk=st.binary(max_size=2))
def test_json_of_any_encoding_or_none_is_read_as_json_loads_reads_it(
    value: Any, plain: bool, encoding: str, junk: bytes
) -> None:
    data = json.dumps(value, ensure_ascii=plain).encode(encoding, "replace") + junk
    try:
        wanted: Any = json.loads(data)
    except ValueError as error:
        with pytest.raises(type(error), match=re.escape(str(error))):
            JSON.deserialize(data)
    else:
        assert repr(JSON.deserialize(data)) == repr(wanted)


@pytest.mark.usefixtures("parser")
@pytest.mark.parametrize(
    "data",
    [
        b"-0",
        b"1e400",
        b"NaN",
        b"-Infinity",
        b"9" * 30,
        b'{"a":1,"a":2}',
        b"01",
        b'"\x01"',
        b"[1] ",
        b" 1",
        b"",
        b'"\\ud800"',
    ],
)
def test_json_at_the_edges_is_read_as_json_loads_reads_it(data: bytes) -> None:
    try:
        wanted = repr(json.loads(data))
    except ValueError as error:
        with pytest.raises(type(error), match=re.escape(str(error))):
            JSON.deserialize(data)
    else:
        assert repr(JSON.deserialize(data)) == wanted


@pytest.mark.usefixtures("parser")
def test_json_surrogates_text_and_other_types_are_read_as_json_loads_reads_them() -> None:
    lone = b'"\xed\xa0\x80"'
    assert JSON.deserialize(lone) == json.loads(lone) == "\ud800"
    assert JSON.deserialize(bytearray(b"[1]")) == [1]
    assert JSON.deserialize("[1]") == [1]  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="must be str, bytes or bytearray"):
        JSON.deserialize(5)  # type: ignore[arg-type]


@given(
    JSON_VALUES | st.floats() | st.dictionaries(st.integers() | st.booleans() | st.none() | st.floats(), st.integers())
)
def test_json_is_written_as_json_dumps_writes_it(value: Any) -> None:
    assert JSON.serialize(value) == compact(value)


def test_what_json_cannot_write_is_refused_naming_its_type() -> None:
    for value in ({1, 2}, {"a": object()}, {(1, 2): 3}, b"x"):
        with pytest.raises(TypeError) as told:
            json.dumps(value)
        with pytest.raises(TypeError, match=re.escape(str(told.value).split(" at ")[0][:40])):
            JSON.serialize(value)
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(RecursionError):
        JSON.serialize(endless)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(), inner),
        max_leaves=10,
    )
)
def test_json_is_written_as_the_standard_library_does(value):
    assert SERDES["json"].serialize(value) == compact(value)


def compact(value: Any) -> bytes:
    """JSON without spaces in UTF-8; a lone surrogate, which has none, as an escape."""
    try:
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":")).encode()


def test_json_of_what_has_no_json_names_the_type():
    with pytest.raises(TypeError, match="Object of type set is not JSON serializable"):
        SERDES["json"].serialize({1})


@pytest.mark.parametrize("name", SERDES)
def test_the_functions_of_a_serde_go_to_other_processes(name):
    serde = SERDES[name]
    for function in (serde.serialize, serde.deserialize):
        cloudpickle.dumps(function)


def test_a_value_nested_too_deep_is_an_error_of_its_record() -> None:
    # showing the value in the error raised RecursionError in place of the error
    deep: list[object] = []
    for _ in range(5_000):
        deep = [deep]
    for serde in ("json", "msgpack"):
        write = writing_function("a sink", None, serde)
        assert write is not None
        with pytest.raises(RecordError, match=f"topic t: the value cannot be serialised as {serde}"):
            write(ProducerRecord("t", deep))
