"""AvroSerde, ProtobufSerde, JsonSchemaSerde: values with a schema in a schema registry.

The bytes, the subjects and the caches are confluent-kafka's: a magic byte, the id of the schema, the value. A value that does not fit its schema, or
a schema that the registry refuses, fails a writer with RecordError; a reader treats it as a record that cannot be read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from streamactors.kafka.client.schema_serdes import avro_functions, json_functions, protobuf_functions
from streamactors.kafka.serdes.serdes import Serde


class AvroSerde(Serde):
    """Avro. `registry`: its address, a dict of settings as confluent-kafka's client takes them, or such a client.

    `schema`: a string, or what JSON describes; None reads with the writer's schema and writes with the latest version of the subject.
    `to_dict`, `from_dict`: functions between your values and dicts. `settings`: of confluent-kafka's serializers, such as
    {"auto.register.schemas": False} or "subject.name.strategy"."""

    def __init__(
        self,
        registry: Any,
        schema: Any = None,
        *,
        to_dict: Callable[[Any], dict[str, Any]] | None = None,
        from_dict: Callable[[dict[str, Any]], Any] | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__("avro", *avro_functions(registry, schema, to_dict, from_dict, settings or {}))


class JsonSchemaSerde(Serde):
    """JSON whose values are checked against a JSON schema.

    `registry`, `schema`, `to_dict`, `from_dict` and `settings` are those of AvroSerde."""

    def __init__(
        self,
        registry: Any,
        schema: Any = None,
        *,
        to_dict: Callable[[Any], dict[str, Any]] | None = None,
        from_dict: Callable[[dict[str, Any]], Any] | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__("json-schema", *json_functions(registry, schema, to_dict, from_dict, settings or {}))


class ProtobufSerde(Serde):
    """Messages of `message`, a class that protoc has made. `registry` and `settings`: as for AvroSerde."""

    def __init__(self, registry: Any, message: Any, *, settings: Mapping[str, Any] | None = None) -> None:
        super().__init__("protobuf", *protobuf_functions(registry, message, settings or {}))
