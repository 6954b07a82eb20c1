"""The text of marbles: what happens in which frame. Pure.

    --a-(bc)-|      nothing in frames 0 and 1, a in frame 2, b and c in frame 4, completed in frame 6
    -a#             a in frame 1, failed in frame 2

A dash is a frame without an event; spaces only align. A group in parentheses is one frame. `values` gives the elements of the letters; a
letter without a value is itself the element."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

COMPLETED: Final = "|"
FAILED: Final = "#"


@dataclass(frozen=True)
class Marble:
    """One event: an element, or an end."""

    frame: int
    kind: str
    """"element", "|" or "#"."""
    value: Any = None
    """The element, or the error of a failure."""


def parse(text: str, values: Mapping[str, Any] | None = None, error: BaseException | None = None) -> list[Marble]:
    """Return the events of a string of marbles in order. Raises ValueError, naming the place, for another string."""
    found: list[Marble] = []
    frame = 0
    group: int | None = None
    for place, sign in enumerate(text):
        if sign == " ":
            continue
        if found and found[-1].kind != "element":
            raise ValueError(f"marbles {text!r}: {sign!r} at {place} comes after the end of the stream")
        if sign == "(":
            if group is not None:
                raise ValueError(f"marbles {text!r}: a group inside a group at {place}")
            group = place
        elif sign == ")":
            if group is None:
                raise ValueError(f"marbles {text!r}: ')' at {place} closes no group")
            group = None
            frame += 1
        else:
            if sign == COMPLETED:
                found.append(Marble(frame, COMPLETED))
            elif sign == FAILED:
                found.append(Marble(frame, FAILED, error))
            elif sign != "-":
                found.append(Marble(frame, "element", sign if values is None else values.get(sign, sign)))
            elif group is not None:
                raise ValueError(f"marbles {text!r}: a dash inside a group at {place}")
            if group is None:
                frame += 1
        if group is not None and found and found[-1].kind != "element":
            # the end is the last event of its group
            rest = text[place + 1 :].replace(" ", "")
            if rest != ")":
                raise ValueError(f"marbles {text!r}: {rest!r} comes after the end of the stream")
            return found
    if group is not None:
        raise ValueError(f"marbles {text!r}: the group at {group} is not closed")
    return found


def render(events: list[Marble], values: Mapping[str, Any] | None = None) -> str:
    """Return events as a string of marbles. An element whose text is longer than a letter, and that has no letter in `values`, is shown in <>."""
    signs: dict[int, list[str]] = {}
    for event in events:
        signs.setdefault(event.frame, []).append(_sign(event, values))
    last = max(signs, default=-1)
    return "".join(_group(signs.get(frame, ["-"])) for frame in range(last + 1))


def _group(signs: list[str]) -> str:
    return signs[0] if len(signs) == 1 else f"({''.join(signs)})"


def _sign(event: Marble, values: Mapping[str, Any] | None) -> str:
    if event.kind != "element":
        return event.kind
    for letter, value in (values or {}).items():
        if type(value) is type(event.value) and value == event.value:
            return letter
    text = str(event.value)
    return text if len(text) == 1 and text not in "-|#() " else f"<{text}>"
