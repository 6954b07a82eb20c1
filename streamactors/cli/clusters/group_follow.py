"""`streamactors groups describe`: prints a group once, or again and again: a table that is refreshed on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from streamactors.cli.clusters.group_output import live, objects, print_group, unknown
from streamactors.cli.tables import print_json
from streamactors.errors import StreamActorsError

if TYPE_CHECKING:
    from streamactors.cli.clusters.group_lag import GroupLag, GroupLags


def print_once(found: GroupLag, as_json: bool, at: str | None = None) -> None:
    """Print a group; `at`: the time of this look, for those that follow each other."""
    when = {} if at is None else {"time": at}
    if as_json:
        print_json({**when, **each} for each in objects(found))
    else:
        if at is not None:
            click.echo(at)
        print_group(found)
    for line in unknown(found):
        click.echo(f"streamactors: {line}", err=True)


def follow_group(lags: GroupLags, group: str, every_s: float, as_json: bool) -> None:
    """Look at a group every `every_s` seconds until Ctrl-C. Raises the error of the first look; later errors are shown, and the next look is tried."""
    found = lags.look(group)
    if sys.stdout.isatty() and not as_json:
        _refresh(lags, found, every_s)
    trouble = ""
    while True:
        if not trouble:
            print_once(found, as_json, at=datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"))
            if not as_json:
                click.echo("")
        time.sleep(every_s)
        found, trouble = _again(lags, found)
        if trouble:
            click.echo(f"streamactors: {trouble}", err=True)


def _refresh(lags: GroupLags, found: GroupLag, every_s: float) -> None:
    from rich.live import Live

    with Live(live(found, ""), auto_refresh=False, vertical_overflow="ellipsis") as shown:
        while True:
            time.sleep(every_s)
            found, trouble = _again(lags, found)
            shown.update(live(found, trouble), refresh=True)


def _again(lags: GroupLags, found: GroupLag) -> tuple[GroupLag, str]:
    """Return the next look, or the last one with the error of this one."""
    try:
        return lags.look(found.group.group), ""
    except StreamActorsError as error:
        return found, f"{' '.join(str(error).split())}; trying again"
