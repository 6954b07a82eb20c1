"""FusedLoop: adjacent steps that turn an element into at most one result, as one generated loop.

The loop for map, filter, scan, map reads

    def loop(feed, out, stop, s, f0, f1, f2, f3):
        for x in feed:
            x = f0(x)
            if f1(x):
                s[2] = x = f2(s[2], x)
                out.append(f3(x))
            if stop: break

When the feed holds raw messages to be wrapped (`Refilled`), one wrapper is filled again for each message while only the loop refers to it:

    def loop(feed, out, stop, s, make, references, alone, f0, f1):
        r = make()
        for m in feed:
            if references(r) != alone: r = make()
            r.message = m
            …
            x = f0(r)
            if f1(x):
                out.append(x)
            if stop: break

Results made before an exception are in `out`; the line of the exception tells which function raised; `feed` is a list or range
iterator whose length hint tells how much was consumed. `s` is the state of a run. Loops are generated once per sequence of kinds."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from types import CodeType
from typing import TYPE_CHECKING, Any

from streamactors.engine.attributes import Attributes
from streamactors.engine.coroutine_results import RefusingCoroutines
from streamactors.engine.supervision import Directive, log_skipped
from streamactors.engine.user_code import blame, frame_of
from streamactors.engine.zero import fresh

if TYPE_CHECKING:
    from streamactors.engine.logic import Logic

Loop = Callable[..., None]
NEVER_STOP: list[int] = []
NOTHING: list[Any] = []
"""The state of loops without scans. It is shared, so nothing may be added to it."""

_TEST = {
    "filter": "if {f}({x}):",
    "filter_not": "if not {f}({x}):",
    "filter_true": "if {x}:",
    "filter_false": "if not {x}:",
}


@dataclass(frozen=True, slots=True)
class Op:
    """One step. Its kind is one of

    map; filter, filter_not (`fn` None tests the element itself); collect: a map whose None is left out;
    scan: `fn(state, element)` gives the next state, which is the result; the first state is `zero`, and it is emitted first."""

    kind: str
    fn: Callable[..., Any] | None
    label: str
    attributes: Attributes
    zero: Any = None


def results(x: str) -> tuple[str, ...]:
    """Return the lines that keep the result in variable `x`."""
    return (f"out.append({x})",)


@dataclass(frozen=True, slots=True)
class Refilled:
    """How to wrap a raw message `m`: `make` returns an empty wrapper `r`, `fill` are the assignments that fill `r` from `m`."""

    make: Callable[[], Any]
    fill: tuple[str, ...]
    made: tuple[str, ...] = ()
    """Assignments to a wrapper that was just made."""
    held: str = "references(r) != alone"
    """True when somebody else refers to the wrapper."""
    emit: Callable[[str], tuple[str, ...]] = results
    """The lines that keep the result in a variable, by its name."""


def _references_to_a_local() -> int:
    r = object()
    return sys.getrefcount(r)


ALONE = _references_to_a_local()
"""The result of `sys.getrefcount` for an object that only one local variable refers to."""
CAN_REFILL = sys.implementation.name == "cpython" and getattr(sys, "_is_gil_enabled", lambda: True)()
"""True when the reference count proves that no other thread refers to an object (CPython with the interpreter lock)."""


@lru_cache(maxsize=1024)
def generate(
    kinds: tuple[str, ...], refilled: Refilled | None = None
) -> tuple[Loop, CodeType, dict[int, tuple[int, str]]]:
    """Return the loop for a sequence of kinds, its code object, and for each of its lines the index of the step that stands there
    and the variable that it reads.

    The kind "skip" is a step that is left out; it keeps the numbers of the others."""
    functions = ", ".join(f"f{i}" for i in range(len(kinds)))
    emit = results if refilled is None else refilled.emit
    if refilled is None:
        x = "x"  # the variable that holds the element
        lines = [f"def loop(feed, out, stop, s, {functions}):", "    for x in feed:"]
    else:
        x = "r"  # a second variable would raise the reference count of the wrapper
        lines = [
            f"def loop(feed, out, stop, s, make, references, alone, {functions}):",
            f"    {'; '.join(('r = make()', *refilled.made))}",
            "    for m in feed:",
            f"        if {refilled.held}: {'; '.join(('r = make()', *refilled.made))}",
            *(f"        {assignment}" for assignment in refilled.fill),
        ]
    steps: dict[int, tuple[int, str]] = {}
    indent = " " * 8
    pushed = False
    for i, kind in enumerate(kinds):
        steps[len(lines) + 1] = i, x
        if kind == "skip":
            continue
        if kind == "map" and i == len(kinds) - 1 and emit is results:
            lines.append(f"{indent}out.append(f{i}({x}))")
            pushed = True
        elif kind == "map":
            lines.append(f"{indent}x = f{i}({x})")
            x = "x"
        elif kind == "scan":
            lines.append(f"{indent}s[{i}] = x = f{i}(s[{i}], {x})")
            x = "x"
        elif kind == "collect":
            lines.append(f"{indent}x = f{i}({x})")
            x = "x"
            lines.append(f"{indent}if x is not None:")
            indent += "    "
        else:
            lines.append(indent + _TEST[kind].format(f=f"f{i}", x=x))
            indent += "    "
    if not pushed:
        lines += [indent + line for line in emit(x)]
    lines.append("        if stop: break")
    namespace: dict[str, Any] = {}
    exec(compile("\n".join(lines), f"<streamactors loop {'+'.join(kinds)}>", "exec"), namespace)  # noqa: S102  # our own text
    loop = namespace["loop"]
    return loop, loop.__code__, steps


def _kind(op: Op) -> str:
    if op.fn is not None:
        return op.kind
    return "filter_true" if op.kind == "filter" else "filter_false"


def _checked(op: Op) -> Callable[..., Any] | None:
    return op.fn if op.fn is None or op.kind in ("map", "collect") else RefusingCoroutines(op.fn, op.label)


class FusedLoop:
    """A generated loop bound to its functions; asks the decider about errors. Shared by all runs; each run has its own state."""

    __slots__ = ("_arguments", "_checked", "_code", "_loop", "_ops", "_skipped", "_steps", "scans")

    def __init__(self, ops: tuple[Op, ...], skipped: int = 0, refilled: Refilled | None = None) -> None:
        kinds = [_kind(op) for op in ops]
        self._loop, self._code, self._steps = generate(("skip",) * skipped + tuple(kinds[skipped:]), refilled)
        self._ops = ops
        self._skipped = skipped
        wrapper = () if refilled is None else (refilled.make, sys.getrefcount, ALONE)
        self._arguments = (*wrapper, *(op.fn for op in ops))
        self._checked: tuple[Any, ...] | None = (*wrapper, *map(_checked, ops))  # for the first elements
        self.scans = tuple(i for i, kind in enumerate(kinds) if kind == "scan")

    def fresh(self) -> list[Any]:
        """Return the state of a new run."""
        return [fresh(op.zero) for op in self._ops] if self.scans else NOTHING

    def refilling(self, refilled: Refilled) -> FusedLoop:
        """Return this loop for a feed of raw messages, which it wraps; the state of a run fits both loops."""
        return FusedLoop(self._ops, refilled=refilled)

    def zeros(self, state: list[Any]) -> tuple[list[Any], BaseException | None]:
        """Return the results before the first element, and the error that stopped them: the zero of each scan is sent through the steps
        after it, the last scan's zero first."""
        out: list[Any] = []
        for i in reversed(self.scans):
            error = self._behind(i, state, out)
            if error is not None:
                return out, error
        return out, None

    def _behind(self, i: int, state: list[Any], out: list[Any]) -> BaseException | None:
        """Send the state of step i through the steps after it."""
        return FusedLoop(self._ops, i + 1)(iter([state[i]]), out, NEVER_STOP, state)

    def __call__(
        self, feed: Iterator[Any], out: list[Any], stop: list[int], state: list[Any], owner: Logic | None = None
    ) -> BaseException | None:
        """Run the loop until the feed ends or `stop` is filled; return the error that stops the stage, or None. `owner` counts the elements
        that supervision drops."""
        arguments = self._checked or self._arguments
        while True:
            try:
                self._loop(feed, out, stop, state, *arguments)
                if self._checked is not None and all(getattr(check, "passed", True) for check in self._checked):
                    self._checked = None
            except BaseException as error:  # noqa: BLE001  # whatever the user's function raised
                failure = self._after(error, out, state, owner)
                if failure is not None or stop:
                    return failure
            else:
                return None

    def _after(
        self, error: BaseException, out: list[Any], state: list[Any], owner: Logic | None
    ) -> BaseException | None:
        """Ask the decider of the step that raised; return the error that stops the stage, or None: the element is dropped."""
        entry = frame_of(error, self._code)
        if entry is None:
            return error  # raised before the first line of the loop, by no step
        step, x = self._steps.get(entry.tb_lineno, (0, "x"))
        op = self._ops[step]
        blame(error, op.attributes.name or op.label, entry.tb_frame.f_locals.get(x), op.fn)
        decider = op.attributes.decider
        try:
            directive = Directive.STOP if decider is None else decider(error)
        except BaseException as worse:  # noqa: BLE001  # the decider's own
            return worse
        if directive is Directive.STOP:
            return error
        log_skipped(None, error)
        if owner is not None:
            owner.failures += 1
        if directive is Directive.RESTART and op.kind == "scan":
            state[step] = fresh(op.zero)
            return self._behind(step, state, out)
        return None
