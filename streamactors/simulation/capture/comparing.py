"""How the results of two replays differ, by place, key and window.

Pure. The results of one key and window are in the order in which they were sent; those of different keys have no order."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple

from streamactors.simulation.capture.elements import Window
from streamactors.simulation.capture.replaying import Result

Group = tuple[str, str, "Window | None"]
"""Where results are (a topic, or the stage of a window), their key, and their window."""


class Change(StrEnum):
    """What has become of the results of a key and window."""

    MISSING = "missing"
    """The second version has none."""
    EXTRA = "extra"
    """The first version has none."""
    CHANGED = "changed"
    """Both have some, and they are not the same ones in the same order."""


class Difference(NamedTuple):
    """The results of one place, key and window, which differ."""

    change: Change
    place: str
    key: str
    window: Window | None
    before: tuple[str, ...]
    after: tuple[str, ...]


def differences(before: Iterable[Result], after: Iterable[Result]) -> list[Difference]:
    """Return the differences, by place, key and window."""
    first, second = _grouped(before), _grouped(after)
    found = []
    for group in sorted(first.keys() | second.keys(), key=lambda each: (each[0], each[1], each[2] or ("", 0, 0))):
        one, other = first.get(group, ()), second.get(group, ())
        if one != other:
            change = Change.CHANGED if one and other else Change.MISSING if one else Change.EXTRA
            found.append(Difference(change, *group, one, other))
    return found


def groups_of(results: Iterable[Result]) -> int:
    """Return the number of different places, keys and windows."""
    return len(_grouped(results))


def _grouped(results: Iterable[Result]) -> dict[Group, tuple[str, ...]]:
    found: dict[Group, list[str]] = {}
    for each in results:
        found.setdefault((each.place, each.key, each.window), []).append(each.value)
    return {group: tuple(values) for group, values in found.items()}
