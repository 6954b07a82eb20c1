"""The JSON Schema of the model: written to `schema.json` by `make docs`, served at `/api/schema`."""

from __future__ import annotations

import json
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Final, get_args, get_origin, get_type_hints

from streamactors.dashboard.model import State

FILE: Final = Path(__file__).with_name("schema.json")
_SIMPLE: Final = {str: "string", int: "integer", float: "number", bool: "boolean", NoneType: "null"}


def schema() -> dict[str, Any]:
    """Return the schema of a State, in JSON Schema's draft 2020-12."""
    known: dict[str, Any] = {}
    root = _of(State, known)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "The state of a streamactors process",
        **root,
        "$defs": dict(sorted(known.items())),
    }


def text() -> str:
    """Return the schema as the file has it."""
    return json.dumps(schema(), indent=1, ensure_ascii=False) + "\n"


def _of(kind: Any, known: dict[str, Any]) -> dict[str, Any]:
    if kind in _SIMPLE:
        return {"type": _SIMPLE[kind]}
    if get_origin(kind) is tuple:
        return {"type": "array", "items": _of(get_args(kind)[0], known)}
    if get_origin(kind) is UnionType:
        return {"anyOf": [_of(each, known) for each in get_args(kind)]}
    assert is_dataclass(kind), kind
    name = getattr(kind, "__name__", "")
    if name not in known:
        known[name] = {}  # while it is described
        hints = get_type_hints(kind)
        known[name] = {
            "type": "object",
            "description": " ".join((kind.__doc__ or "").split()),
            "properties": {each.name: _of(hints[each.name], known) for each in fields(kind)},
            "required": [each.name for each in fields(kind)],
        }
    return {"$ref": f"#/$defs/{name}"}
