"""Serializers and deserializers of confluent-kafka (Avro, Protobuf, JSON schema): they are called with the topic and the field."""

from __future__ import annotations

from typing import Any

from confluent_kafka.serialization import Deserializer, MessageField, SerializationContext, Serializer


def needs_topic(function: Any) -> bool:
    """Return whether a function is one of confluent-kafka's, which derives the schema's subject from the topic."""
    return isinstance(function, (Serializer, Deserializer))


def context_of(topic: str, is_key: bool) -> Any:
    """Return what such a function is called with beside the value."""
    return SerializationContext(topic, MessageField.KEY if is_key else MessageField.VALUE)
