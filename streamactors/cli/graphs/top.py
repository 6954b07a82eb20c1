"""`streamactors top`: a running graph in a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import click

from streamactors.cli.durations import Seconds


@click.command("top")
@click.argument("what", metavar="URL|MODULE:GRAPH")
@click.option("--once", is_flag=True, help="Print the state once, and exit.")
@click.option(
    "--seconds", type=Seconds(0.1), metavar="TIME", help="Exit after this time; a number is seconds.  [default: Ctrl-C]"
)
def command(what: str, once: bool, seconds: float | None) -> None:
    """Show graphs, partitions, lag and pauses, and the stage that holds the others back, once a second.

    URL is the address of a live page, with its token; MODULE:GRAPH is run here, as by `streamactors run`. Without a terminal the states are printed as
    plain lines.

    \b
    Examples:
      streamactors top 'http://127.0.0.1:4040/#token=…'
      streamactors top my_streams:graph
      streamactors top 'http://127.0.0.1:4040/#token=…' --once
    """
    with ExitStack() as undo:
        read, over = _states(undo, what)
        until = None if seconds is None else time.monotonic() + seconds
        if sys.stdout.isatty() and not once:
            _live(read, over, until)
        else:
            _plain(read, over, until, once)


def _states(undo: ExitStack, what: str) -> tuple[Callable[[], dict[str, Any]], Callable[[], bool]]:
    """Return what reads the newest state, and what says whether the graph has ended."""
    if what.startswith(("http://", "https://")):
        from streamactors.dashboard.combining import Remote

        remote = Remote(what)
        undo.callback(remote.close)
        return remote.state, lambda: False
    from streamactors.cli.graphs.graph_module import load_graph
    from streamactors.dashboard.serving import serve
    from streamactors.kafka.controls.supervised import SupervisedRun

    running = undo.enter_context(SupervisedRun(load_graph(what)))
    page = undo.enter_context(serve(running.system, name=what))
    page.watch()
    return page.state, lambda: running.wait(0)


def _live(read: Callable[[], dict[str, Any]], over: Callable[[], bool], until: float | None) -> None:
    from rich.live import Live

    from streamactors.dashboard.terminal import shown

    with Live(shown(read()), screen=True, auto_refresh=False) as live:
        while not over() and (until is None or time.monotonic() < until):
            time.sleep(1.0)
            live.update(shown(read()), refresh=True)


def _plain(read: Callable[[], dict[str, Any]], over: Callable[[], bool], until: float | None, once: bool) -> None:
    from streamactors.dashboard.terminal import lines

    time.sleep(2.1 if once and until is None else 1.1)  # shares and rates are of the seconds before
    while True:
        click.echo("\n".join([*lines(read()), ""]))
        if once or over() or (until is not None and time.monotonic() >= until):
            return
        time.sleep(1.0)
