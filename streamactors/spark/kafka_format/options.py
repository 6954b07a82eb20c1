"""What the options of `streamactors-kafka` mean. Their names are those of Spark's own Kafka source.

    kafka.bootstrap.servers, kafka.NAME   a property of librdkafka
    subscribe | subscribePattern | assign topics | a regular expression of whole names | {"t": [0, 1]}
    where a read begins and ends          bounds.py
    maxOffsetsPerTrigger                  records of a batch            minPartitions               tasks of a batch
    includeHeaders                        true | false                  failOnDataLoss              true | false
    topic                                 where to write

Spark gives the names in lower case. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from streamactors.errors import BuildError
from streamactors.kafka.settings import ConsumerSettings
from streamactors.kafka.subscriptions import TopicPartition
from streamactors.spark.format_options import check_names, flag, number
from streamactors.spark.kafka_format.bounds import FORMAT, NAMES, Bound, as_json, ending, ends_with, starting

_READ: Final = {
    name.lower(): name
    for name in (
        "subscribe",
        "subscribePattern",
        "assign",
        *NAMES,
        "maxOffsetsPerTrigger",
        "minPartitions",
        "failOnDataLoss",
        "includeHeaders",
    )
}
_WRITE: Final = {"topic": "topic"}
_INSTEAD: Final = {
    "groupIdPrefix": "a read has no group: its positions are in the checkpoint of the query; leave the option out",
    "kafka.group.id": "a read has no group: its positions are in the checkpoint of the query; leave the option out",
    "kafka.auto.offset.reset": "give startingOffsets",
    "kafka.enable.auto.commit": "a read commits nothing: its positions are in the checkpoint of the query; leave the option out",
    "minOffsetsPerTrigger": "a batch begins with the first new record; leave the option out, and give the query an interval: "
    '.trigger(processingTime="1 minute")',
    "maxTriggerDelay": 'it belongs to minOffsetsPerTrigger; give the query an interval: .trigger(processingTime="1 minute")',
    "maxRecordsPerPartition": "give minPartitions, the least number of tasks of a batch",
}
"""Options of Spark's own source that this format does not have, and what to do."""
_SERVERS: Final = "kafka.bootstrap.servers"


class ReadOptions(NamedTuple):
    """What to read: one of `topics`, `pattern` and `partitions`; the others are empty.

    `starting`: None if no option says it. `most`: records of a batch of a stream; None: no limit. `tasks`: at least so many read a batch."""

    settings: ConsumerSettings
    topics: tuple[str, ...]
    pattern: str
    partitions: tuple[TopicPartition, ...]
    starting: Bound | None
    ending: Bound
    most: int | None
    tasks: int | None
    skip_lost: bool
    headers: bool


def read_options(options: Mapping[str, str]) -> ReadOptions:
    """Return what the options of a reader mean. Raises BuildError naming the option."""
    _refuse_sparks_own(options)
    check_names(FORMAT, options, _READ, "kafka.")
    topics, pattern, partitions = (options.get(name) for name in ("subscribe", "subscribepattern", "assign"))
    if sum(each is not None for each in (topics, pattern, partitions)) != 1:
        raise BuildError(
            f"{FORMAT}: give one of the options subscribe (topics, separated by commas), subscribePattern (a regular expression) "
            "and assign (partitions)"
        )
    named = tuple(dict.fromkeys(name.strip() for name in (topics or "").split(",") if name.strip()))
    if topics is not None and not named:
        raise BuildError(f"{FORMAT}: option subscribe has no topic")
    servers, properties = _connection(options)
    return ReadOptions(
        settings=ConsumerSettings(servers, properties=properties),
        topics=named,
        pattern="" if pattern is None else _pattern(pattern),
        partitions=() if partitions is None else _assigned(partitions),
        starting=starting(options),
        ending=ending(options),
        most=number(FORMAT, options, "maxOffsetsPerTrigger"),
        tasks=number(FORMAT, options, "minPartitions"),
        skip_lost=not flag(FORMAT, options, "failOnDataLoss", default=True),
        headers=flag(FORMAT, options, "includeHeaders", default=False),
    )


def stream_options(options: Mapping[str, str]) -> ReadOptions:
    """Return what the options of a stream mean. Raises BuildError naming the option."""
    end = ends_with(options)
    if end is not None:
        raise BuildError(
            f"{FORMAT}: option {end} is for spark.read, and this is a stream, which has no end; leave the option out, or end the query "
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


def _refuse_sparks_own(options: Mapping[str, str]) -> None:
    for name, instead in _INSTEAD.items():
        if name.lower() in options:
            raise BuildError(f"{FORMAT} has no option {name}: {instead}")


def _assigned(text: str) -> tuple[TopicPartition, ...]:
    found = as_json("assign", text, '{"topic": [0, 1]}')
    try:
        return tuple(
            sorted({TopicPartition(topic, int(number)) for topic, numbers in found.items() for number in numbers})
        )
    except (TypeError, ValueError):
        raise BuildError(f'{FORMAT}: option assign has the form {{"topic": [0, 1]}}, got {text!r}') from None


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise BuildError(
            f"{FORMAT}: option subscribePattern is not a regular expression of Python: {error}, got {text!r}"
        ) from None
    if not text:
        raise BuildError(f"{FORMAT}: option subscribePattern is empty; give a regular expression of topics")
    return text
