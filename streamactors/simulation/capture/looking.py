"""Hears what each stage of a run pushes, and which stage fails. The run's connections have the queues of the live page's taps.

Owner: a replay. Texts are made at once, since a stage may change an element later."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from streamactors.engine.island.tapped import TappedQueue
from streamactors.simulation.capture.elements import Window, bytes_text, element_text, window_of

if TYPE_CHECKING:
    from streamactors.engine.logic import Logic

MOST: Final = 1_000
"""Elements that are shown between two looks; more are counted."""
_NOTE: Final = "in stage "


class Emission(NamedTuple):
    """What a stage pushed. `window` and `value`: of a result of a window."""

    stage: str
    text: str
    window: Window | None = None
    value: str = ""


class Failure(NamedTuple):
    """A stage failed, or dropped an element because its function raised. `where`: the user's line, "" where it is not known."""

    stage: str
    error: str
    where: str = ""
    dropped: bool = False


class Looking:
    """What the stages of a system do."""

    def __init__(self) -> None:
        self._emitted: list[Emission] = []
        self.left_out = 0
        """How many elements the last look has not shown."""
        self.heard = 0
        """How many elements were pushed so far."""
        self._logics: dict[Logic, str] = {}
        self._known: list[BaseException] = []
        self._drops: dict[Logic, int] = {}
        self.stages: list[str] = []
        """The names of the stages of the graph."""

    def tap(self, logics: Sequence[Logic]) -> None:
        """Listen to the stages of a run, before they start."""
        numbers: Counter[str] = Counter()
        for logic in logics:
            numbers[logic.name] += 1
            name = logic.name if numbers[logic.name] == 1 else f"{logic.name} {numbers[logic.name]}"
            if logic.inside_of:
                name = f"{logic.inside_of} › {name}"
            self._logics[logic] = name
            if not logic.only_waits:  # it pushes what the stage before has pushed
                self._listen(logic, name)

    def _listen(self, logic: Logic, name: str) -> None:
        if not logic.inside_of:
            self.stages.append(name)
        for connection in logic.outlets:
            queue = TappedQueue(connection.items)
            queue.taps = 1
            queue.hear = partial(self._hear, name)
            connection.items = queue

    def _hear(self, stage: str, chunk: list[Any]) -> None:
        self.heard += len(chunk)
        for element in chunk:
            if len(self._emitted) >= MOST:
                self.left_out += 1
                continue
            window = window_of(element)
            value = "" if window is None else bytes_text(element.value)
            self._emitted.append(Emission(stage, element_text(element), window, value))

    def emitted(self) -> tuple[Emission, ...]:
        """Return what was pushed since the last call."""
        found, self._emitted = tuple(self._emitted), []
        return found

    def failures(self) -> tuple[Failure, ...]:
        """Return what failed since the last call, each error once, at the stage where it began."""
        found = []
        for logic, name in list(self._logics.items()):
            error = logic.failure
            if error is not None and not any(known is error for known in self._known):
                self._known.append(error)
                found.append(failure_of(error, name))
            if logic.failures > self._drops.get(logic, 0):
                self._drops[logic] = logic.failures
                found.append(Failure(name, "its function raised, and supervision dropped the element", dropped=True))
            if logic.stopped:
                del self._logics[logic]
        return tuple(found)


def failure_of(error: BaseException, stage: str = "") -> Failure:
    """Return what an error tells: of the user's code it has a note with the stage and the line."""
    note = next((each for each in getattr(error, "__notes__", ()) if each.startswith(_NOTE)), "")
    named, _, rest = note.removeprefix(_NOTE).partition(", element ")
    where = rest.rpartition(" (")[2].removesuffix(")") if rest.endswith(")") else ""
    return Failure(stage or named, f"{type(error).__name__}: {error}", where)
