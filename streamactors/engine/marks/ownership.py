"""Owners of positions: a sink whose own log decides where the sources of its run begin (Spark's checkpoint).

A source whose positions have an owner does not start by itself. It gives the owner a handle (`claim`), and the owner calls `begin`.
With `until` the source first emits exactly the range [start, until) of each partition, with a mark at the end of each range; it emits no
element beyond before all ranges are complete. So a run can repeat a range that an earlier run delivered.

Owner: the run. Sinks register before any stage starts; sources look when they start."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

if TYPE_CHECKING:
    from streamactors.engine.island.run import Run

Positions = dict[str, int]
"""Partition, as text -> the position of its first element that is not covered."""

PARTITION: Final = "0"
"""The one partition of an iterable; its positions are element indices."""

T = TypeVar("T")


class SourceHandle(Protocol):
    """Starts a source. The methods may be called from any thread but those of islands; they may wait."""

    @property
    def label(self) -> str:
        """A short name of the source, the same in every run."""

    @property
    def bounded(self) -> bool:
        """True when the source ends by itself."""

    def identity(self) -> Mapping[str, str | None]:
        """Return what distinguishes this source from others with the same label, as names and values; nothing for elements in memory.

        The value None: the source has such a value, but cannot find it out."""

    def initial(self, *, skip_lost: bool = False) -> Positions:
        """Return where to begin when no position is stored. `skip_lost`: as in `begin`."""

    def begin(self, start: Mapping[str, int], until: Mapping[str, int] | None, *, skip_lost: bool) -> None:
        """Begin at `start`; partitions not named there begin at their first element. With `until`, emit that range first.

        A range that the source no longer has is an error; with `skip_lost` it is skipped."""

    def ends(self) -> Positions:
        """Return the present end of each partition whose end is known."""


class PositionOwner(Protocol):
    """A sink that owns the positions of the sources whose marks reach it."""

    def claim(self, source: Any, handle: SourceHandle) -> None:
        """The source of this number has started and waits for `handle.begin`; on the source's island."""


class IterableHandle:
    """The handle of an iterable. `begin_at((start, marks at))` posts to the source's island."""

    bounded = True

    def __init__(
        self,
        label: str,
        start: int,
        begin_at: Callable[[tuple[int, tuple[int, ...]]], None],
        identity: Mapping[str, str] | None = None,
    ) -> None:
        self.label = label
        self._start = start
        self._begin_at = begin_at
        self._identity: Mapping[str, str] = identity or {}

    def identity(self) -> Mapping[str, str]:
        """Return the identity that the source's stage gives: a file's path, a range's start and step."""
        return self._identity

    def initial(self, *, skip_lost: bool = False) -> Positions:
        """Return the index of the first element to emit."""
        return {PARTITION: self._start}

    def begin(self, start: Mapping[str, int], until: Mapping[str, int] | None, *, skip_lost: bool) -> None:
        """Begin; with `until`, a mark is placed exactly there."""
        marks_at = () if until is None or PARTITION not in until else (until[PARTITION],)
        self._begin_at((start.get(PARTITION, self._start), marks_at))

    def ends(self) -> Positions:
        """Return nothing: the end of an iterable is known when it is reached."""
        return {}


class _Owners(dict[Any, PositionOwner]):
    """Source of a run -> the owner of its positions."""


def own(run: Run, sources: Iterable[Any], owner: PositionOwner) -> None:
    """Make `owner` the owner of the positions of these sources; before any stage of the run starts."""
    run.shared(_Owners, _Owners).update(dict.fromkeys(sources, owner))


def owner_of(run: Run, source: Any) -> PositionOwner | None:
    """Return the owner of a source's positions, None if it has none."""
    return None if source is None else run.shared(_Owners, _Owners).get(source)
