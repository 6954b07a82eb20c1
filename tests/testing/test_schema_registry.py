"""The schema registry of the test kit, asked by confluent-kafka's own client; and what a change of a schema breaks, by field."""

from __future__ import annotations

import io
import json

import fastavro
import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.error import SchemaRegistryError
from hypothesis import given, settings
from hypothesis import strategies as st

from streamactors.testing import SchemaRegistry
from streamactors.testing.registry import avro, json_schema


def record(*fields, name="Order"):
    return json.dumps({"type": "record", "name": name, "fields": list(fields)})


N = {"name": "n", "type": "int"}
S = {"name": "s", "type": "string"}
S_DEFAULT = {**S, "default": ""}


@pytest.fixture
def registry():
    with SchemaRegistry() as registry:
        yield registry


@pytest.fixture
def client(registry):
    return SchemaRegistryClient({"url": registry.url, "max.retries": 0})


def refused(call):
    with pytest.raises(SchemaRegistryError) as caught:
        call()
    return caught.value.http_status_code, caught.value.error_code, caught.value.error_message


def test_versions_count_up_in_a_subject_and_a_schema_has_one_id_everywhere(client):
    first = client.register_schema("a-value", Schema(record(N), "AVRO"))
    second = client.register_schema("a-value", Schema(record(N, S_DEFAULT), "AVRO"))
    assert client.register_schema("b/value", Schema(record(N), "AVRO")) == first != second
    assert client.register_schema("a-value", Schema(record(N), "AVRO")) == first
    assert client.get_versions("a-value") == [1, 2]
    assert client.get_latest_version("a-value").schema_id == second
    assert client.lookup_schema("a-value", Schema(record(N), "AVRO")).version == 1
    assert json.loads(client.get_schema(first).schema_str)["fields"] == [N]
    assert client.get_subjects() == ["a-value", "b/value"]


def test_an_incompatible_schema_is_refused_with_subject_version_level_and_field(client):
    client.register_schema("orders-value", Schema(record(N), "AVRO"))
    status, code, message = refused(lambda: client.register_schema("orders-value", Schema(record(N, S), "AVRO")))
    assert (status, code) == (409, 409)
    assert 'subject "orders-value", version 1 (BACKWARD): field s has no default value' in message
    assert client.test_compatibility("orders-value", Schema(record(N, S_DEFAULT), "AVRO")) is True
    assert client.test_compatibility("orders-value", Schema(record(N, S), "AVRO")) is False
    assert client.get_versions("orders-value") == [1]


@pytest.mark.parametrize(
    ("level", "backward", "forward"),
    [
        ("NONE", True, True),
        ("BACKWARD", True, False),
        ("FORWARD", False, True),
        ("FULL", False, False),
        ("BACKWARD_TRANSITIVE", True, False),
    ],
)
def test_a_level_says_which_side_must_read_the_other(client, level, backward, forward):
    client.set_compatibility("x-value", level)
    assert client.get_compatibility("x-value") == level
    client.register_schema("x-value", Schema(record(N, S), "AVRO"))
    assert client.test_compatibility("x-value", Schema(record(N), "AVRO")) is backward  # the old one misses s
    assert client.test_compatibility("x-value", Schema(record(N, S, {**N, "name": "m"}), "AVRO")) is forward


def test_a_transitive_level_looks_at_every_version(client):
    client.set_compatibility("t-value", "BACKWARD")
    client.register_schema("t-value", Schema(record(N), "AVRO"))
    client.register_schema("t-value", Schema(record(N, S_DEFAULT), "AVRO"))
    assert client.test_compatibility("t-value", Schema(record(N, S), "AVRO")) is True
    client.set_compatibility("t-value", "BACKWARD_TRANSITIVE")
    assert client.test_compatibility("t-value", Schema(record(N, S), "AVRO"), "latest") is True
    _, _, message = refused(lambda: client.register_schema("t-value", Schema(record(N, S), "AVRO")))
    assert "version 1 (BACKWARD_TRANSITIVE): field s" in message


def test_errors_have_the_codes_of_the_registry(client):
    assert refused(lambda: client.get_versions("none"))[:2] == (404, 40401)
    assert refused(lambda: client.get_schema(99))[:2] == (404, 40403)
    assert refused(lambda: client.register_schema("x", Schema('{"type": "recor"}', "AVRO")))[:2] == (422, 42201)
    assert refused(lambda: client.set_compatibility("x", "SOMETIMES"))[:2] == (422, 42203)
    client.register_schema("x", Schema(record(N), "AVRO"))
    assert refused(lambda: client.get_version("x", 7))[:2] == (404, 40402)
    assert refused(lambda: client.lookup_schema("x", Schema(record(S), "AVRO")))[:2] == (404, 40403)
    assert refused(lambda: client.delete_version("x", 1, permanent=True))[:2] == (404, 40407)
    assert client.delete_subject("x") == [1]
    assert client.get_subjects() == []


@pytest.mark.parametrize(
    ("method", "target"), [("GET", "/nothing"), ("GET", "/subjects/x/versions/1/nothing"), ("PATCH", "/subjects")]
)
def test_what_the_registry_does_not_serve_is_not_found(method, target):
    status, body = SchemaRegistry().answer(method, target, None)
    assert (status, body["error_code"], body["message"]) == (404, 404, "HTTP 404 Not Found")


