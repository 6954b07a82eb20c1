"""The schema of a table that a query writes as files, as its checkpoint keeps it, and what another schema would change. Pure.

Each batch is files of its own, so nothing but the reader compares them. A column of two types cannot be read. A column that only new files have
is seen with Spark's option mergeSchema alone."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class QueryTable:
    """The table of a query: its folder, the schema of its rows in this run, and whether the folder exists."""

    path: str
    schema: Any
    exists: bool


@dataclass(frozen=True)
class Changes:
    """What a new schema changes. `retyped`: a column's path, its old type and its new one; `added`, `removed`: names of columns."""

    retyped: tuple[tuple[str, str, str], ...]
    added: tuple[str, ...]
    removed: tuple[str, ...]


def changes(old: Any, new: Any) -> Changes:
    """Return what the StructType `new` changes in a table with the StructType `old`. Spark compares names in any case, and nulls do not matter."""
    before, after = _by_name(old), _by_name(new)
    retyped = [found for name in after if name in before for found in _retyped(name, before[name], after[name])]
    return Changes(
        tuple(retyped),
        tuple(name for name in after if name not in before),
        tuple(name for name in before if name not in after),
    )


def in_a_sentence(found: Changes) -> str:
    """Return what has changed: the types if one has, otherwise the names."""
    if found.retyped:
        return " and ".join(f"column {path!r} is {new} now and was {old}" for path, old, new in found.retyped)
    parts = [
        f"{verb} {', '.join(map(repr, names))}"
        for verb, names in (("adds", found.added), ("leaves out", found.removed))
        if names
    ]
    return f"the schema {' and '.join(parts)}"


def together(old: Any, new: Any) -> Any:
    """Return the StructType of a table that has files of both schemas, which have no retyped column."""
    from pyspark.sql.types import StructField, StructType

    before = {field.name.lower(): field for field in old.fields}
    after = {field.name.lower(): field for field in new.fields}
    fields = [*old.fields, *(field for name, field in after.items() if name not in before)]
    return StructType(
        [
            StructField(field.name, _both(field.dataType, after[field.name.lower()].dataType), True)
            if field.name.lower() in after
            else field
            for field in fields
        ]
    )


def kept_schema(kept: Mapping[str, Any] | None, rows: str | None, table: QueryTable) -> Any:
    """Return the StructType of what is in the table; None if nothing is known, or there is no such table yet.

    `kept`: what a checkpoint keeps of its table. `rows`: the schema of the last run, from a checkpoint that keeps nothing of a table."""
    from pyspark.errors import PySparkException
    from pyspark.sql.types import DataType, StructType

    if not table.exists or (kept is not None and kept.get("path") != table.path):
        return None
    if kept is not None:
        return StructType.fromJson(json.loads(kept["schema"]))
    if rows is None:
        return None
    try:
        found = DataType.fromDDL(rows)
    except PySparkException:  # a name that DDL wants in quotes
        return None
    return found if isinstance(found, StructType) else None


def to_keep(schema: Any, table: QueryTable) -> dict[str, str]:
    """Return what a checkpoint keeps of its table."""
    return {"path": table.path, "schema": schema.json()}


def _both(old: Any, new: Any) -> Any:
    from pyspark.sql.types import StructType

    return together(old, new) if isinstance(old, StructType) else new


def _by_name(struct: Any) -> dict[str, Any]:
    return {field.name.lower(): field.dataType for field in struct.fields}


def _retyped(path: str, old: Any, new: Any) -> Iterator[tuple[str, str, str]]:
    if old.typeName() == new.typeName() == "struct":
        before, after = _by_name(old), _by_name(new)
        for name in after:
            if name in before:
                yield from _retyped(f"{path}.{name}", before[name], after[name])
    elif old.simpleString() != new.simpleString():
        yield path, old.simpleString(), new.simpleString()
