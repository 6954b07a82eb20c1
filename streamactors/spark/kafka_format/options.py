"""What the options of `streamactors-kafka` mean. Their names are those of Spark's own Kafka source.

    kafka.bootstrap.servers, kafka.NAME   a property of librdkafka      subscribe | assign          topics | {"t": [0, 1]}
    startingOffsets, endingOffsets        earliest | latest | {"t": {"0": 5, "1": -2}}: -2 is the earliest, -1 the latest
    maxOffsetsPerTrigger                  records of a batch            failOnDataLoss              true | false
    includeHeaders                        true | false                  topic                       where to write

Spark gives the names in lower case. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from streamactors.errors import BuildError
from streamactors.kafka.settings import ConsumerSettings
from streamactors.kafka.subscriptions import TopicPartition
from streamactors.spark.format_options import check_names, flag, number

FORMAT: Final = "streamactors-kafka"
EARLIEST: Final = -2
LATEST: Final = -1
_READ: Final = {
    name.lower(): name
    for name in (
        "subscribe",
        "assign",
        "startingOffsets",
        "endingOffsets",
        "maxOffsetsPerTrigger",
        "failOnDataLoss",
        "includeHeaders",
    )
}
_WRITE: Final = {"topic": "topic"}
_SERVERS: Final = "kafka.bootstrap.servers"

Offsets = str | Mapping[TopicPartition, int]
"""Where to begin or to end: "earliest", "latest", or an offset for each partition."""


class ReadOptions(NamedTuple):
    """What to read. `topics` or `partitions`, the other one is empty. `most`: records of a batch of a stream; None: no limit."""

    settings: ConsumerSettings
    topics: tuple[str, ...]
    partitions: tuple[TopicPartition, ...]
    starting: Offsets | None
    ending: Offsets
    most: int | None
    skip_lost: bool
    headers: bool


def read_options(options: Mapping[str, str]) -> ReadOptions:
    """Return what the options of a reader mean. Raises BuildError naming the option."""
    check_names(FORMAT, options, _READ, "kafka.")
    topics, partitions = options.get("subscribe"), options.get("assign")
    if (topics is None) == (partitions is None):
        raise BuildError(
            f"{FORMAT}: give one of the options subscribe (topics, separated by commas) and assign (partitions)"
        )
    named = tuple(dict.fromkeys(name.strip() for name in (topics or "").split(",") if name.strip()))
    if topics is not None and not named:
        raise BuildError(f"{FORMAT}: option subscribe has no topic")
    servers, properties = _connection(options)
    return ReadOptions(
        ConsumerSettings(servers, properties=properties),
        named,
        () if partitions is None else _assigned(partitions),
        _offsets("startingOffsets", options["startingoffsets"]) if "startingoffsets" in options else None,
        _ending(options.get("endingoffsets", "latest")),
        number(FORMAT, options, "maxOffsetsPerTrigger"),
        not flag(FORMAT, options, "failOnDataLoss", default=True),
        flag(FORMAT, options, "includeHeaders", default=False),
    )


def stream_options(options: Mapping[str, str]) -> ReadOptions:
    """Return what the options of a stream mean. Raises BuildError naming the option."""
    if "endingoffsets" in options:
        raise BuildError(
            f"{FORMAT}: option endingOffsets is for spark.read, and this is a stream, which has no end; leave the option out, or end the query "
            "with the records that are there: .trigger(availableNow=True)"
        )
    return read_options(options)


def write_options(options: Mapping[str, str]) -> tuple[str, dict[str, str], str | None]:
    """Return the servers, the properties and the topic of a writer. Raises BuildError naming the option."""
    check_names(FORMAT, options, _WRITE, "kafka.")
    return *_connection(options), options.get("topic")


def _connection(options: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    if not options.get(_SERVERS):
        raise BuildError(f'{FORMAT}: option {_SERVERS} is missing: .option("{_SERVERS}", "host:port")')
    own = {name.removeprefix("kafka."): value for name, value in options.items() if name.startswith("kafka.")}
    return own.pop("bootstrap.servers"), own


def _assigned(text: str) -> tuple[TopicPartition, ...]:
    found = _json("assign", text, '{"topic": [0, 1]}')
    try:
        return tuple(
            sorted({TopicPartition(topic, int(number)) for topic, numbers in found.items() for number in numbers})
        )
    except (TypeError, ValueError):
        raise BuildError(f'{FORMAT}: option assign has the form {{"topic": [0, 1]}}, got {text!r}') from None


def _ending(text: str) -> Offsets:
    found = _offsets("endingOffsets", text)
    if found == "earliest" or (not isinstance(found, str) and EARLIEST in found.values()):
        raise BuildError(
            f"{FORMAT}: option endingOffsets cannot be the earliest, for that is before any record, got {text!r}"
        )
    return found


def _offsets(name: str, text: str) -> Offsets:
    if text.lower() in ("earliest", "latest"):
        return text.lower()
    example = '"earliest", "latest" or {"topic": {"0": 5}}'
    found = _json(name, text, example)
    try:
        places = {
            TopicPartition(topic, int(number)): int(offset)
            for topic, offsets in found.items()
            for number, offset in offsets.items()
        }
    except (AttributeError, TypeError, ValueError):
        raise BuildError(f"{FORMAT}: option {name} has the form {example}, got {text!r}") from None
    for key, place in places.items():
        if place < EARLIEST:
            raise BuildError(
                f"{FORMAT}: option {name} has {place} for {key}; give an offset, {EARLIEST} (the earliest) or {LATEST} (the latest)"
            )
    return places


def _json(name: str, text: str, example: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise BuildError(f"{FORMAT}: option {name} has the form {example}, got {text!r}")
    return found
