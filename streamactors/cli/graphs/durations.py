"""The type of options that are time spans: `5s`, `500ms`, `1m`, or a number of seconds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from streamactors.clock import timeout_s

if TYPE_CHECKING:
    _Type = click.ParamType[float]
else:
    _Type = click.ParamType  # not generic in every version that the package accepts


class _Seconds(_Type):
    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the seconds."""
        try:
            seconds = timeout_s(float(value) if _is_number(value) else value)
        except (TypeError, ValueError):
            seconds = -1.0
        if not 0 <= seconds < float("inf"):
            self.fail(f"{value!r} is no duration; write 5s, 500ms or 1m, or a number of seconds", param, ctx)
        return seconds


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except ValueError:
        return False
    return True


SECONDS: Final = _Seconds()
