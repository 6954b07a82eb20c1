""" "Did you mean": proposed only if most letters agree, because a wrong proposal costs more than none."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import click

CUTOFF: Final = 0.75
"""For --group click proposed --from, whose letters agree by 0.6 with the dashes and by 0.44 without."""


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that is most like `name`, or that it begins with; None if none is like it. Leading dashes do not count."""
    from difflib import get_close_matches  # only for a mistake

    known = list(known)
    begins = [
        each for each in known if name.startswith(f"{each}-")
    ]  # --bootstrap-server of Apache's tools is --bootstrap here
    if begins:
        return max(begins, key=len)
    by_letters = {each.lstrip("-").lower(): each for each in known}
    found = get_close_matches(name.lstrip("-").lower(), by_letters, n=1, cutoff=CUTOFF)
    return by_letters[found[0]] if found else None


def usage_text(error: click.UsageError) -> str:
    """Return the message of a usage error, with a proposal if there is a good one."""
    message = error.format_message()
    ctx = error.ctx
    if ctx is None:
        return message
    if isinstance(error, click.NoSuchOption):
        name, what = error.option_name, "option"
        known = [each for param in ctx.command.params if isinstance(param, click.Option) for each in param.opts]
        known += ctx.help_option_names
    elif type(error).__name__ == "NoSuchCommand" and isinstance(ctx.command, click.Group):  # click 8.4 or newer
        name, what = getattr(error, "command_name", ""), "command"
        known = ctx.command.list_commands(ctx)
    else:
        return message
    near = nearest(name, [each for each in known if len(each.lstrip("-")) > 1])
    return f"No such {what} {name!r}{f'; did you mean {near}?' if near else ''}"
