"""asyncapi(graph): the document is valid, and its schemas describe what the serdes write.

asyncapi-3.0.0.json.gz is the JSON Schema of AsyncAPI 3.0.0 (github.com/asyncapi/spec-json-schemas, Apache-2.0)."""

from __future__ import annotations

import enum
import gzip
import json
import textwrap
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal

import jsonschema
import msgspec
import pydantic
import pytest

from streamactors import BuildError, Flow, Sink, Source
from streamactors.cli.main import run
from streamactors.kafka import (
    Consumer,
    ConsumerSettings,
    Producer,
    ProducerRecord,
    ProducerSettings,
    Subscriptions,
    asyncapi,
)
from streamactors.kafka.serdes.json_schemas import Schemas
from streamactors.kafka.serdes.serdes import serde_of

READING = ConsumerSettings("one:9092,two:9092", group_id="g")
WRITING = ProducerSettings("one:9092")
ORDERS = Subscriptions.topics("orders")


class Kind(enum.Enum):
    WEB = "web"
    SHOP = "shop"


@dataclass
class Line:
    item: str
    count: int = 1


@dataclass
class Order:
    """What somebody has ordered."""

    number: int
    lines: list[Line]
    at: datetime
    price: Decimal
    kind: Kind = Kind.WEB
    note: str | None = None
    weights: dict[str, float] = field(default_factory=dict)
    place: tuple[float, float] | None = None
    parent: Order | None = None
    state: Literal["open", "done"] = "open"
    seal: bytes = b""


class Money(pydantic.BaseModel):
    amount: int


class Total(pydantic.BaseModel):
    who: str
    money: Money


class Click(msgspec.Struct):
    page: str
    after: Click | None = None


LINES = [Line("tea", 2), Line("milk")]
NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)
VALUES: list[Any] = [
    Order(1, LINES, NOON, Decimal("1.50")),
    Order(
        2,
        [],
        NOON,
        Decimal(0),
        Kind.SHOP,
        "x",
        {"tea": 0.5},
        (1.0, 2.0),
        Order(1, LINES, NOON, Decimal(1)),
        "done",
        b"\xff",
    ),
    Total(who="ada", money=Money(amount=3)),
    Click("/", Click("/home")),
]


@pytest.fixture(scope="module")
def asyncapi_schema() -> Any:
    data = gzip.decompress((Path(__file__).parent / "asyncapi-3.0.0.json.gz").read_bytes())
    return jsonschema.Draft7Validator(json.loads(data))


def typed_graph() -> Any:
    records = Consumer.records(READING, ORDERS, key="string", value=Order, dead_letters="orders-dead")
    totals = records.map(lambda record: ProducerRecord("totals", Total(who="ada", money=Money(amount=1))))
    return totals.to(Producer.plain_sink(WRITING, value=Total))


def topology() -> Any:
    topics = Consumer.topics(READING)
    topics.stream("clicks", value=Click).group_by_key().count().to("counts", value="integer")
    return topics.graph()


