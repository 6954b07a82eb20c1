"""Whether every value that one JSON schema allows is allowed by another one: each problem with its field.

An object without `additionalProperties: false` is open: it may already have written any property, so a property that is added with a type is a
problem. Keywords that are not compared (`not`, `if`, `patternProperties`, `$ref` to other documents) must be equal."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

_LARGEST: Final = ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties")
_SMALLEST: Final = ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties")
_EQUAL: Final = ("pattern", "multipleOf", "format", "const", "not", "if", "then", "else", "patternProperties", "allOf")
_LISTS: Final = ("anyOf", "oneOf")


def problems(reader: str, writer: str) -> list[str]:
    """Return why `reader` refuses values that `writer` allows; nothing when it allows all. Both are schemas as strings."""
    new, old = json.loads(reader), json.loads(writer)
    return list(_Check(new, old).compare(new, old, ""))


class _Check:
    def __init__(self, reader: Any, writer: Any) -> None:
        self._roots = (reader, writer)
        self._seen: set[tuple[int, int]] = set()

    def compare(self, new: Any, old: Any, at: str) -> Iterator[str]:
        new, old = self._resolved(new, 0), self._resolved(old, 1)
        if new in (True, {}) or new == old or old is False:
            return
        if new is False:
            yield f"{_field(at)} allows no value any more"
            return
        old = {} if old is True else old
        if (id(new), id(old)) in self._seen:
            return
        self._seen.add((id(new), id(old)))
        allowed, had = _types(new), _types(old)
        if allowed is not None and (had is None or not all(kind in allowed or _number(kind, allowed) for kind in had)):
            yield f"{_field(at)} had type {_named(had)} and has {_named(allowed)} now"
            return
        yield from self._limits(new, old, at)
        yield from self._object(new, old, at)
        if "items" in new:
            yield from self.compare(new["items"], old.get("items", True), f"{at}[]")

    def _limits(self, new: Any, old: Any, at: str) -> Iterator[str]:
        if "enum" in new:
            gone = [value for value in old.get("enum", ("any other value",)) if value not in new["enum"]]
            if gone:
                yield f"{_field(at)} does not allow {', '.join(map(str, gone))} any more"
        for name in (*_LARGEST, *_SMALLEST):
            if name not in new:
                continue
            now, before = new[name], old.get(name)
            if before is None or (now < before if name in _LARGEST else now > before):
                yield f"{_field(at)} has {name} {now} and had {'none' if before is None else before}"
        for name in _EQUAL:
            if name in new and new[name] != old.get(name):
                yield f"{_field(at)} has another {name}"
        for name in _LISTS:
            if name in new and not all(branch in new[name] for branch in old.get(name, [old])):
                yield f"{_field(at)} lost a branch of {name}"

    def _object(self, new: Any, old: Any, at: str) -> Iterator[str]:
        now, before = new.get("properties", {}), old.get("properties", {})
        closed_now, closed_before = new.get("additionalProperties") is False, old.get("additionalProperties") is False
        if closed_now and not closed_before:
            yield f"{_field(at)} does not allow additional properties any more"
        for name in sorted(before.keys() | now.keys()):
            path = f"{at}.{name}" if at else name
            if name in before and name in now:
                yield from self.compare(now[name], before[name], path)
            elif name in before and closed_now:
                yield f"field {path} was removed, and no additional properties are allowed"
            elif name in now and not closed_before and now[name] not in (True, {}):
                yield f"field {path} was added, and values with another {name} may have been written before"
        for name in sorted(set(new.get("required", ())) - set(old.get("required", ()))):
            if "default" not in (now.get(name) if isinstance(now.get(name), dict) else {}):
                yield f"field {at}.{name} is required now" if at else f"field {name} is required now"

    def _resolved(self, schema: Any, which: int) -> Any:
        place = schema.get("$ref", "") if isinstance(schema, dict) else ""
        if not place.startswith("#/"):
            return schema
        found = self._roots[which]
        for step in place[2:].split("/"):
            found = found.get(step, {}) if isinstance(found, dict) else {}
        return found


def _types(schema: Any) -> list[str] | None:
    kind = schema.get("type")
    return None if kind is None else [kind] if isinstance(kind, str) else list(kind)


def _number(kind: str, allowed: list[str]) -> bool:
    return kind == "integer" and "number" in allowed


def _named(kinds: list[str] | None) -> str:
    return "any" if kinds is None else "/".join(kinds)


def _field(at: str) -> str:
    return f"field {at}" if at else "the schema"
