"""Records: instances of dataclasses, pydantic models and msgspec structs, by the names of their fields. None of the libraries is imported here."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields, is_dataclass
from functools import lru_cache
from typing import Any


def names_in(kind: Any) -> tuple[str, ...] | None:
    """Return the names of the fields of a class of records; None for another class."""
    found: tuple[str, ...] | None = _names_in(kind)
    return found


@lru_cache(1_024)
def _names_in(kind: Any) -> tuple[str, ...] | None:
    if is_dataclass(kind):
        return tuple(field.name for field in fields(kind))
    for attribute in ("__pydantic_fields__", "__struct_fields__"):  # of pydantic's models, of msgspec's structs
        found = getattr(kind, attribute, None)
        if found is not None:
            return tuple(found)
    return None


def has_fixed_names(kind: type) -> bool:
    """Return whether all instances of a class of records have the same fields. A pydantic model may allow more."""
    config = getattr(kind, "model_config", None)
    return not (isinstance(config, dict) and config.get("extra") == "allow")


def more_names(row: Any) -> Iterable[str]:
    """Return the names that a pydantic model has got beyond its fields."""
    return () if has_fixed_names(type(row)) else tuple(getattr(row, "model_extra", None) or ())
