"""What is known of RxPY's operators: how each treats marks, so that an Rx pipeline in a stream need not be opaque.

An operator is recognised by the function RxPY curried. One that holds elements back, or takes inner observables (which may emit
whenever they like), is not in the tables: a pipeline with it is opaque unless the user says `holds=False`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from streamactors.engine.marks import EXACT, EXACT_MEMORY, OPAQUE, Handling

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
"""Each output is made from the one element that came in, at once."""

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
"""Nothing is held back, but what comes out depends on what came before."""


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
    """Return whether a pipeline may subscribe to something while it is fed; of a function of the user's own nobody knows."""
    names = [name for operator in operators for name in names_of(operator)]
    return any(name is None or name in SUBSCRIBING for name in names)


def names_of(operator: Callable[..., Any]) -> Iterator[str | None]:
    """Yield the names of RxPY's operators in `operator` (several when it is composed), None for one that is not RxPY's."""
    code = getattr(operator, "__code__", None)
    cells = getattr(operator, "__closure__", None) or ()
    free = dict(zip(code.co_freevars, (cell.cell_contents for cell in cells), strict=True)) if code else {}
    if "operators" in free and isinstance(free["operators"], tuple):
        for part in free["operators"]:
            yield from names_of(part)
        return
    curried = free.get("fun")
    if curried is not None and str(getattr(curried, "__module__", "")).startswith("reactivex.operators"):
        yield str(curried.__name__).strip("_")
    elif str(getattr(operator, "__module__", "")).startswith("reactivex.operators"):
        yield operator.__qualname__.split(".")[0].strip("_")  # a closure inside the operator's own function
    else:
        yield None


def handling_of(operators: tuple[Callable[..., Any], ...], holds: bool | None) -> Handling:
    """Return how a pipeline treats marks. `holds` is what the user said; None: judge by the operators."""
    names = [name for operator in operators for name in names_of(operator)]
    if holds or (holds is None and not all(name in FORGETFUL or name in REMEMBERING for name in names)):
        return OPAQUE
    return EXACT if all(name in FORGETFUL for name in names) else EXACT_MEMORY
