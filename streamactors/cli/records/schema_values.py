"""`--value` and `--registry` of consume and produce: values with a schema in a registry, shown and given as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeAlias

import click

from streamactors.cli.profiles.chosen import used_profile

ReadValue: TypeAlias = Callable[[bytes | None], bytes | None]
WriteValue: TypeAlias = Callable[[bytes, int], bytes]


def value_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options to a command."""
    registry = click.option(
        "--registry",
        metavar="URL",
        help="The schema registry of --value avro and json-schema.  [default: that of the profile]",
    )
    kinds = click.Choice(["bytes", "avro", "json-schema"])
    value = click.option("--value", type=kinds, default="bytes", show_default=True, help="What the values are.")
    return value(registry(command))


def _serde(topic: str, kind: str, registry: str | None) -> Any:
    from streamactors.kafka.serdes.registry_serdes import AvroSerde, JsonSchemaSerde

    profile = used_profile()
    if registry is None and profile is not None:
        registry = profile.registry
    if registry is None:
        raise click.UsageError(f"--value {kind} needs --registry URL, as in --registry http://localhost:8081")
    serde = AvroSerde(registry) if kind == "avro" else JsonSchemaSerde(registry)
    return serde.for_topic(topic, is_key=False)


def value_reader(topic: str, kind: str, registry: str | None) -> ReadValue:
    """Return the function from the bytes of a value to the JSON that is shown."""
    if kind == "bytes":
        return lambda data: data
    serde = _serde(topic, kind, registry)

    def read(data: bytes | None) -> bytes | None:
        if data is None:
            return None
        try:
            return json.dumps(serde.deserialize(data), default=str).encode()
        except Exception as error:  # noqa: BLE001  # fastavro, the registry client and jsonschema have their own
            raise click.ClickException(f"a value of {topic} cannot be read as {kind}: {error}") from None

    return read


def value_writer(topic: str, kind: str, registry: str | None) -> WriteValue:
    """Return the function from a line of JSON and its number to the bytes of a value, by the latest schema of the topic."""
    if kind == "bytes":
        return lambda line, _: line
    serde = _serde(topic, kind, registry)

    def write(line: bytes, number: int) -> bytes:
        try:
            data: bytes = serde.serialize(json.loads(line))
        except Exception as error:  # noqa: BLE001  # fastavro, the registry client and jsonschema have their own
            raise click.ClickException(f"line {number} cannot be written as {kind}: {error}") from None
        return data

    return write
