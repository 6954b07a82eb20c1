"""The answer of a check: whether it holds, and why not. Owner: the checks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

_SHOWN: Final = 3


class Verdict:
    """True or false, with the reason of a false one."""

    __slots__ = ("why",)

    def __init__(self, why: str = "") -> None:
        self.why = why

    def __bool__(self) -> bool:
        return not self.why

    def __repr__(self) -> str:
        return f"Verdict({self.why!r})"


HOLDS: Final = Verdict()


class Keys(frozenset[Any]):
    """A set of keys. Comparing two of them says what is missing and what nobody sent."""

    __hash__ = frozenset.__hash__

    def __eq__(self, other: object) -> Any:
        if not isinstance(other, frozenset | set):
            return NotImplemented
        missing, extra = frozenset(other) - frozenset(self), frozenset(self) - frozenset(other)
        found = [f"{len(missing)} of {len(other)} missing: {some(missing)}"] if missing else []
        found += [f"{len(extra)} that were not expected: {some(extra)}"] if extra else []
        return Verdict("; ".join(found))

    def __ne__(self, other: object) -> Any:
        return frozenset.__ne__(self, other)


def some(values: Iterable[Any]) -> str:
    """Return the first few values as text, in an order that does not depend on hashes."""
    told = sorted(map(repr, values))
    return ", ".join(told[:_SHOWN]) + (", …" if len(told) > _SHOWN else "")
