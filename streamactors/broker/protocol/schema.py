"""The schemas of Kafka's messages, taken from kio's generated classes; `newer_messages.py` has those that kio lacks.

Only this file imports kio. A schema is loaded on the first use of its API and version: the whole set has 1,600 modules. Names are
kio's (Kafka's in snake case), except that a duration or a point of time is an int in milliseconds with the suffix `_ms`, and an
error code is an int, so that handlers need no types of kio.

Source: Kafka's message definitions (clients/src/main/resources/common/message), from which kio is generated."""

from __future__ import annotations

import datetime
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import MISSING, Field, fields
from functools import cache
from importlib import import_module
from types import ModuleType, NoneType, UnionType
from typing import Any, Final, Union, get_args, get_origin

from streamactors.broker.protocol.api_keys import api_name
from streamactors.broker.protocol.errors import UnsupportedVersion
from streamactors.broker.protocol.newer_messages import NEWER, WHOLE
from streamactors.broker.protocol.structures import NO_DEFAULT, Direction, FieldSchema, StructSchema

_PLAIN_TYPE: Final = {
    "timedelta_i32": "int32",
    "timedelta_i64": "int64",
    "datetime_i64": "int64",
    "error_code": "int16",
    "records": "bytes",
}
_TIMES: Final = ("timedelta_i32", "timedelta_i64", "datetime_i64")


@cache
def load_struct(key: int, version: int, direction: Direction) -> StructSchema:
    """Return the schema of a message. Raises UnsupportedVersion if there is no such message."""
    whole = WHOLE.get((key, version, direction))
    if whole is not None:
        return whole
    change = NEWER.get((key, version, direction))
    if change is not None:
        return change(load_struct(key, version - 1, direction))
    return _struct_of(_message_class(_load_module(key, version, direction), direction))


@cache
def known_versions(key: int) -> tuple[int, int]:
    """Return the lowest and the highest version with a schema."""
    _load_kio()
    numbers = set(import_module("kio.schema.index").schema_name_map.get(api_name(key), ()))
    numbers |= {version for known, version, _ in (*NEWER, *WHOLE) if known == key}
    return min(numbers), max(numbers)


@cache
def newest_field(key: int, direction: Direction, struct: str, name: str) -> FieldSchema | None:
    """Return a field of a struct in its newest form, None if no version has it. Loads versions from the newest one down to the first that has it."""
    low, high = known_versions(key)
    found = (_fields(key, version, direction).get((struct, name)) for version in range(high, low - 1, -1))
    return next((each for each in found if each is not None), None)


@cache
def _fields(key: int, version: int, direction: Direction) -> dict[tuple[str, str], FieldSchema]:
    """Return the fields of one version, by struct and name."""
    found: dict[tuple[str, str], FieldSchema] = {}

    def visit(struct: StructSchema) -> None:
        for field in struct.fields:
            found[struct.name, field.name] = field
            if isinstance(field.type, StructSchema):
                visit(field.type)

    visit(load_struct(key, version, direction))
    return found


def _load_module(key: int, version: int, direction: Direction) -> ModuleType:
    name = api_name(key)
    _load_kio()
    try:
        return import_module(f"kio.schema.{name}.v{version}.{direction}")
    except ModuleNotFoundError:
        raise UnsupportedVersion(f"{name} (API key {key}): no version {version}") from None


@cache
def _load_kio() -> None:
    with _without_hypothesis(), _unfrozen_datetime():
        import_module("kio.static.primitive")


@contextmanager
def _unfrozen_datetime() -> Iterator[None]:
    # kio derives a class from `datetime`; it cannot derive one from the class that freezegun puts in its place.
    given = datetime.datetime
    datetime.datetime = next(each for each in given.__mro__ if each.__module__ == "datetime")  # type: ignore[misc, assignment]
    try:
        yield
    finally:
        datetime.datetime = given  # type: ignore[misc]


@contextmanager
def _without_hypothesis() -> Iterator[None]:
    # kio registers test strategies if hypothesis is installed, which would cost a broker 15 MB and 100 ms.
    if "hypothesis" in sys.modules:
        yield
        return
    sys.modules["hypothesis"] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules["hypothesis"]


def _message_class(module: ModuleType, direction: Direction) -> Any:
    for candidate in vars(module).values():
        if getattr(candidate, "__module__", None) == module.__name__ and candidate.__type__.name == direction:
            return candidate
    raise AssertionError(f"{module.__name__} holds no {direction}")


@cache
def _struct_of(kio_class: Any) -> StructSchema:
    return StructSchema(
        name=kio_class.__name__,
        flexible=kio_class.__flexible__,
        fields=tuple(_field_of(field) for field in fields(kio_class)),
    )


def _field_of(field: Field[Any]) -> FieldSchema:
    kafka_type = field.metadata.get("kafka_type")
    inner, is_array, nullable = _unfold(field.type)
    kind: str | StructSchema = _struct_of(inner) if kafka_type is None else _PLAIN_TYPE.get(kafka_type, kafka_type)
    is_time = kafka_type in _TIMES
    return FieldSchema(
        name=f"{field.name}_ms" if is_time else field.name,
        type=kind,
        is_array=is_array,
        nullable=nullable and not is_time and kind != "uuid",
        tag=field.metadata.get("tag"),
        default=_default_of(field, is_time),
    )


def _unfold(annotation: Any) -> tuple[Any, bool, bool]:
    """Return (element type, is an array, is nullable)."""
    nullable = False
    if get_origin(annotation) in (Union, UnionType):
        present = [argument for argument in get_args(annotation) if argument is not NoneType]
        nullable = len(present) < len(get_args(annotation))
        (annotation,) = present
    if get_origin(annotation) is tuple:
        inner = get_args(annotation)[0]
        return inner, True, nullable
    return annotation, False, nullable


def _default_of(field: Field[Any], is_time: bool) -> Any:
    default = field.default
    if default is MISSING:
        return NO_DEFAULT
    if isinstance(default, datetime.timedelta):
        return default // datetime.timedelta(milliseconds=1)
    if is_time:
        return -1  # a point of time that is null
    if field.metadata.get("kafka_type") == "error_code":
        return int(default)
    if field.metadata.get("kafka_type") is None and default is not None and not isinstance(default, tuple):
        return {}  # a nested struct with the defaults of its fields
    return default
