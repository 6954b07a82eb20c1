"""Records of topics as `Record`, the input of windows: key and value deserialised, topic, partition, offset and headers as context."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from streamactors.dsl.flow import Flow
from streamactors.dsl.sink import Sink
from streamactors.dsl.source import Source
from streamactors.engine.user_code import blame
from streamactors.errors import BuildError
from streamactors.kafka.controls.control import Control
from streamactors.kafka.dead_letters import DeadLetter, Err, dead_letters_of
from streamactors.kafka.producer import Producer
from streamactors.kafka.record import ConsumerRecord
from streamactors.kafka.serdes.serdes import reading_serde
from streamactors.kafka.serdes.topic_types import TopicTypes, told
from streamactors.kafka.settings import ConsumerSettings
from streamactors.stages.checks import plain_function
from streamactors.windows.record import Record, RecordContext


def records(
    name: str,
    source: Source[ConsumerRecord, Control],
    settings: ConsumerSettings,
    *,
    key: Any,
    value: Any,
    timestamp: Callable[[Record], int] | None,
    dead_letters: Any,
    errors: str = "fail",
) -> Source[Record, Control]:
    """Return `source` with its records deserialised; see Consumer.records."""
    keys, values = reading_serde(f"{name}: key", key), reading_serde(f"{name}: value", value)
    by_topic: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {}
    time_of = None if timestamp is None else plain_function(f"{name}: timestamp", timestamp)
    letters = dead_letters_of(name, dead_letters)
    if errors not in ("fail", "emit"):
        raise BuildError(f"{name}: errors must be 'fail' or 'emit', got {errors!r}")
    if errors == "emit" and letters is not None:
        raise BuildError(f"{name}: errors='emit' and dead_letters: a bad record becomes one or the other")

    fails = errors == "fail" and letters is None

    def read(found: ConsumerRecord) -> Record:
        message = found.message  # its own getters: a record's properties would cost as much as all the rest
        raw_key, raw_value = message.key(), found.value
        has_time, timestamp = message.timestamp()
        headers = message.headers()
        topic = message.topic()
        functions = by_topic.get(topic)
        if functions is None:
            functions = by_topic[topic] = (
                keys.for_topic(topic, is_key=True).deserialize,
                values.for_topic(topic, is_key=False).deserialize,
            )
        key_of, value_of = functions
        try:
            record = Record(
                None if raw_key is None else key_of(raw_key),
                None if raw_value is None else value_of(raw_value),
                timestamp if has_time else 0,
                RecordContext(topic, message.partition(), message.offset(), tuple(headers) if headers else ()),
            )
        except json.JSONDecodeError as error:
            raise blame(_not_json(error, found, key_of) if fails else error, name, found, read) from None
        except Exception as error:
            blame(error, name, found, read)  # the stage is a map, which the user did not write
            raise
        try:
            return record if time_of is None else record.replace(timestamp=time_of(record))
        except Exception as error:
            blame(error, name, found, read)
            raise

    types = TopicTypes("receive", None, key, value)
    if errors == "emit":

        def read_or_emit(found: ConsumerRecord) -> Any:
            try:
                return read(found)
            except Exception as error:  # noqa: BLE001  # becomes an element
                return Err(found, blame(error, name, found), name)

        return source.map(told(read_or_emit, types))
    if letters is None:
        return source.map(told(read, types))

    def read_or_bury(found: ConsumerRecord) -> Record | DeadLetter:
        try:
            return read(found)
        except Exception as error:  # noqa: BLE001  # becomes a dead letter
            return DeadLetter(found, blame(error, name, found), name)

    topic = letters.topic
    burial: Sink[DeadLetter, Any] = (
        Flow.of(DeadLetter)
        .map(told(lambda letter: letter.to_record(topic), TopicTypes("send", topic, "bytes", "bytes", "dead letters")))
        .to(Producer.plain_sink(letters.settings(settings)))
    )
    read_source: Source[Any, Control] = source.map(told(read_or_bury, types))
    return read_source.divert_to(burial, lambda element: type(element) is DeadLetter)


def _not_json(error: json.JSONDecodeError, found: ConsumerRecord, key_of: Callable[..., Any]) -> json.JSONDecodeError:
    """Return the error of a record that fails the stream: it names the record, and the ways to go on without it."""
    which = "value"
    try:
        if found.key is not None:
            key_of(found.key)
    except ValueError:
        which = "key"
    where = f"{found.topic}-{found.partition}@{found.offset}"
    told = f"{where}: the {which} is not JSON; give dead_letters= or errors='emit' to continue without such records: {error.msg}"
    return json.JSONDecodeError(told, error.doc, error.pos)
