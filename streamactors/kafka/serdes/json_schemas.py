"""JSON Schemas of the classes that serdes take: pydantic models, msgspec structs and dataclasses.

pydantic and msgspec describe their own classes. A dataclass is described here, by the types of its fields, as `typed_records` reads and writes
them. Schemas of classes go to `components`, and refer to each other by `#/components/schemas/<name>`."""

from __future__ import annotations

import dataclasses
import importlib
import types
import typing
from collections.abc import Collection, Mapping, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum
from typing import Any, Final, Literal, Union, get_args, get_origin
from uuid import UUID

from streamactors.errors import BuildError
from streamactors.kafka.serdes.typed_records import hints_of

Schema = dict[str, Any]

_REF: Final = "#/components/schemas/"
_PLAIN: Final[Mapping[Any, Schema]] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    bool: {"type": "boolean"},
    float: {"type": "number"},
    types.NoneType: {"type": "null"},
    datetime: {"type": "string", "format": "date-time"},
    date: {"type": "string", "format": "date"},
    time: {"type": "string", "format": "time"},
    Decimal: {"type": "string", "format": "decimal"},
    UUID: {"type": "string", "format": "uuid"},
    bytes: {"type": "string", "contentEncoding": "base64"},
    Any: {},
    object: {},
}


class Schemas:
    """The schemas of one document. `components`: by name."""

    def __init__(self) -> None:
        self.components: dict[str, Schema] = {}
        self._classes: dict[str, Any] = {}

    def of_class(self, kind: type) -> Schema | None:
        """Return a reference to the schema of a class; None for a class that has none. Raises BuildError if two classes have one name."""
        if hasattr(kind, "__pydantic_validator__"):
            adapter = importlib.import_module("pydantic").TypeAdapter(kind)
            whole = adapter.json_schema(ref_template=_REF + "{model}")
            return self._with_parts(kind, whole, whole.pop("$defs", {}))
        if hasattr(kind, "__struct_fields__"):
            describe = importlib.import_module("msgspec").json.schema_components
            (schema,), parts = describe([kind], ref_template=_REF + "{name}")
            parts = dict(parts)
            own = parts.pop(schema["$ref"].removeprefix(_REF), schema) if "$ref" in schema else schema
            return self._with_parts(kind, own, parts)
        if dataclasses.is_dataclass(kind):
            return self._dataclass(kind)
        return None

    def _with_parts(self, kind: type, own: Schema, parts: Mapping[str, Schema]) -> Schema:
        for name, part in parts.items():
            if self.components.setdefault(name, part) != part:
                raise _two(name, kind, self._classes.get(name))
        self._keep(kind)
        if set(own) == {"$ref"}:  # a model that names itself
            return own
        self.components[kind.__name__] = own
        return {"$ref": _REF + kind.__name__}

    def _keep(self, kind: type) -> bool:
        """Register a class; True if it is new."""
        known = self._classes.setdefault(kind.__name__, kind)
        if (known.__module__, known.__qualname__) != (kind.__module__, kind.__qualname__):
            raise _two(kind.__name__, kind, known)
        return kind.__name__ not in self.components

    def _dataclass(self, kind: type) -> Schema:
        if self._keep(kind):
            schema: Schema = {"type": "object", "title": kind.__name__, "properties": {}, "required": []}
            self.components[kind.__name__] = schema  # before its fields, which may name it
            hints = hints_of(kind)
            for field in dataclasses.fields(kind):
                described = self._of_hint(hints[field.name], f"{kind.__qualname__}.{field.name}")
                plain = isinstance(field.default, str | int | float | bool | None)
                if field.default is not dataclasses.MISSING and plain and "$ref" not in described:
                    described = {**described, "default": field.default}
                schema["properties"][field.name] = described
                if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
                    schema["required"].append(field.name)
            doc = kind.__doc__
            if doc and not doc.startswith(f"{kind.__name__}("):  # else dataclasses wrote it
                schema["description"] = " ".join(doc.split())
        return {"$ref": _REF + kind.__name__}

    def _of_hint(self, hint: Any, where: str) -> Schema:
        if isinstance(hint, type) and dataclasses.is_dataclass(hint):
            return self._dataclass(hint)
        if isinstance(hint, type) and issubclass(hint, Enum):
            return {"title": hint.__name__, "enum": [each.value for each in hint]}
        origin, arguments = get_origin(hint), get_args(hint)
        if origin is typing.Annotated:
            return self._of_hint(arguments[0], where)
        if origin in (Union, types.UnionType):
            return {"anyOf": [self._of_hint(each, where) for each in arguments]}
        if origin is Literal:
            return {"enum": list(arguments)}
        if hint in _PLAIN:
            return dict(_PLAIN[hint])
        shape = origin or hint
        if shape in (dict, Mapping):
            return {"type": "object", "additionalProperties": self._of_hint((arguments or (str, Any))[1], where)}
        if shape is tuple and arguments and arguments[1:] != (...,):
            inner = [self._of_hint(each, where) for each in arguments]
            return {"type": "array", "items": inner, "minItems": len(inner), "maxItems": len(inner)}
        if shape in (list, set, frozenset, tuple, Sequence, Collection):
            return {"type": "array", "items": self._of_hint(arguments[0] if arguments else Any, where)}
        raise BuildError(f"{where}: a {hint!r} has no JSON schema; use a pydantic model or a msgspec struct")


def _two(name: str, one: Any, other: Any) -> BuildError:
    return BuildError(
        f"asyncapi: two classes are called {name} ({one!r} and {other!r}), and a document has one schema of a name; rename one"
    )
