"""Examples of operators, run over virtual time, and drawn as marbles: what stands under the operators in docs/operators/.

catalogue.py reads the examples from the docstrings. Digits of the marbles are numbers. A result that is a future (a sink's) is shown in the
frame in which it came. What the code appends to `seen` is drawn as a line of its own, and a file that a sink has written at `path` is shown
at the end."""

from __future__ import annotations

import ast
import asyncio
import io
import itertools
import json
import logging
import sqlite3
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any, Final

import reactivex
import reactivex.operators as rx

import streamactors
from docs.catalogue import Example
from streamactors import Source, StreamFuture
from streamactors.actors import Actor, ActorExitRequest, StatusReply, Topic
from streamactors.testing.marble_text import Marble, parse
from streamactors.testing.marbles import Marbles
from streamactors.windows import Processor, Record

MOST_FRAMES: Final = 100


async def wait(x: int) -> int:
    """Return x after x frames."""
    await asyncio.sleep(x / 100)
    return x


async def add(total: int, x: int) -> int:
    """Return the sum after two frames."""
    await asyncio.sleep(0.02)
    return total + x


class Tens(Actor):
    """The actor `tens` of the examples: it answers x with 10 * x."""

    def receiveMessage(self, message: Any, sender: Any) -> None:
        if isinstance(message, int):
            self.send(sender, message * 10)


class Checked(Actor):
    """The actor `checked`: it answers x with the success 10 * x, and 0 with an error."""

    def receiveMessage(self, message: Any, sender: Any) -> None:
        if isinstance(message, int):
            self.send(sender, StatusReply.success(message * 10) if message else StatusReply.error("zero"))


class Listener(Actor):
    """The actor `listener`: it appends to `seen` what it is sent, and answers."""

    def __init__(self, seen: Seen) -> None:
        self._seen = seen

    def receiveMessage(self, message: Any, sender: Any) -> None:
        if not isinstance(message, ActorExitRequest):
            self._seen.append(message)
            self.send(sender, "taken")


class Seen:
    """What an example appends, with the frames."""

    def __init__(self, marbles: Marbles) -> None:
        self._marbles = marbles
        self._began_ms = marbles.clock.now_ms()
        self.events: list[Marble] = []
        self.actors: list[Any] = []
        """The actors of the example."""

    def end(self) -> None:
        """End the actors."""
        for actor in self.actors:
            self._marbles.system.tell(actor, ActorExitRequest())

    def append(self, value: Any) -> None:
        frame = round((self._marbles.clock.now_ms() - self._began_ms) / self._marbles.frame_ms)
        self.events.append(Marble(frame, "element", value))

    write = append


def picture(example: Example, marbles: Marbles) -> str:
    """Run an example and return its inputs and its result, frame under frame."""
    code, texts = example.code, example.inputs
    events = [[_number(event) for event in parse(text, error=marbles.error)] for text in texts]
    lines = [*zip("abc", events, strict=False)]
    with tempfile.TemporaryDirectory() as folder, _quiet():
        path = Path(folder) / "file"
        seen = Seen(marbles)
        names = inputs(texts, marbles)
        last = max((event.frame for line in events for event in line), default=0)
        result = _result(code, names | {"seen": seen, "path": path}, marbles, last)
        seen.end()
        writes = "Sink" in code and "sqlite" not in code and path.exists()
        written = repr(path.read_text()) if writes else ""
    if "seen" in code:
        lines.append(("seen", seen.events))
    if result is not None:
        lines.append(("", result))
    width = [1] * (1 + max((event.frame for _, line in lines for event in line), default=0))
    shown = [(name, _by_frame(line)) for name, line in lines]
    for _, frames in shown:
        for frame, text in frames.items():
            width[frame] = max(width[frame], len(text))
    margin = 1 + max(1, *(len(name) for name, _ in lines))
    drawn = [f"{name:<{margin}}{_line(frames, width)}".rstrip() for name, frames in shown]
    return "\n".join([*drawn, f"file: {written}"] if written else drawn)


def program(code: str) -> str:
    """Run a program and return what it has printed."""
    printed = io.StringIO()
    with redirect_stdout(printed):
        exec(compile(code, "<example>", "exec"), {"__name__": "example"})  # noqa: S102  # an example of a docstring
    return printed.getvalue().rstrip()


