"""One setting: its name, type, default, limits and documentation, declared once as a typed class attribute.

Owner: the class that declares it. Names, types, defaults, limits and error texts are Apache Kafka's (its ConfigDef),
because clients and tools compare them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from enum import IntEnum
from typing import Any, Final, Generic, TypeVar, overload

from streamactors.broker.config.checks import ANYTHING, Check
from streamactors.errors import StreamActorsError

T = TypeVar("T")

INT_MAX: Final = 2**31 - 1
LONG_MAX: Final = 2**63 - 1


class SettingType(IntEnum):
    """Types as DescribeConfigs numbers them on the wire."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    PASSWORD = 9


class InvalidSetting(StreamActorsError, ValueError):
    """An unknown setting or an invalid value. `name` and `value` are as given."""

    exit_code = 2

    def __init__(self, message: str, *, name: str, value: str | None = None) -> None:
        super().__init__(message)
        self.name = name
        self.value = value


class Setting(Generic[T]):
    """A typed setting. On an instance the attribute is the value, on the class it is the declaration.

    The attribute's name is Kafka's with `_` for `.`: `num_partitions` is `num.partitions`.
    """

    def __init__(
        self, kind: SettingType, default: T, doc: str, check: Check = ANYTHING, *, dynamic: bool = False
    ) -> None:
        self.kind: Final = kind
        self.default: Final = default
        self.doc: Final = doc
        self.check: Final = check
        self.dynamic: Final = dynamic
        self.name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name.replace("_", ".")

    @overload
    def __get__(self, instance: None, owner: type) -> Setting[T]: ...
    @overload
    def __get__(self, instance: Settings, owner: type) -> T: ...
    def __get__(self, instance: Settings | None, owner: type) -> Setting[T] | T:
        if instance is None:
            return self
        value: T = instance.values.get(self.name, self.default)
        return value

    def parse(self, text: str) -> T:
        """Return the value of `text`. Raises InvalidSetting."""
        value: Any = _PARSERS[self.kind](self, text.strip())
        complaint = self.check.complaint(value)
        if complaint is not None:
            raise self.refuse(self.format(value) or "", complaint)
        parsed: T = value
        return parsed

    def format(self, value: T | None) -> str | None:
        """Return `value` as Kafka prints it; None if it is unset."""
        if value is None or self.kind is SettingType.PASSWORD:
            return None  # a secret is never printed
        if isinstance(value, bool):
            return "true" if value else "false"
        return ",".join(value) if isinstance(value, tuple) else str(value)

    def refuse(self, text: str, complaint: str) -> InvalidSetting:
        """Return the error for an invalid `text`."""
        return InvalidSetting(
            f"Invalid value {text} for configuration {self.name}: {complaint}", name=self.name, value=text
        )


class Settings:
    """Values of the settings that a class declares; others have their default. Immutable."""

    __slots__ = ("values",)

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.values: Final = values

    @classmethod
    def declared(cls) -> dict[str, Setting[Any]]:
        """Return every setting of the class by Kafka's name, in order of declaration."""
        found = cls.__dict__.get("_declared")
        if found is None:
            found = {setting.name: setting for setting in _declarations(cls)}
            cls._declared = found  # type: ignore[attr-defined]
        result: dict[str, Setting[Any]] = found
        return result


def _declarations(cls: type) -> Iterator[Setting[Any]]:
    for base in reversed(cls.__mro__):
        yield from (attribute for attribute in vars(base).values() if isinstance(attribute, Setting))


# --- text to value, by Java's rules rather than Python's: no underscores, no inner spaces, a fixed width ---

_BITS: Final = {SettingType.SHORT: 16, SettingType.INT: 32, SettingType.LONG: 64}
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,19}")
_DOUBLE: Final = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


def _boolean(setting: Setting[Any], text: str) -> bool:
    lowered = text.lower()
    if lowered not in ("true", "false"):
        raise setting.refuse(text, "Expected value to be either true or false")
    return lowered == "true"


def _integer(setting: Setting[Any], text: str) -> int:
    bound = 1 << (_BITS[setting.kind] - 1)
    if not _INTEGER.fullmatch(text) or not -bound <= int(text) < bound:
        raise setting.refuse(text, f"Not a number of type {setting.kind.name}")
    return int(text)


def _double(setting: Setting[Any], text: str) -> float:
    if not _DOUBLE.fullmatch(text):
        raise setting.refuse(text, "Not a number of type DOUBLE")
    return float(text)


def _list(_: Setting[Any], text: str) -> tuple[str, ...]:
    """Return the words of a list; a word that is there twice counts once (KIP-1161)."""
    return tuple(dict.fromkeys(part.strip() for part in text.split(","))) if text else ()


_PARSERS: Final[dict[SettingType, Callable[[Setting[Any], str], Any]]] = {
    SettingType.BOOLEAN: _boolean,
    SettingType.STRING: lambda _, text: text,
    SettingType.PASSWORD: lambda _, text: text,
    SettingType.SHORT: _integer,
    SettingType.INT: _integer,
    SettingType.LONG: _integer,
    SettingType.DOUBLE: _double,
    SettingType.LIST: _list,
}
