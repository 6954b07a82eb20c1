"""The type of options that are time spans: `5s`, `500ms`, `1m`, or a number of seconds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from streamactors.durations import duration_s

if TYPE_CHECKING:
    _Type = click.ParamType[float]
else:
    _Type = click.ParamType  # not generic in every version that the package accepts


class Seconds(_Type):
    """A time span in seconds, of at least `least` seconds."""

    name = "duration"

    def __init__(self, least: float = 0.0) -> None:
        self._least = least

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the seconds."""
        try:
            seconds = duration_s(float(value) if _is_number(value) else value, self.name)
        except (TypeError, ValueError):
            seconds = -1.0
        if not 0 <= seconds < float("inf"):
            self.fail(f"{value!r} is not a duration; write 5s, 500ms or 1m, or a number of seconds", param, ctx)
        if seconds < self._least:
            self.fail(f"{value!r} is too short; give at least {self._least:g} s", param, ctx)
        return seconds


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except ValueError:
        return False
    return True


SECONDS: Final = Seconds()
