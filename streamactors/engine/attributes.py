"""Attributes: settings of a part of a graph: its name, buffer sizes, supervision and others.

Immutable. Outer values reach inner stages; the most specific value wins (Akka Streams' rule)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING

from streamactors.engine.supervision import Decider

if TYPE_CHECKING:
    from streamactors.engine.marks.replay import Replay

CancellationStrategy = Callable[[BaseException], BaseException | None]
"""Given the cause of a cancellation: None completes the stage, an exception fails it."""


@dataclass(frozen=True, slots=True)
class Attributes:
    """Every attribute of a part of a graph; None means "not set here"."""

    name: str | None = None
    """The name of the stage in errors, logs and pictures."""
    graph: str | None = None
    """The name of the runnable graph, for metrics."""
    buffer: int | None = None
    """The number of elements that an async boundary may hold."""
    max_chunk: int | None = None
    """The largest number of elements in a chunk; 1 gives lock-step."""
    decider: Decider | None = None
    """What happens to an element whose user function raised; None: the stage fails."""
    cancellation: CancellationStrategy | None = None
    """How a cancelled stage ends; None: a failure fails it, any other cause completes it."""
    fused: bool | None = None
    """False: the stage runs in no loop with its neighbours, so that each stage has a connection of its own."""
    replay: Replay | None = None
    """Where a replayable source starts, and where its positions are reported."""

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
