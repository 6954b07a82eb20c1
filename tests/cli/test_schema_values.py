"""`produce` and `consume` with `--value avro --registry URL`."""

from __future__ import annotations

import json

import pytest

from streamactors.testing import SchemaRegistry

ORDER = {"type": "record", "name": "Order", "fields": [{"name": "n", "type": "int"}]}
JSON_ORDER = {"title": "Order", "type": "object", "properties": {"n": {"type": "integer"}}}


@pytest.mark.parametrize(("kind", "schema"), [("avro", ORDER), ("json-schema", JSON_ORDER)])
def test_lines_of_json_become_values_with_a_schema_and_are_shown_again(streamactors, broker, kind, schema):
    topic = f"shown-{kind}"
    broker.create_topic(topic, partitions=1)
    with SchemaRegistry() as registry:
        stored = {"schema": json.dumps(schema), "schemaType": "AVRO" if kind == "avro" else "JSON"}
        assert registry.answer("POST", f"/subjects/{topic}-value/versions", stored)[0] == 200
        options = ("--value", kind, "--registry", registry.url)
        ran = streamactors("produce", topic, *options, stdin=b'{"n": 1}\n{"n": 2}\n')
        assert ran.code == 0, ran.err
        ran = streamactors("consume", topic, *options, "--json")
        assert ran.code == 0, ran.err
        assert [json.loads(json.loads(line)["value"]) for line in ran.out.splitlines()] == [{"n": 1}, {"n": 2}]
        ran = streamactors("produce", topic, *options, stdin=b'{"n": "two"}\n')
        assert ran.code != 0
        assert f"line 1 cannot be written as {kind}" in ran.err


def test_a_value_with_a_schema_needs_a_registry(streamactors, broker):
    ran = streamactors("consume", "shown", "--value", "avro")
    assert ran.code != 0
    assert "--value avro needs --registry URL" in ran.err