@contextmanager
def _quiet() -> Iterator[None]:
    """Log nothing: some examples fail on purpose."""
    logging.disable()
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)


def _number(event: Marble) -> Marble:
    value = event.value
    return Marble(event.frame, event.kind, int(value) if isinstance(value, str) and value.isdigit() else value)


def inputs(texts: Sequence[str], marbles: Marbles) -> dict[str, Any]:
    """Return the sources a, b and c that emit what the texts say."""
    digits = {str(digit): digit for digit in range(10)}
    return {name: marbles.source(text, digits) for name, text in zip("abc", texts, strict=False)}


def evaluated(code: str, names: dict[str, Any], marbles: Marbles) -> Any:
    """Run an example's code in the system of the marbles and return the value of its last line. `names`: a, b, c, seen and path."""
    system, seen = marbles.system, names["seen"]
    known: dict[str, Any] = {name: getattr(streamactors, name) for name in streamactors.__all__}
    known |= {each.__name__: each for each in (asyncio, io, itertools, json, reactivex, sqlite3, Processor, Record)}
    known |= {"ActorExitRequest": ActorExitRequest, "system": system, "rx": rx, "wait": wait, "add": add} | names
    actors: dict[str, Callable[[], Actor]] = {
        "tens": Tens,
        "checked": Checked,
        "listener": lambda: Listener(seen),
        "topic": Topic,
    }
    started = {name: system.spawn(make) for name, make in actors.items() if name in code}
    seen.actors += started.values()
    known |= started
    *before, last = ast.parse(code).body
    assert isinstance(last, ast.Expr), code
    exec(compile(ast.Module(before, []), "<example>", "exec"), known)  # noqa: S102
    return eval(compile(ast.Expression(last.value), "<example>", "eval"), known)  # noqa: S307


def _result(code: str, names: dict[str, Any], marbles: Marbles, last: int) -> list[Marble] | None:
    """Return the events of the last line's value, a stream or a future; None for any other value."""
    with in_system_of(marbles):
        value = evaluated(code, names, marbles)
        if isinstance(value, Source):
            return marbles.record(value, MOST_FRAMES)
        if isinstance(value, StreamFuture):
            return _future(value, marbles)
        marbles.clock.settle()
        for _ in range(last + 10):
            marbles.clock.advance(marbles.frame_ms / 1_000)
    return None


@contextmanager
def in_system_of(marbles: Marbles) -> Iterator[None]:
    """Runs without a system use the one of the marbles."""
    from streamactors.dsl import runnable

    before = runnable.default_system
    runnable.default_system = lambda: marbles.system
    try:
        yield
    finally:
        runnable.default_system = before


def _future(future: StreamFuture[Any], marbles: Marbles) -> list[Marble]:
    marbles.clock.settle()
    for frame in range(MOST_FRAMES):
        while future.done() and future.exception() is None and isinstance(future.result(0), StreamFuture):
            future = future.result(0)  # a sink that is made later materializes a future of its sink's value
        if future.done():
            error = future.exception()
            shown = f"future: {future.result(0)!r}" if error is None else f"future: {type(error).__name__}"
            return [Marble(frame, "element", _Shown(shown))]
        marbles.clock.advance(marbles.frame_ms / 1_000)
    raise AssertionError(f"an example's future has not come within {MOST_FRAMES} frames")


class _Shown(str):
    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def _by_frame(events: list[Marble]) -> dict[int, str]:
    signs: dict[int, list[str]] = {}
    for event in events:
        signs.setdefault(event.frame, []).append(event.kind if event.kind != "element" else _text(event.value))
    return {frame: texts[0] if len(texts) == 1 else f"({' '.join(texts)})" for frame, texts in signs.items()}


def _text(value: Any) -> str:
    return value if type(value) is str and value.isalnum() else repr(value)


def _line(frames: dict[int, str], width: list[int]) -> str:
    last = max(frames, default=-1)
    return "".join(frames.get(frame, "").ljust(width[frame], "-" if frame < last else " ") for frame in range(last + 1))
