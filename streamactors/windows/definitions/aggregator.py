"""Count, reduce and aggregate as one triple (init, add, merge), with aggregates treated as values.

Owner: one windowed operator. Kafka Streams serialises an aggregate at every step, so a change of a new aggregate never
changes an old one. Here aggregates are plain objects. So `add` and `merge` receive a copy where the old aggregate is still
in use and its type is mutable."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from streamactors.errors import BuildError
from streamactors.stages.checks import no_coroutine_function
from streamactors.windows.values import IMMUTABLE, is_unchanged, snapshot

Init = Callable[[], Any]
Add = Callable[[Any, Any], Any]
Merge = Callable[[Any, Any], Any]


class ByArrival:
    """A merge of two sessions that must get the one whose first row came first on the left. Other merges get sessions by ascending end."""

    __slots__ = ("_merge",)

    def __init__(self, merge: Merge) -> None:
        self._merge = merge

    def __call__(self, left: Any, right: Any) -> Any:
        return self._merge(left, right)


@dataclass(frozen=True, slots=True)
class Aggregator:
    """`kind` is "count", "reduce" or "aggregate"; `merge` is None where sessions cannot be merged."""

    kind: str
    init: Init
    add: Add
    merge: Merge | None


def _zero() -> int:
    return 0


def _nothing() -> None:
    return None


def _plus_one(count: int, _value: Any) -> int:
    return count + 1


def _plus(left: int, right: int) -> int:
    return left + right


def counting() -> Aggregator:
    """Rows per window; None values count too."""
    return Aggregator("count", _zero, _plus_one, _plus)


def reducing(fn: Callable[[Any, Any], Any]) -> Aggregator:
    """`fn(old, new)`; the first value is the aggregate itself."""
    _must_be_callable(fn, "reduce", "fn(old, new)")

    @functools.wraps(fn)
    def add(old: Any, new: Any) -> Any:
        return new if old is None else fn(old, new)

    return Aggregator("reduce", _nothing, add, add)


def aggregating(init: Init, add: Add, merge: Merge | None) -> Aggregator:
    """`add(aggregate, value)` onto `init()`; `merge(a, b)` joins two sessions' aggregates."""
    _must_be_callable(init, "aggregate", "init()")
    _must_be_callable(add, "aggregate", "add(aggregate, value)")
    if merge is not None:
        _must_be_callable(merge, "aggregate", "merge(a, b)")
    return Aggregator("aggregate", init, add, merge)


def _must_be_callable(fn: object, where: str, form: str) -> None:
    if not callable(fn):
        raise BuildError(f"{where}: {fn!r} is not callable; give a function of the form {form}")
    no_coroutine_function(where, fn)


def as_values(fn: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Return `fn` with a copy of the aggregate as its first argument wherever the type is mutable.

    It raises TypeError naming `fn` if it changes that copy and returns None: as with `list.append`, the user wanted to keep the aggregate, and None
    deletes it."""

    def apply(aggregate: Any, value: Any) -> Any:
        if type(aggregate) in IMMUTABLE:
            return fn(aggregate, value)
        copied = snapshot(aggregate)
        result = fn(copied, value)
        if result is None:
            refuse_lost_change(fn, copied, aggregate, value)
        return result

    return apply


def refuse_lost_change(fn: Callable[..., Any], changed: Any, before: Any, value: Any) -> None:
    """`fn` got `changed`, which was equal to `before`, with `value`, and returned None. Raises TypeError if it has changed it."""
    if not is_unchanged(changed, before):
        chosen = fn.function_of(value) if hasattr(fn, "function_of") else fn
        raise TypeError(
            f"{_named(chosen)} changed the aggregate in place and returned None, which deletes the entry; return the aggregate: "
            "`seen.append(value)` is followed by `return seen`. To delete, return None and leave the aggregate as it is"
        )


def _named(fn: Callable[..., Any]) -> str:
    """Return the name of a user's function, with file and line where it has them."""
    while hasattr(fn, "__wrapped__"):
        fn = fn.__wrapped__
    fn = getattr(fn, "func", fn)  # of a partial
    code = getattr(fn, "__code__", None)
    place = "" if code is None else f" ({code.co_filename}:{code.co_firstlineno})"
    return f"the function {getattr(fn, '__qualname__', repr(fn))}{place}"
