"""How RxPY's operators treat marks, so that an Rx pipeline in a stream need not be opaque.

An operator is recognised by the function that RxPY curried. Those in the tables hold nothing. Those that hold elements, or take inner
observables, are followed where that can be done (holding.py); a pipeline with another one is opaque unless the user passes `holds=False`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from streamactors.engine.marks.marks import EXACT, EXACT_MEMORY, OPAQUE, Handling
from streamactors.stages.rx.holding import Arguments, Held, held_by

Found = Held | Callable[..., Any]
"""An operator with its gate, or one that needs none."""

FORGETFUL: Final = frozenset(
    [
        "as_observable",
        "cast",
        "dematerialize",
        "do",
        "do_action",
        "do_after_next",
        "do_after_terminate",
        "do_finally",
        "do_on_dispose",
        "do_on_subscribe",
        "do_on_terminate",
        "filter",
        "finally_action",
        "ignore_elements",
        "map",
        "materialize",
        "pluck",
        "pluck_attr",
        "starmap",
        "tap",
        "timestamp",
        "to_marbles",
    ]
)
"""Each result comes at once, from one element alone."""

REMEMBERING: Final = frozenset(
    [
        "all",
        "contains",
        "default_if_empty",
        "distinct",
        "distinct_until_changed",
        "element_at",
        "element_at_or_default",
        "filter_indexed",
        "find",
        "find_index",
        "find_value",
        "first",
        "first_or_default",
        "first_or_default_async",
        "is_empty",
        "map_indexed",
        "pairwise",
        "scan",
        "skip",
        "skip_while",
        "skip_while_indexed",
        "slice",
        "some",
        "start_with",
        "starmap_indexed",
        "take",
        "take_while",
        "take_while_indexed",
        "throttle_first",
        "time_interval",
        "zip_with_iterable",
        "zip_with_list",
    ]
)
"""Results come at once, but depend on earlier elements."""


SUBSCRIBING: Final = frozenset(
    [
        "catch",
        "concat_map",
        "exclusive",
        "expand",
        "flat_map",
        "flat_map_indexed",
        "flat_map_latest",
        "merge",
        "merge_all",
        "switch_latest",
        "switch_map",
        "switch_map_indexed",
    ]
)
"""Subscribes to an observable when an element, or the end, comes."""


def subscribes(operators: tuple[Callable[..., Any], ...]) -> bool:
    """Return whether a pipeline may subscribe to an observable while it is fed; True for a function that is not RxPY's."""
    names = [name for operator in operators for name in names_of(operator)]
    return any(name is None or name in SUBSCRIBING for name in names)


def names_of(operator: Callable[..., Any]) -> Iterator[str | None]:
    """Yield the names of RxPY's operators in `operator` (several when it is composed), None for one that is not RxPY's."""
    for name, _, _ in parts_of(operator):
        yield name


def parts_of(operator: Callable[..., Any]) -> Iterator[tuple[str | None, Callable[..., Any], Arguments]]:
    """Yield (name, operator, its arguments) of the operators in `operator`: several when it is composed. The name is None for one that is
    not RxPY's."""
    code = getattr(operator, "__code__", None)
    cells = getattr(operator, "__closure__", None) or ()
    free = dict(zip(code.co_freevars, (cell.cell_contents for cell in cells), strict=True)) if code else {}
    if "operators" in free and isinstance(free["operators"], tuple):
        for part in free["operators"]:
            yield from parts_of(part)
        return
    curried = free.get("fun")
    if curried is not None and str(getattr(curried, "__module__", "")).startswith("reactivex.operators"):
        yield str(curried.__name__).strip("_"), operator, (free.get("args", ()), free.get("kwargs", {}))
    elif str(getattr(operator, "__module__", "")).startswith("reactivex.operators"):
        # a closure inside the operator's own function
        yield operator.__qualname__.split(".")[0].strip("_"), operator, ((), free)
    else:
        yield None, operator, ((), {})


def handling_of(
    operators: tuple[Callable[..., Any], ...], holds: bool | None
) -> tuple[Handling, str, tuple[Found, ...]]:
    """Return how a pipeline treats marks, why it is opaque if it is, and how its parts are followed (none: marks pass at once).

    `holds` is the user's declaration; None: the tables decide."""
    parts = [part for operator in operators for part in parts_of(operator)]
    if holds:
        return OPAQUE, "holds=True was declared", ()
    known = [FORGETFUL, REMEMBERING]
    if holds is False or all(any(name in table for table in known) for name, _, _ in parts):
        return EXACT if all(name in FORGETFUL for name, _, _ in parts) else EXACT_MEMORY, "", ()
    followed: list[Found] = []
    passes = exact = True
    remembers = False
    for name, operator, arguments in parts:
        if name in FORGETFUL or name in REMEMBERING:
            followed.append(operator)
            remembers = remembers or name in REMEMBERING
            continue
        found = held_by(name, operator, arguments)
        if found is None:
            who = "a function that is not RxPY's" if name is None else f"rx.{name}"
            return OPAQUE, f"{who} may hold elements", ()
        if isinstance(found, str):
            return OPAQUE, f"rx.{name} cannot be followed, because {found}", ()
        followed.append(found)
        exact = exact and found.handling.exact
        remembers = remembers or found.handling.remembers
    return Handling(passes, exact, remembers), "", tuple(followed)
