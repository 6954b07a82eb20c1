"""Random bodies of requests and responses, by their schemas."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from streamactors.broker.protocol.structures import FieldSchema, StructSchema

_RANGES = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}


def _values(field: FieldSchema) -> st.SearchStrategy[Any]:
    kind: st.SearchStrategy[Any]
    if isinstance(field.type, StructSchema):
        kind = bodies(field.type)
    elif field.type in _RANGES:
        bits = _RANGES[field.type]
        kind = st.integers(-(1 << bits - 1), (1 << bits - 1) - 1)
    elif field.type.startswith("uint"):
        kind = st.integers(0, (1 << int(field.type[4:])) - 1)
    else:
        kind = {
            "string": st.text(max_size=9),
            "bytes": st.binary(max_size=9),
            "bool": st.booleans(),
            "uuid": st.uuids().filter(lambda value: value.int != 0) | st.none(),
            "float64": st.floats(allow_nan=False),
        }[field.type]
    if field.is_array:
        kind = st.lists(kind, max_size=2)
    return kind | st.none() if field.nullable and field.tag is None else kind


def bodies(struct: StructSchema) -> st.SearchStrategy[dict[str, Any]]:
    """Return bodies with every field of a schema."""
    return st.fixed_dictionaries({field.name: _values(field) for field in struct.fields})
