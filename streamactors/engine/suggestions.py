"""Suggestions for attributes and operators that a class does not have, and that users try: the error says what to write instead.

Type checkers do not see these methods, or they would accept every attribute."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final, NoReturn

FUTURE_NAMES: Final = ("result", "exception", "done", "cancel", "add_done_callback")
"""What users ask of a value that they expect to be a future."""


def not_there(value: object, name: str, suggestion: str | None) -> AttributeError:
    """Return the error for an attribute that `value` does not have."""
    kind = type(value).__name__
    text = f"{kind!r} object has no attribute {name!r}"
    return AttributeError(f"{text}: {suggestion}" if suggestion else text, name=name, obj=value)


class Suggestions:
    """Mix-in. `_suggestions`: what to write instead of an attribute, by its name."""

    __slots__ = ()
    _suggestions: ClassVar[Mapping[str, str]] = {}

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            raise not_there(self, name, type(self)._suggestions.get(name))


def refusing(symbol: str, suggestion: str) -> Callable[..., NoReturn]:
    """Return a special method that raises TypeError: `symbol` does not work on such a value."""

    def refuse(self: Any, *_: Any) -> NoReturn:
        raise TypeError(f"{symbol} does not work on a {type(self).__name__}: {suggestion}")

    return refuse
