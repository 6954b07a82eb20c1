"""Serializers and deserializers of confluent-kafka (Avro, Protobuf, JSON schema): they are called with the topic and the field."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from confluent_kafka.serialization import Deserializer, MessageField, SerializationContext, Serializer

from streamactors.errors import BuildError

_READING: Final = ("subject.name.strategy", "use.latest.version", "use.latest.with.metadata", "validate")


def needs_topic(function: Any) -> bool:
    """Return whether a function is one of confluent-kafka's, which derives the schema's subject from the topic."""
    return isinstance(function, (Serializer, Deserializer))


def context_of(topic: str, is_key: bool) -> Any:
    """Return the second argument of such a function."""
    return SerializationContext(topic, MessageField.KEY if is_key else MessageField.VALUE)


def registry_client(where: str, registry: Any) -> Any:
    """Return a client of a schema registry: by an address, by a dict of its settings, or as it is given."""
    module = _extra(where, "confluent_kafka.schema_registry")
    if isinstance(registry, module.SchemaRegistryClient):
        return registry
    if isinstance(registry, str) and registry.startswith(("http://", "https://")):
        return module.SchemaRegistryClient({"url": registry})
    if isinstance(registry, Mapping) and "url" in registry:
        return module.SchemaRegistryClient(dict(registry))
    raise BuildError(
        f"{where}: registry must be an address (http://…), a dict of settings with 'url', or a SchemaRegistryClient, got {registry!r}"
    )


def schema_text(where: str, schema: Any) -> str | None:
    """Return a schema as JSON text, from a string or from what JSON describes. None: no schema."""
    if schema is None or isinstance(schema, str):
        return schema
    if isinstance(schema, (dict, list)):
        return json.dumps(schema)
    raise BuildError(f"{where}: schema must be a string, a dict or a list, got {type(schema).__name__}")


def avro_functions(
    registry: Any, schema: Any, to_dict: Any, from_dict: Any, settings: Mapping[str, Any]
) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Return the functions to and from Avro."""
    module = _extra("AvroSerde", "confluent_kafka.schema_registry.avro")
    client, text = registry_client("AvroSerde", registry), schema_text("AvroSerde", schema)
    writing = _writing(settings, text)
    return _made(
        "AvroSerde",
        lambda: module.AvroSerializer(client, text, _with_context(to_dict), writing),
        lambda: module.AvroDeserializer(client, text, _with_context(from_dict), conf=_reading(settings)),
    )


def json_functions(
    registry: Any, schema: Any, to_dict: Any, from_dict: Any, settings: Mapping[str, Any]
) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Return the functions to and from JSON with a schema."""
    module = _extra("JsonSchemaSerde", "confluent_kafka.schema_registry.json_schema")
    client, text = registry_client("JsonSchemaSerde", registry), schema_text("JsonSchemaSerde", schema)
    writing = _writing(settings, text)
    return _made(
        "JsonSchemaSerde",
        lambda: module.JSONSerializer(text, client, _with_context(to_dict), writing),
        lambda: module.JSONDeserializer(text, _with_context(from_dict), client, _reading(settings)),
    )


def protobuf_functions(
    registry: Any, message: Any, settings: Mapping[str, Any]
) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Return the functions to and from messages of a Protobuf class."""
    module = _extra("ProtobufSerde", "confluent_kafka.schema_registry.protobuf")
    if not hasattr(message, "DESCRIPTOR"):
        raise BuildError(f"ProtobufSerde: message must be a class that protoc has made, got {message!r}")
    client = registry_client("ProtobufSerde", registry)
    return _made(
        "ProtobufSerde",
        lambda: module.ProtobufSerializer(message, client, dict(settings)),
        lambda: module.ProtobufDeserializer(message, _reading(settings), client),
    )


def _extra(where: str, name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise BuildError(f"{where} needs the extra schemas: pip install 'streamactors[schemas]' ({error})") from None


def _made(where: str, *functions: Callable[[], Any]) -> tuple[Any, Any]:
    try:
        writer, reader = (make() for make in functions)
    except (ValueError, TypeError) as error:
        raise BuildError(f"{where}: {error}") from None
    return writer, reader


def _writing(settings: Mapping[str, Any], text: str | None) -> dict[str, Any]:
    """Without a schema values are written by the latest version of the subject."""
    latest = {"auto.register.schemas": False, "use.latest.version": True} if text is None else {}
    return {**latest, **settings}


def _reading(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return those settings that deserializers know, too."""
    return {name: value for name, value in settings.items() if name.startswith(_READING) and "strict" not in name}


def _with_context(function: Callable[[Any], Any] | None) -> Callable[[Any, Any], Any] | None:
    return None if function is None else lambda value, _: function(value)