def test_a_file_keeps_schemas_versions_and_levels(tmp_path):
    path = tmp_path / "schemas.jsonl"
    with SchemaRegistry(path) as registry:
        client = SchemaRegistryClient({"url": registry.url})
        number = client.register_schema("x", Schema(record(N), "AVRO"))
        client.set_compatibility("x", "FULL")
        client.register_schema("gone", Schema(record(S), "AVRO"))
        client.delete_subject("gone")
    with SchemaRegistry(path) as registry:
        client = SchemaRegistryClient({"url": registry.url})
        assert client.get_latest_version("x").schema_id == number
        assert client.get_compatibility("x") == "FULL"
        assert client.get_subjects() == ["x"]


# ── Avro: fastavro reads what the check allows ────────────────────────────────────────────────────────────────────────

_values = {"int": 1, "long": 1 << 40, "float": 1.5, "double": 1.5, "string": "x", "boolean": True}
_kinds = st.sampled_from(sorted(_values))
_types = _kinds | _kinds.map(lambda t: {"type": "array", "items": t}) | _kinds.map(lambda t: ["null", t])


def _value(kind):
    if isinstance(kind, list):
        return _value(kind[1])
    return [_value(kind["items"])] if isinstance(kind, dict) else _values[kind]


@given(old=st.dictionaries(st.sampled_from("abc"), _types), new=st.dictionaries(st.sampled_from("abc"), _types))
@settings(max_examples=200, deadline=None)
def test_fastavro_reads_old_data_exactly_when_no_field_is_a_problem(old, new):
    writer, reader = (record(*({"name": name, "type": kind} for name, kind in fields.items())) for fields in (old, new))
    found = avro.problems(reader, writer)
    data = io.BytesIO()
    fastavro.schemaless_writer(data, json.loads(writer), {name: _value(kind) for name, kind in old.items()})
    try:
        fastavro.schemaless_reader(io.BytesIO(data.getvalue()), json.loads(writer), json.loads(reader))
    except Exception:  # fastavro has several
        assert found
        assert all(problem.startswith("field ") for problem in found)
    else:
        nullable = any(
            isinstance(kind, list) for kind in old.values()
        )  # the value took one branch, the check looks at both
        assert not found or nullable


@pytest.mark.parametrize(
    ("reader", "writer", "told"),
    [
        (
            {"type": "enum", "name": "E", "symbols": ["A"]},
            {"type": "enum", "name": "E", "symbols": ["A", "B"]},
            "symbols B",
        ),
        ({"type": "fixed", "name": "F", "size": 2}, {"type": "fixed", "name": "F", "size": 3}, "3 bytes"),
        ({"type": "map", "values": "int"}, {"type": "map", "values": "string"}, "string"),
        ("int", ["null", "int"], "null"),
    ],
)
def test_other_types_of_avro_are_compared(reader, writer, told):
    fields = [record({"name": "f", "type": kind}) for kind in (reader, writer)]
    (problem,) = avro.problems(*fields)
    assert problem.startswith("field f")
    assert told in problem
    assert avro.problems(fields[0], fields[0]) == []


def test_a_record_that_contains_itself_is_compared_once():
    tree = record({"name": "next", "type": ["null", "Order"]}, N)
    assert avro.problems(tree, tree) == []
    assert (
        "field n has"
        in avro.problems(tree, record({"name": "next", "type": ["null", "Order"]}, {**N, "type": "long"}))[0]
    )


@pytest.mark.parametrize(
    ("new", "old", "field"),
    [
        ({"properties": {"a": {"type": "string"}}}, {"properties": {"a": {"type": "integer"}}}, "a"),
        ({"required": ["a"], "properties": {"a": {}}}, {"properties": {"a": {}}}, "a"),
        (
            {"properties": {"a": {"type": "string"}, "b": {"type": "string"}}},
            {"properties": {"a": {"type": "string"}}},
            "b",
        ),
        ({"properties": {"a": {"maximum": 3}}}, {"properties": {"a": {"maximum": 4}}}, "a"),
        ({"properties": {"a": {"enum": [1]}}}, {"properties": {"a": {"enum": [1, 2]}}}, "a"),
        ({"properties": {"a": {"items": {"type": "string"}}}}, {"properties": {"a": {}}}, "a[]"),
    ],
)
def test_a_json_schema_that_refuses_what_the_old_one_allowed_names_the_field(new, old, field):
    new, old = ({"type": "object", **each} for each in (new, old))
    assert any(p.startswith(f"field {field} ") for p in json_schema.problems(json.dumps(new), json.dumps(old)))
    assert json_schema.problems(json.dumps(old), json.dumps(old)) == []


def test_a_json_schema_that_allows_more_is_compatible():
    old = {"type": "object", "additionalProperties": False, "required": ["a"], "properties": {"a": {"type": "integer"}}}
    new = {**old, "required": [], "properties": {"a": {"type": ["number", "null"]}, "b": {"type": "string"}}}
    assert json_schema.problems(json.dumps(new), json.dumps(old)) == []