GRAPHS: dict[str, tuple[Any, dict[str, Any], set[str]]] = {
    "typed records": (
        typed_graph,
        {"writes": {"totals": ("string", Total)}},
        {"receive.orders", "send.orders-dead", "send.totals"},
    ),
    "a topology": (topology, {}, {"receive.clicks", "send.counts"}),
    "a pattern": (
        lambda: Consumer.plain_source(READING, Subscriptions.topic_pattern("log.*")).to(Sink.ignore()),
        {},
        {"receive.pattern1"},
    ),
    "partitions": (
        lambda: Consumer.plain_source(READING, Subscriptions.assignment(("orders", 0), ("orders", 1))).to(
            Sink.ignore()
        ),
        {},
        {"receive.orders"},
    ),
    "validated records": (
        lambda: (
            Consumer.source(READING, ORDERS)
            .validate(
                lambda record: record, dead_letters=Producer.dead_letter_sink(WRITING, "orders-dead", value="json")
            )
            .to(Sink.ignore())
        ),
        {},
        {"receive.orders", "send.orders-dead"},
    ),
    "no Kafka": (lambda: Source.range(0, 3).to(Sink.ignore()), {}, set()),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_the_document_of_a_graph_is_valid_and_names_its_topics(name: str, asyncapi_schema: Any) -> None:
    make, options, operations = GRAPHS[name]
    document = json.loads(json.dumps(asyncapi(make(), title=name, **options)))
    assert [error.message for error in asyncapi_schema.iter_errors(document)] == []
    assert set(document["operations"]) == operations
    assert document["info"] == {"title": name, "version": "1.0.0"}


def test_a_reader_of_the_document_finds_group_key_and_types() -> None:
    document = asyncapi(typed_graph(), writes={"totals": Total})
    receive = document["operations"]["receive.orders"]
    assert receive["bindings"]["kafka"]["groupId"] == {"type": "string", "enum": ["g"]}
    assert document["channels"]["orders"]["address"] == "orders"
    message = document["components"]["messages"]["orders"]
    assert message["payload"] == {"$ref": "#/components/schemas/Order"}
    assert message["bindings"]["kafka"]["key"] == {"type": "string"}
    assert document["components"]["messages"]["orders-dead"]["title"] == "dead letters"
    assert [each["host"] for each in document["servers"].values()] == ["one:9092", "two:9092"]
    order = document["components"]["schemas"]["Order"]
    assert order["description"] == "What somebody has ordered."
    assert order["required"] == ["number", "lines", "at", "price"]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_a_schema_describes_what_the_serde_writes(value: Any) -> None:
    kind = type(value)
    schemas = Schemas()
    whole = {**schemas.of_class(kind), "components": {"schemas": schemas.components}}  # type: ignore[dict-item]
    written = json.loads(serde_of("value", kind).serialize(value))
    jsonschema.Draft202012Validator.check_schema(whole)
    jsonschema.Draft7Validator(whole).validate(written)
    for required in schemas.components[kind.__name__].get("required", []):
        lacking = {name: each for name, each in written.items() if name != required}
        assert not jsonschema.Draft7Validator(whole).is_valid(lacking), f"{required} is missing"


def test_credentials_are_not_in_the_document() -> None:
    settings = READING.with_properties(
        {"security.protocol": "SASL_SSL", "sasl.username": "ada", "sasl.password": "s3cret"}
    )
    text = json.dumps(asyncapi(Consumer.plain_source(settings, ORDERS).to(Sink.ignore())))
    assert "s3cret" not in text
    assert "ada" not in text
    assert '"kafka-secure"' in text


def test_a_sink_whose_topics_are_unknown_is_named_with_the_way_out() -> None:
    graph = Source.single(ProducerRecord("totals", "1")).to(Producer.plain_sink(WRITING))
    with pytest.raises(BuildError, match=r"known only when its records come; name them .*writes=\{\"totals\": Total\}"):
        asyncapi(graph)


def test_a_topic_has_one_type_and_a_name_one_class() -> None:
    one = Consumer.records(READING, ORDERS, value=Order)
    other = Consumer.records(READING, ORDERS, value=Total)
    with pytest.raises(BuildError, match="topic orders has two types in this graph"):
        asyncapi(one.merge(other).to(Sink.ignore()))

    def again() -> type:
        @dataclass
        class Line:
            other: int

        return Line

    lines = Consumer.records(READING, Subscriptions.topics("lines"), value=again())
    with pytest.raises(BuildError, match="two classes are called Line"):
        asyncapi(one.merge(lines).to(Sink.ignore()))


def test_what_is_no_graph_is_refused() -> None:
    with pytest.raises(BuildError, match="asyncapi expects a runnable graph, got int"):
        asyncapi(3)
    assert asyncapi(Flow.map(str))["channels"] == {}


def test_the_command_prints_the_document(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "shop_streams.py").write_text(
        textwrap.dedent("""
        from dataclasses import dataclass

        from streamactors.kafka import Consumer, ConsumerSettings, Producer, ProducerRecord, ProducerSettings, Subscriptions

        @dataclass
        class Order:
            number: int

        def graph():
            orders = Consumer.records(ConsumerSettings("one:9092", group_id="g"), Subscriptions.topics("orders"), value=Order)
            return orders.map(lambda r: ProducerRecord("copies", r.value)).to(Producer.plain_sink(ProducerSettings("one:9092")))
        """)
    )
    module = f"{tmp_path / 'shop_streams.py'}"
    assert run(["asyncapi", f"{module}:graph", "--title", "shop", "--writes", f"copies={module}:Order"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["info"]["title"] == "shop"
    assert set(document["channels"]) == {"orders", "copies"}
    assert set(document["components"]["schemas"]) == {"Order"}
    assert run(["asyncapi", f"{module}:graph"]) == 1
    assert "known only when its records come" in capsys.readouterr().err
    assert run(["asyncapi", f"{module}:graph", "--writes", "copies"]) == 2
    assert "write TOPIC=TYPE" in capsys.readouterr().err
