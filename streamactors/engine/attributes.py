"""Attributes: what a part of a graph is told besides its logic (name, buffer sizes, supervision, …).

Immutable. Outer values reach inner stages; the most specific value wins (Akka Streams' rule)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING

from streamactors.engine.supervision import Decider

if TYPE_CHECKING:
    from streamactors.engine.replay import Replay

CancellationStrategy = Callable[[BaseException], BaseException | None]
"""Given the cause of a cancellation: None completes the stage, an exception fails it."""


@dataclass(frozen=True, slots=True)
class Attributes:
    """Every attribute a graph part can carry; None means "not set here".

    `buffer` is the number of elements an async boundary may hold, `max_chunk` the largest number of elements that move
    as one chunk (1 gives lock-step), `replay` makes a replayable source report and start at positions."""

    name: str | None = None
    buffer: int | None = None
    max_chunk: int | None = None
    decider: Decider | None = None
    cancellation: CancellationStrategy | None = None
    replay: Replay | None = None

    def under(self, outer: Attributes) -> Attributes:
        """Return these attributes with the gaps filled from `outer`, the surrounding part's."""
        if outer is NONE or outer is self:
            return self
        if self is NONE:
            return outer
        gaps = {name: getattr(outer, name) for name in _NAMES if getattr(self, name) is None}
        return replace(self, **gaps)

    def merged(self, newer: Attributes) -> Attributes:
        """Return these attributes overridden by those that `newer` sets."""
        return newer.under(self)


NONE = Attributes()
_NAMES = tuple(field.name for field in fields(Attributes))
