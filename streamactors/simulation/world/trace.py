"""The trace of a run: one line for each step and each note. Equal seeds give equal lines.

Owner: the scheduler. Lines are made when somebody reads them; a run keeps tuples."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from streamactors.simulation.world.events import Event

_ADDRESS: Final = re.compile(r" at 0x[0-9a-fA-F]+")

Entry = tuple[int, str, str, str]
"""Virtual time in µs, instance, task, and what happened; "" for a step."""


class Trace:
    """What happened in a run, in its order."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.events: list[Event] = []
        self.heard: list[Callable[[Event], None]] = []
        """Called after each event, in the task that it happened in. They must not wait."""

    def event(self, event: Event, task: str) -> None:
        """Add an event, also as a line, and tell who listens."""
        self.events.append(event)
        self.note(event.at_us, event.instance, task, event.kind, dict(event.facts))
        for hear in self.heard:
            hear(event)

    def note(self, now_us: int, instance: str, task: str, what: str, facts: dict[str, Any]) -> None:
        """Add a note. Facts are written as `name=repr`; addresses of objects are left out, since they differ between runs."""
        told = "".join(f" {name}={_ADDRESS.sub('', repr(value))}" for name, value in facts.items())
        self.entries.append((now_us, instance, task, what + told))

    def lines(self, *, steps: bool = True) -> list[str]:
        """Return the lines: `ms instance/task what`. Without `steps`, notes alone."""
        return [
            f"{now_us / 1000:.3f} {instance}/{task}{' ' + what if what else ''}"
            for now_us, instance, task, what in self.entries
            if steps or what
        ]
