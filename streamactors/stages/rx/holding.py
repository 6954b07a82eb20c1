"""Which of RxPY's operators hold elements in a way that can be counted, and why the others cannot be followed.

`gates.py` does the counting. An operator that is in no table of `handling.py` or here is opaque."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import reactivex
from reactivex import operators as ops
from reactivex.internal import is_future

from streamactors.engine.marks.marks import BLURS, BLURS_MEMORY, EXACT, EXACT_MEMORY, Handling
from streamactors.stages.rx.gates import DelayGate, FlushGate, Gate, InnerGate, LatestGate, Operator


@dataclass(frozen=True)
class Held:
    """How an operator that holds elements is followed."""

    gate: type[Gate]
    handling: Handling
    operator: Operator
    """The operator that runs: the user's, or the same in parts between which the gate can be put."""
    before: Operator | None = None
    """Runs before the gate."""


Arguments = tuple[tuple[Any, ...], Mapping[str, Any]]
Found = Held | str
"""How an operator is followed, or why it cannot be."""


def held_by(name: str | None, operator: Operator, arguments: Arguments) -> Found | None:
    """Return how an operator that holds elements is followed, or why it cannot be; None for one that is not known to hold any."""
    known = _KNOWN.get(name or "")
    return None if known is None else known(operator, *arguments)


def _given(args: tuple[Any, ...], kwargs: Mapping[str, Any], at: int, name: str) -> Any:
    return args[at] if len(args) > at else kwargs.get(name)


def _latest(operator: Operator, *_: Any) -> Found:
    return Held(LatestGate, EXACT_MEMORY, operator)


def _delay(operator: Operator, *_: Any) -> Found:
    return Held(DelayGate, EXACT, operator)


def _flush(operator: Operator, *_: Any) -> Found:
    return Held(FlushGate, BLURS_MEMORY, operator)


def _by_count(operator: Operator, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Found:
    count, skip = _given(args, kwargs, 0, "count"), _given(args, kwargs, 1, "skip")
    if skip is not None and skip < count:
        return "its buffers overlap (skip < count), so an element is held after it has left; Flow.sliding(count, skip) passes marks"
    return _flush(operator)


def _by_time(operator: Operator, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Found:
    span, shift = _given(args, kwargs, 0, "timespan"), _given(args, kwargs, 1, "timeshift")
    if shift is not None and shift < span:
        return "its buffers overlap (timeshift < timespan), so an element is held after it has left"
    return _flush(operator)


def _inner(handling: Handling) -> Callable[..., Found]:
    return lambda operator, *_: Held(InnerGate, handling, operator)


def _flat_map(operator: Operator, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Found:
    mapper = _given(args, kwargs, 0, "mapper")
    of_each = mapper if callable(mapper) else lambda _: mapper
    return Held(InnerGate, BLURS, ops.merge_all(), ops.map(lambda element: _observable(of_each(element))))


def _flat_map_latest(operator: Operator, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Found:
    return Held(InnerGate, BLURS_MEMORY, ops.switch_latest(), ops.map(_given(args, kwargs, 0, "mapper")))


def _merge(operator: Operator, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Found:
    if args or kwargs.get("max_concurrent") is None:
        return (
            "the elements of the other observables belong to no position of the stream; use merge(source) of the stream"
        )
    return Held(InnerGate, BLURS, operator)


def _observable(made: Any) -> Any:
    """Return what flat_map makes of the result of its function."""
    if is_future(made):
        return reactivex.from_future(made)
    return made if isinstance(made, reactivex.Observable) else reactivex.from_(made)


def _refused(why: str) -> Callable[..., Found]:
    return lambda *_: why


_WINDOWS = "it emits observables, and nothing tells when an element inside them is done"
_GROUP_BY = "use source.group_by(key, max_substreams) and .merge_substreams() after it"
_KNOWN: Final[dict[str, Callable[..., Found]]] = {
    "debounce": _latest,
    "throttle_with_timeout": _latest,
    "throttle_with_mapper": _latest,
    "sample": _latest,
    "throttle_latest": _latest,
    "delay": _delay,
    "buffer": _flush,
    "buffer_when": _flush,
    "buffer_with_count": _by_count,
    "buffer_with_time": _by_time,
    "buffer_with_time_or_count": _flush,
    "flat_map": _flat_map,
    "flat_map_latest": _flat_map_latest,
    "merge_all": _inner(BLURS),
    "merge": _merge,
    "switch_latest": _inner(BLURS_MEMORY),
    "group_by": _refused(f"{_WINDOWS}; {_GROUP_BY}"),
    "group_by_until": _refused(f"{_WINDOWS}; {_GROUP_BY}"),
    **dict.fromkeys(
        [
            "window",
            "window_when",
            "window_toggle",
            "window_with_count",
            "window_with_time",
            "window_with_time_or_count",
        ],
        _refused(f"{_WINDOWS}; use the buffer of the same kind, such as rx.buffer_with_count for rx.window_with_count"),
    ),
    "buffer_toggle": _refused("its buffers may overlap, so an element is held after it has left"),
}
