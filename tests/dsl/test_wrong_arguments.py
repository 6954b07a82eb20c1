"""Every operator, and every constructor of a source or a sink, refuses what it cannot work with while the graph is built: what is no function, no source, no number or no duration,
and numbers below its least. The arguments are made from the annotations, so a new operator is in this test by itself."""

from __future__ import annotations

import inspect
import io
from typing import Any

import pytest
import reactivex

from streamactors import BuildError, Flow, Sink, Source
from tests.dsl.test_operators_everywhere import NAMES

VALID: dict[str, Any] = {
    "int": 3,
    "float": 1.5,
    "str": "text",
    "bytes": b"\n",
    "Duration": "1s",
    "Duration | RestartSettings": "1s",
    "Sequence[int]": [0],
    "Iterable[float]": [0.5],
    "Path": "somewhere",
    "str | os.PathLike[str]": "somewhere",
}
WRONG: dict[str, tuple[Any, ...]] = {
    "int": (-7, "three", 1.5),
    "float": ("x",),
    "Duration": ("soon", -5),
    "Callable": (5, None),
    "Source": (5,),
    "Sink": (5,),
    "Flow": (5,),
}
CONSTRUCTORS = {
    f"{owner.__name__}.{name}": made
    for owner in (Source, Sink)
    for name, made in inspect.getmembers(owner, inspect.ismethod)
    if made.__self__ is owner and not name.startswith("_") and name not in NAMES
}
GIVEN: dict[str, dict[str, Any]] = {
    "Source.from_file_object": {"file": io.BytesIO},
    "Source.from_observable": {"observable": reactivex.empty()},
    "Source.server_sent_events": {"url": "http://localhost"},
    "Sink.to_file_object": {"file": io.BytesIO},
    "Sink.to_rotating_files": {"max_bytes": 1_000},
}
"""What cannot be made from an annotation."""

NEEDS_MORE = {
    "Sink.actor_ref",
    "Sink.actor_ref_with_backpressure",
    "Sink.combine",
    "Sink.from_stage",
    "Sink.future_sink",
    "Source.combine",
    "Source.failed",
    "Source.from_async_iterable",
    "Source.from_stage",
    "Source.future",
    "Source.future_source",
    "ask",
    "ask_with_status",
    "merge_prioritized",
    "retry",
    "through_process",
    "watch",
}
"""Needs an actor, a future, a flow before it, or several arguments that fit each other."""

TAKES_ANY_NUMBER = {
    ("log", "level"),
    ("Source.range", "start"),
    ("Source.range", "stop"),
    ("Source.range", "step"),
}
"""As in Python's ranges; a level is any number."""

NOT_LOOKED_AT = {("Source.range", "step"), ("Source.queue", "max_concurrent_offers")}
"""What counts only beside another argument: a step beside a stop, offers beside overflow="backpressure"."""


def kind_of(annotation: str) -> str:
    """Return the first word of an annotation: Callable[[Out], U] is a Callable."""
    return annotation.split("[")[0].split(" | ")[0]


def valid(annotation: str) -> Any:
    if "None" in annotation.split(" | "):
        return None
    kind = kind_of(annotation)
    made = {"Source": Source.range(2), "Sink": Sink.ignore(), "Flow": Flow.map(str), "Iterable": [Source.range(2)]}
    if kind == "Callable":
        return lambda *_: 1
    return VALID.get(annotation, made.get(kind, 7))


def operator_of(name: str) -> Any:
    """Return an operator of a source, or a constructor."""
    return CONSTRUCTORS.get(name) or getattr(Source.range(3), name)


def built(name: str, parameter: str = "", value: Any = None) -> Any:
    """Return the operator's result with this value for a parameter, and arguments that fit for all others that it needs."""
    operator = operator_of(name)
    given = GIVEN.get(name, {})
    positional: list[Any] = []
    named: dict[str, Any] = {}
    for each in inspect.signature(operator).parameters.values():
        if each.name != parameter and each.name not in given and each.default is not each.empty:
            continue
        what = value if each.name == parameter else given.get(each.name, valid(str(each.annotation)))
        if each.kind is each.KEYWORD_ONLY or each.default is not each.empty:
            named[each.name] = what
        elif each.kind is not each.VAR_POSITIONAL or each.name == parameter:
            positional.append(what)
    return operator(*positional, **named)


def parameters(*kinds: str) -> list[tuple[str, str, str]]:
    """Return each operator and constructor with each of its parameters of these kinds, and the parameter's annotation."""
    return [
        (name, each.name, str(each.annotation))
        for name in (*NAMES, *CONSTRUCTORS)
        for each in inspect.signature(operator_of(name)).parameters.values()
        if kind_of(str(each.annotation)) in kinds and (name, each.name) not in NOT_LOOKED_AT and name not in NEEDS_MORE
    ]


@pytest.mark.parametrize("name", sorted({*NAMES, *CONSTRUCTORS} - NEEDS_MORE))
def test_an_operator_takes_what_fits(name: str) -> None:
    built(name)


@pytest.mark.parametrize(("name", "parameter", "annotation"), parameters(*WRONG))
def test_an_operator_refuses_what_it_cannot_work_with(name: str, parameter: str, annotation: str) -> None:
    for wrong in WRONG[kind_of(annotation)]:
        if wrong is None and "None" in annotation:
            continue
        if (name, parameter) in TAKES_ANY_NUMBER and wrong == -7:
            built(name, parameter, wrong)
            continue
        with pytest.raises(BuildError):
            built(name, parameter, wrong)


LEAST = {
    ("deflate", "level"): -1,  # zlib's usual level
    ("gzip", "level"): -1,
    ("recover_with_retries", "attempts"): -1,  # without a limit
    ("drop", "n"): 0,
    ("flat_map_prefix", "n"): 0,
    ("frames_by_length", "field_offset"): 0,
    ("join_lookup", "max_entries"): 0,  # nothing is kept
    ("limit", "n"): 0,
    ("limit_weighted", "n"): 0,
    ("prefix_and_tail", "n"): 0,
    ("take", "n"): 0,
    ("throttle", "burst"): 0,
    ("Sink.take_last", "n"): 0,
    ("quantiles", "k"): 8,
}
"""The least number that a parameter takes. The others take 1."""


@pytest.mark.parametrize(("name", "parameter", "annotation"), parameters("int"))
def test_an_operator_takes_its_least_number_and_none_below(name: str, parameter: str, annotation: str) -> None:
    if (name, parameter) in TAKES_ANY_NUMBER:
        return
    least = LEAST.get((name, parameter), 1)
    built(name, parameter, least)
    with pytest.raises(BuildError):
        built(name, parameter, least - 1)
