"""Every request and response in every version, as this package encodes it and as Apache Kafka 4.4.0 does: byte for byte the same."""

from __future__ import annotations

import random
import subprocess
import uuid
from pathlib import Path
from typing import Any

import pytest

from streamactors.broker.protocol.api_keys import NAMES
from streamactors.broker.protocol.messages import (
    decode_request,
    decode_response,
    encode_request,
    encode_response,
)
from streamactors.broker.protocol.schema import known_versions, load_struct
from streamactors.broker.protocol.structures import FieldSchema, StructSchema
from tests.differential.apache_kafka import broker as apache

pytestmark = [
    pytest.mark.differential,
    pytest.mark.slow,
    pytest.mark.skipif(not apache.found(), reason="Java or Maven is not here"),
    pytest.mark.timeout(300),
]
ECHO = Path(__file__).parent / "java_programs" / "MessageEcho.java"
BODIES = 3  # of each message: the second and the third at random
OF_THE_CLUSTER = frozenset(
    {1, 2, 3, 18, 23, 27, 52, 53, 54, 55, 56, 58, 59, 60, 62, 63, 64, 67, 70, 73, 80, 81, 82, 94}
)
WIDTHS = {"int8": 7, "int16": 15, "int32": 31, "int64": 63, "uint16": 16, "uint32": 32}


def a_body(struct: StructSchema, dice: random.Random) -> dict[str, Any]:
    return {field.name: a_value(field, dice) for field in struct.fields}


def a_value(field: FieldSchema, dice: random.Random) -> Any:
    if field.nullable and field.tag is None and dice.random() < 0.3:
        return None
    if field.is_array:
        return [one_of(field, dice) for _ in range(dice.randint(0, 2))]
    return one_of(field, dice)


def one_of(field: FieldSchema, dice: random.Random) -> Any:
    kind = field.type
    if isinstance(kind, StructSchema):
        return a_body(kind, dice)
    if kind in WIDTHS:
        return dice.getrandbits(WIDTHS[kind])
    match kind:
        case "string":
            return "".join(dice.choices("abc-.é", k=dice.randint(0, 9)))
        case "bytes":
            return dice.randbytes(dice.randint(0, 9))
        case "bool":
            return dice.random() < 0.5
        case "uuid":
            return uuid.UUID(int=dice.getrandbits(128) | 1)
    return float(dice.randint(-(2**40), 2**40))


def plain(value: Any, struct: StructSchema) -> dict[str, Any]:
    """Return a decoded message as a body to encode."""

    def one(item: Any, field: FieldSchema) -> Any:
        return plain(item, field.type) if isinstance(field.type, StructSchema) and item is not None else item

    return {
        field.name: [one(each, field) for each in found]
        if field.is_array and (found := getattr(value, field.name)) is not None
        else one(getattr(value, field.name), field)
        for field in struct.fields
    }


def test_every_message_in_every_version_is_apache_kafkas_to_the_byte() -> None:
    echo = subprocess.Popen(
        ["java", "-XX:TieredStopAtLevel=1", "-cp", apache.classpath(), str(ECHO)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert echo.stdin is not None
    assert echo.stdout is not None
    same: set[tuple[int, int, str]] = set()
    differing = {}
    try:
        for key in sorted(NAMES):
            for version in range(known_versions(key)[0], known_versions(key)[1] + 1):
                for direction in ("request", "response"):
                    struct = load_struct(key, version, direction)
                    encode = encode_request if direction == "request" else encode_response
                    decode = decode_request if direction == "request" else decode_response
                    for number in range(BODIES):
                        body = a_body(struct, random.Random(f"{key} {version} {direction} {number}"))
                        given = encode(key, version, body)
                        echo.stdin.write(f"{key} {version} {direction} {given.hex()}\n")
                        echo.stdin.flush()
                        told = echo.stdout.readline().strip()
                        if told == "none":
                            break
                        if told != given.hex():
                            differing[NAMES[key], version, direction] = (body, given.hex(), told)
                        else:
                            again = encode(key, version, plain(decode(key, version, memoryview(given)), struct))
                            assert again == given, (NAMES[key], version, direction)
                            same.add((key, version, direction))
    finally:
        echo.kill()
        echo.communicate()
    assert {name: told for name, (_, _, told) in differing.items()} == {}
    of_the_cluster = [each for each in same if each[0] in OF_THE_CLUSTER]
    assert len(of_the_cluster) >= 159, len(of_the_cluster)
    assert len(same) > 500, len(same)
