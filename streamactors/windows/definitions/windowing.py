"""The windows of an aggregation, with every parameter of `windowed_by` checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from streamactors.durations import EventSpan, event_ms
from streamactors.errors import BuildError
from streamactors.windows.definitions.windows import (
    SessionWindows,
    SlidingWindows,
    TimeWindows,
    UnlimitedWindows,
    Windows,
    grace_of,
)

Semantics: TypeAlias = Literal["strict", "kafka"]
_SEMANTICS: Final = ("strict", "kafka")


@dataclass(frozen=True, slots=True)
class Windowing:
    """The windows of an aggregation; `windows` of None: an aggregation without windows."""

    windows: Windows | None = None
    semantics: Semantics = "strict"
    retention_ms: int = 0


def windowing(windows: object, semantics: object, retention: EventSpan | None) -> Windowing:
    """Check the parameters of windowed_by."""
    if not isinstance(windows, TimeWindows | SessionWindows | SlidingWindows | UnlimitedWindows):
        raise BuildError(
            f"windowed_by: {windows!r} is not a window definition; give TimeWindows.of_size(…), SessionWindows.with_gap(…), "
            "SlidingWindows.of_difference(…), UnlimitedWindows.of() or CountWindows.of_size(…)"
        )
    if semantics not in _SEMANTICS:
        raise BuildError(f'windowed_by: semantics is {semantics!r}; choose "strict" or "kafka"')
    grace_of(windows)
    needed = windows.shortest_retention_ms
    kept = needed if retention is None else event_ms(retention, "windowed_by: retention")
    if kept < needed:
        raise BuildError(
            f"windowed_by: retention is {kept} ms, but {windows.shape} with a grace of {windows.grace_ms} ms need "
            f"{needed} ms; make it at least that, or leave it out"
        )
    return Windowing(windows, "kafka" if semantics == "kafka" else "strict", kept)
