"""`streamactors run`: a graph as a process, that drains when it is asked to end."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import FrameType
from typing import Any, Final

import click

from streamactors.cli.graph_module import graph_argument, load_graph
from streamactors.errors import StreamActorsError

INTERRUPTED: Final = 130


class DidNotDrain(StreamActorsError):
    """The stream was asked to end and did not in time."""


class RunFailed(StreamActorsError):
    """The stream failed. `__cause__` is what it failed with."""


@click.command("run")
@graph_argument
@click.option("--metrics-port", metavar="[HOST:]PORT", help="Serve /metrics (Prometheus) and /ready over HTTP.")
@click.option(
    "--drain-timeout",
    type=click.FloatRange(0),
    default=30.0,
    show_default=True,
    metavar="SECONDS",
    help="How long what is in flight may take once the run was asked to end.",
)
@click.option("--dry-run", is_flag=True, help="Check that the graph could run, brokers and topics included, and stop.")
def command(graph: str, metrics_port: str | None, drain_timeout: float, dry_run: bool) -> int:
    """Run a graph until its stream ends, or until SIGTERM or Ctrl-C: then its sources stop, what is in flight is finished and
    committed, and the process ends. A second signal ends it at once.

    MODULE is a module's name or the path of a .py file, GRAPH a runnable graph in it or a function of no arguments that
    returns one. Exit code: 0 the stream ended or was drained, 1 it failed or did not drain in time, 130 Ctrl-C.

    \b
    Examples:
      streamactors run my_streams:graph
      streamactors run examples/word_count.py:graph --metrics-port 9100
    """
    from streamactors.cli.supervised import SupervisedRun

    loaded = load_graph(graph)
    if dry_run:
        from streamactors.cli.preflight import preflight

        for line in preflight(loaded):
            click.echo(line)
        return 0
    with ExitStack() as undo:
        asked = undo.enter_context(_signals())
        running = undo.enter_context(SupervisedRun(loaded))
        if metrics_port is not None:
            from streamactors.cli.run_metrics import serve_metrics

            undo.enter_context(serve_metrics(metrics_port, running))
        while not asked.is_set() and not running.wait(0.1):
            pass
        if asked.is_set():
            running.stop()
            if not running.wait(drain_timeout):
                raise DidNotDrain(
                    f"{graph} did not end within {drain_timeout:g} s of being asked; raise --drain-timeout"
                )
        if running.error is not None:
            raise RunFailed(f"{type(running.error).__name__}: {running.error}") from running.error
    return INTERRUPTED if asked.is_set() and asked.number == signal.SIGINT else 0


class _Asked(threading.Event):
    """Set by the first signal; `number` is that signal's."""

    number = 0


@contextmanager
def _signals() -> Iterator[_Asked]:
    """SIGTERM and SIGINT ask; the second of them ends the process."""
    asked = _Asked()

    def ask(number: int, _: FrameType | None) -> None:
        if asked.is_set():
            sys.stderr.write("streamactors: asked twice: ending without draining\n")
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        asked.number = number
        asked.set()

    before: dict[int, Any] = {number: signal.signal(number, ask) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
