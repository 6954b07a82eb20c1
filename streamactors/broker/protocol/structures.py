"""What a schema is: the fields of a message of one version, and of the structs within it.

Owner: `schema.py` makes schemas of kio's classes, `newer_messages.py` those that kio does not have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal

Direction = Literal["request", "response"]

NUMBERS: Final = {
    "int8": "b",
    "int16": "h",
    "int32": "i",
    "int64": "q",
    "uint16": "H",
    "uint32": "I",
    "float64": "d",
    "bool": "?",
}
"""The types of a fixed size, with their codes in `struct`."""

_ZERO: Final[dict[str, Any]] = {"string": "", "bytes": b"", "bool": False, "uuid": None, "float64": 0.0}
NO_DEFAULT: Final = object()


@dataclass(frozen=True, slots=True)
class FieldSchema:
    """One field of a struct. `type` is a primitive's name or the schema of a nested struct."""

    name: str
    type: str | StructSchema
    is_array: bool
    nullable: bool
    tag: int | None
    default: Any

    @property
    def implicit_default(self) -> Any:
        """Kafka's value of the field if a version or a sender leaves it out."""
        if self.default is not NO_DEFAULT:
            return self.default
        if self.is_array:
            return None if self.nullable else ()
        if isinstance(self.type, StructSchema):
            return None if self.nullable else {}
        return _ZERO.get(self.type, 0)


@dataclass(frozen=True, slots=True, eq=False)
class StructSchema:
    """A message of one version, or a struct within it."""

    name: str
    flexible: bool
    fields: tuple[FieldSchema, ...]
