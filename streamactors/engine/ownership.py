"""Owners of positions: a sink whose own log says where the sources of its run begin (Spark's checkpoint).

An owned source does not start by itself. It tells its owner that it is there (`claim`), and begins when the owner says where. With
`until` it first gives exactly the range [start, until) of each partition: it emits nothing beyond before every partition has reached
its end, with a mark there, and then goes on. So a run can repeat a range that an earlier one delivered.

Owner: the run; sinks register before any stage starts, sources look when they start."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from streamactors.engine.run import Run

Positions = dict[str, int]
"""Partition, as text -> the position of its first element that is not covered."""


class OwnedSource(Protocol):
    """What a source hands to its owner. The methods may be called from any thread but those of islands; they may wait."""

    @property
    def label(self) -> str:
        """What is read, in a few words that stay the same from run to run."""

    @property
    def bounded(self) -> bool:
        """True when it comes to an end by itself."""

    def initial(self) -> Positions:
        """Return where to begin when nothing was ever read."""

    def begin(self, start: Mapping[str, int], until: Mapping[str, int] | None, *, skip_lost: bool) -> None:
        """Begin at `start`; partitions not named there from their first element. With `until`, give that range first.

        What is not there any more is an error, or with `skip_lost` left out."""

    def ends(self) -> Positions:
        """Return the positions behind the last elements that are there now; partitions whose end is not known are left out."""


class PositionOwner(Protocol):
    """A sink that owns the positions of the sources it can be reached by."""

    def claim(self, source: Any, handle: OwnedSource) -> None:
        """The source of this number has started and waits to be told where to begin; on the source's island."""


class _Owners(dict[Any, PositionOwner]):
    """Who owns the positions of which source of a run."""


def own(run: Run, sources: Iterable[Any], owner: PositionOwner) -> None:
    """Make `owner` the owner of the positions of these sources; before any stage of the run starts."""
    run.shared(_Owners, _Owners).update(dict.fromkeys(sources, owner))


def owner_of(run: Run, source: Any) -> PositionOwner | None:
    """Return who owns a source's positions, None for nobody."""
    return None if source is None else run.shared(_Owners, _Owners).get(source)
