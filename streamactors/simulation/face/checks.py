"""What must hold in a run: always, never, in the end, and at least once in some seed.

Owner: the simulation of one run. Conditions of `always` and `never` are looked at after each effect, commit and batch of records; those of
`eventually` when the faults are over. A condition returns something true or false; a Verdict of it says why. It must not wait."""

from __future__ import annotations

import ast
import inspect
import linecache
import textwrap
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from streamactors.lazy_names import parsed
from streamactors.simulation.face.case import Broken, CheckBroken
from streamactors.simulation.face.reached import Reached

if TYPE_CHECKING:
    from streamactors.simulation.face.parts import Parts
    from streamactors.simulation.world.events import Event

Condition = Callable[[], Any]
LOOKED_AT: Final = frozenset({"effect", "commit", "produced", "transaction"})


class Wanted(NamedTuple):
    """A condition that must hold in the end, within so many ms after the faults."""

    name: str
    condition: Condition
    within_ms: float


class Checks:
    """The checks of one run."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._always: list[tuple[str, Condition]] = []
        self.wanted: list[Wanted] = []
        self.sought: dict[str, Condition | None] = {}
        self.reached: set[str] = set()
        self.broken: Broken | None = None
        self.steps = 0
        self._looking = False
        self._listeners: list[Callable[[Event], None]] = []
        self._happened = Reached()
        parts.broke = self.broke
        parts.world.trace.heard.append(self._heard)

    def always(self, name: str, condition: Condition) -> None:
        """Break the run when the condition does not hold."""
        self._always.append((name, condition))

    def eventually(self, name: str, condition: Condition, within_ms: float) -> None:
        """Break the run when the condition does not hold in the end."""
        self.wanted.append(Wanted(name, condition, within_ms))

    def sometimes(self, name: str, condition: Condition | None) -> None:
        """Note whether the run reaches a name, by its condition or by what faults and clients do."""
        self.sought[name] = condition

    def reach(self, name: str) -> None:
        """The run has reached a name of `sometimes`."""
        if name in self.sought and name not in self.reached:
            self.reached.add(name)
            self._parts.world.note("reached", name=name)

    def _heard(self, event: Event) -> None:
        self.steps += 1
        for name in self._happened.names(event):
            self.reach(name)
        for hear in self._listeners:
            hear(event)
        if event.kind in LOOKED_AT:
            self.look()

    def listen(self, hear: Callable[[Event], None]) -> None:
        """Call a function with each event."""
        self._listeners.append(hear)

    def look(self) -> None:
        """Look at everything that must always hold. Raises CheckBroken, and ends the run."""
        if self._looking or self.broken is not None:
            return
        self._looking = True
        try:
            self._parts.world.as_main(self._look)
        finally:
            self._looking = False

    def _look(self) -> None:
        for name, condition in self._always:
            text = why_not(condition)
            if text is not None:
                raise self.broke(name, text)
        for name, sought in self.sought.items():
            if sought is not None and name not in self.reached and why_not(sought) is None:
                self.reach(name)

    def broke(self, name: str, text: str) -> BaseException:
        """End the run with a broken check; return the error, to be raised."""
        world = self._parts.world
        if self.broken is None:
            self.broken = Broken(name, text, int(world.now_ms() * 1_000), self.steps, world.instance() or None)
            world.event("check", name=name, holds=False, step=self.steps)
        return world.fail(CheckBroken(self.broken))

    def settle(self, errors: Callable[[], list[str]]) -> None:
        """Wait until everything holds that must in the end. Raises CheckBroken."""
        world = self._parts.world
        begin = world.now_ms()
        limits = {each: begin + each.within_ms for each in self.wanted}
        while True:
            open_ = [(each, why_not(each.condition)) for each in self.wanted]
            late = [(each, why) for each, why in open_ if why is not None and world.now_ms() >= limits[each]]
            if late:
                each, why = late[0]
                told = "; ".join([f"{why} ({each.within_ms / 1_000:g} s after the faults were over)", *errors()])
                raise self.broke(each.name, told)
            waited = [limits[each] for each, why in open_ if why is not None]
            if not waited:
                return
            seen = self.steps
            world.wait(lambda seen=seen: self.steps != seen, min(waited) - world.now_ms())  # type: ignore[misc]


def why_not(condition: Condition) -> str | None:
    """Return why a condition does not hold; None if it does."""
    try:
        found = condition()
    except AssertionError as error:
        return str(error) or "an assertion failed"
    if found:
        return None
    return getattr(found, "why", "") or ("does not hold" if found is False else f"is {found!r}")


def text_of(condition: Condition) -> str:
    """Return the source of a condition in one line: the body of a lambda, or a function's name."""
    if getattr(condition, "__name__", "") != "<lambda>":
        return getattr(condition, "__name__", repr(condition))
    try:
        lines = inspect.getsource(condition)
        tree = parsed(textwrap.dedent(lines).strip())
    except (OSError, SyntaxError):
        code = getattr(condition, "__code__", None)
        return linecache.getline(code.co_filename, code.co_firstlineno).strip() if code is not None else "a lambda"
    found = [node for node in ast.walk(tree) if isinstance(node, ast.Lambda)]
    return ast.unparse(found[0].body) if found else "a lambda"
