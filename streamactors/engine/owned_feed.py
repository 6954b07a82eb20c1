"""The handle of an iterable source whose positions somebody owns: one partition, named 0, whose positions are element indices."""

from __future__ import annotations

from collections.abc import Callable, Mapping

PARTITION = "0"


class OwnedFeed:
    """See streamactors.engine.ownership.OwnedSource. `begin((start, marks at))` posts to the source's island."""

    bounded = True

    def __init__(self, label: str, start: int, begin: Callable[[tuple[int, tuple[int, ...]]], None]) -> None:
        self.label = label
        self._start = start
        self._begin = begin

    def initial(self) -> dict[str, int]:
        """Return where to begin when nothing was ever read."""
        return {PARTITION: self._start}

    def begin(self, start: Mapping[str, int], until: Mapping[str, int] | None, *, skip_lost: bool) -> None:
        """Begin; with `until`, a mark stands exactly there."""
        marks_at = () if until is None or PARTITION not in until else (until[PARTITION],)
        self._begin((start.get(PARTITION, self._start), marks_at))

    def ends(self) -> dict[str, int]:
        """The end of an iterable is known when it is reached."""
        return {}
