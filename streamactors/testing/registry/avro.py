"""Whether a reader with one Avro schema reads what another has written: the rules of Avro's schema resolution, each problem with its field."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

_PROMOTED: Final = {
    "int": {"long", "float", "double"},
    "long": {"float", "double"},
    "float": {"double"},
    "string": {"bytes"},
    "bytes": {"string"},
}
_NAMED: Final = ("record", "error", "enum", "fixed")
Names = dict[str, Any]


def names_of(schema: Any, names: Names | None = None, namespace: str = "") -> Names:
    """Return the named types in a schema, by full name and by short name."""
    found: Names = {} if names is None else names
    if isinstance(schema, list):
        for branch in schema:
            names_of(branch, found, namespace)
    elif isinstance(schema, dict):
        kind = schema.get("type")
        if kind in _NAMED:
            namespace = schema.get("namespace", namespace)
            name = schema["name"]
            found[name] = schema
            found.setdefault(f"{namespace}.{name}" if namespace and "." not in name else name, schema)
            found.setdefault(name.rpartition(".")[2], schema)
        for part in ("items", "values"):
            names_of(schema.get(part), found, namespace)
        for field in schema.get("fields", ()):
            names_of(field["type"], found, namespace)
        if isinstance(kind, (dict, list)):
            names_of(kind, found, namespace)
    return found


def problems(reader: str, writer: str) -> list[str]:
    """Return why `reader` cannot read what `writer` has written; nothing when it can. Both are schemas as strings."""
    new, old = json.loads(reader), json.loads(writer)
    return list(_Check(names_of(new), names_of(old)).compare(new, old, ""))


class _Check:
    def __init__(self, readers: Names, writers: Names) -> None:
        self._readers = readers
        self._writers = writers
        self._seen: set[tuple[int, int]] = set()

    def compare(self, reader: Any, writer: Any, at: str) -> Iterator[str]:
        reader, writer = _resolved(reader, self._readers), _resolved(writer, self._writers)
        if isinstance(writer, list):
            for branch in writer:
                yield from self.compare(reader, branch, at)
            return
        if isinstance(reader, list):
            tried = [list(self.compare(branch, writer, at)) for branch in reader]
            if all(tried):
                yield f"{_field(at)} has type {_kind(writer)} in the written data, and no branch of the reader's union takes it"
            return
        old, new = _kind(writer), _kind(reader)
        if old != new:
            if new not in _PROMOTED.get(old, ()):
                yield f"{_field(at)} has type {old} in the written data and {new} for the reader"
            return
        if (id(reader), id(writer)) in self._seen:
            return
        self._seen.add((id(reader), id(writer)))
        if new in _NAMED:
            yield from self._named(new, reader, writer, at)
        elif new == "array":
            yield from self.compare(reader["items"], writer["items"], f"{at}[]")
        elif new == "map":
            yield from self.compare(reader["values"], writer["values"], f"{at}{{}}")

    def _named(self, kind: str, reader: Any, writer: Any, at: str) -> Iterator[str]:
        names = {_short(reader["name"]), *map(_short, reader.get("aliases", ()))}
        if _short(writer["name"]) not in names:
            yield f"{_field(at)} is the {kind} {writer['name']} in the written data and {reader['name']} for the reader"
        elif kind == "enum":
            missing = [symbol for symbol in writer["symbols"] if symbol not in reader["symbols"]]
            if missing and "default" not in reader:
                yield f"{_field(at)} lacks the symbols {', '.join(missing)} of the written data, and the enum has no default"
        elif kind == "fixed":
            if reader["size"] != writer["size"]:
                yield f"{_field(at)} has {writer['size']} bytes in the written data and {reader['size']} for the reader"
        else:
            written = {field["name"]: field for field in writer["fields"]}
            for field in reader["fields"]:
                path = f"{at}.{field['name']}" if at else field["name"]
                match = next((written[n] for n in (field["name"], *field.get("aliases", ())) if n in written), None)
                if match is not None:
                    yield from self.compare(field["type"], match["type"], path)
                elif "default" not in field:
                    yield f"field {path} has no default value and is missing in the written data"


def _resolved(schema: Any, names: Names) -> Any:
    if isinstance(schema, str):
        return names.get(schema, schema)
    if isinstance(schema, dict) and isinstance(schema.get("type"), (dict, list)):
        return _resolved(schema["type"], names)
    if isinstance(schema, dict) and schema.get("type") in names:
        return names[schema["type"]]
    return schema


def _kind(schema: Any) -> str:
    kind: str = schema["type"] if isinstance(schema, dict) else schema
    return "record" if kind == "error" else kind


def _short(name: str) -> str:
    return name.rpartition(".")[2]


def _field(at: str) -> str:
    return f"field {at}" if at else "the schema"
