"""The options of the commands that write a log."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

Fn = TypeVar("Fn", bound=Callable[..., Any])

LEVELS: Final = ("debug", "info", "warning", "error")
LOG_FORMAT: Final = "%(asctime)s %(levelname)s %(name)s: %(message)s"


def log_options(fn: Fn) -> Fn:
    """Give a command `--log-level` and `--log-format`; None for what is not given."""
    for option in (
        click.option(
            "--log-format",
            type=click.Choice(("text", "json")),
            help="text, or json: one object a line on standard error, the lines of the command included.  [default: text]",
        ),
        click.option("--log-level", type=click.Choice(LEVELS), help="What is logged.  [default: warning]"),
    ):
        fn = option(fn)
    return fn


def log_arguments(level: str | None, format_: str | None) -> list[str]:
    """Return the options as arguments of another process."""
    found = [] if level is None else ["--log-level", level]
    return found if format_ is None else [*found, "--log-format", format_]


def begin_log(level: str | None, format_: str | None, member: str | None) -> None:
    """Write the log of a graph as the options say. Without options the program's own configuration, or Python's, holds."""
    if level is None and format_ is None:
        from streamactors.text_log import TextFormatter

        if logging.lastResort is not None:
            logging.lastResort.setFormatter(TextFormatter())
        return
    from streamactors.engine.where import where
    from streamactors.json_log import configure

    fields = {} if member is None else {"member": member}
    configure(level or "warning", as_json=format_ == "json", text_format=LOG_FORMAT, fields=fields, place=where)
