"""`streamactors run`: a graph as a process, which drains on a signal to end."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any

import click

from streamactors.cli.dashboard_options import (
    allow_changes_option,
    check_page,
    cluster_of,
    dashboard_option,
    redact_of,
    redact_option,
    served,
)
from streamactors.cli.durations import SECONDS
from streamactors.cli.graphs.exit_codes import INTERRUPTED, TERMINATED
from streamactors.cli.graphs.graph_module import graph_argument, load_graph
from streamactors.cli.graphs.member import answering, member_name, member_number
from streamactors.cli.graphs.restores import Restores
from streamactors.cli.log_options import begin_log, log_arguments, log_options
from streamactors.cli.metrics_options import check_export, exported, metrics_endpoint, metrics_options, tell_token
from streamactors.cli.trace_options import begin_traces, check_traces, trace_arguments, trace_options
from streamactors.collector import collecting_seldom
from streamactors.errors import StreamActorsError
from streamactors.json_log import say as say_as_json

if TYPE_CHECKING:
    from streamactors.actors.system import ActorSystem
    from streamactors.broker.http.endpoint_address import MetricsEndpoint
    from streamactors.dsl.runnable import RunnableGraph
    from streamactors.engine.stalls.watchdog import Watchdog
    from streamactors.kafka.controls.control import Control

_GIVEN = "streamactors.given_to_run"


class DidNotDrain(StreamActorsError):
    """The stream did not drain in time."""


class RunFailed(StreamActorsError):
    """The stream failed. `__cause__` is its error."""


class _RunCommand(click.Command):
    """Keeps its arguments as they were given, for the process of --reload."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta[_GIVEN] = [each for each in args if each != "--reload"]
        return super().parse_args(ctx, args)


@click.command("run", cls=_RunCommand)
@graph_argument
@metrics_options
@click.option(
    "--metrics-export",
    metavar="otlp[:URL]",
    help="Export the metrics over OTLP/HTTP to URL (default: OTEL_EXPORTER_OTLP_ENDPOINT), each OTEL_METRIC_EXPORT_INTERVAL ms.",
)
@dashboard_option
@log_options
@trace_options
@allow_changes_option
@redact_option
@click.option(
    "--drain-timeout",
    type=SECONDS,
    default="30s",
    show_default=True,
    help="Time limit of the drain: for the elements in flight after the signal to end. A number is seconds.",
)
@click.option(
    "--stall-after",
    type=SECONDS,
    default="60s",
    show_default=True,
    help="Log why, when nothing in the graph has moved for so long although elements or demand wait. A number is seconds.",
)
@click.option(
    "--processes",
    type=click.IntRange(1, 256),
    default=1,
    show_default=True,
    metavar="N",
    help="Run N processes as members of the graph's consumer group.",
)
@click.option(
    "--restarts",
    type=click.IntRange(0),
    default=10,
    show_default=True,
    metavar="N",
    help="With --processes: how often in a row a member that has failed is started again, after 0.5 s to 30 s.",
)
@click.option("--reload", is_flag=True, help="While developing: start the graph again when a source file changes.")
@click.option("--dry-run", is_flag=True, help="Check that the graph could run, brokers and topics included, and stop.")
def command(
    graph: str,
    drain_timeout: float,
    stall_after: float,
    processes: int,
    restarts: int,
    dry_run: bool,
    reload: bool,
    dashboard: int | None,
    allow_changes: bool,
    redact: str | None,
    log_level: str | None,
    log_format: str | None,
    metrics_export: str | None,
    **given: Any,
) -> int:
    """Run a graph until its stream ends, or until SIGTERM or Ctrl-C: then its sources stop, what is in flight is finished and
    committed, and the process ends. A second signal ends it at once.

    MODULE is a module's name or the path of a .py file, GRAPH a runnable graph in it or a function of no arguments that
    returns one. Exit code: 0 the stream ended or was drained, 1 it failed or did not drain in time, 2 an option, the graph's
    name or a port is wrong, 130 Ctrl-C, 143 SIGTERM before the end of sources that end by themselves, such as files.

    \b
    Examples:
      streamactors run my_streams:graph
      streamactors run my_streams.py:graph --metrics-port 9100
      streamactors run my_streams:graph --processes 4 --metrics-port 9100
      streamactors run my_streams:graph --dashboard 4040
      streamactors run my_streams:graph --log-format json --log-level info
      streamactors run my_streams:graph --trace otlp:http://localhost:4318 --trace-ratio 0.001
    """
    from streamactors.kafka.controls.supervised import SupervisedRun

    begin_log(log_level, log_format, member_number())
    check_export(metrics_export)
    if not member_name():  # a member's page is that of its parent
        check_page(dashboard, allow_changes, redact)
    endpoint = metrics_endpoint(given)
    if stall_after <= 0:  # before the graph begins
        raise click.BadParameter("it must be more than 0", param_hint="--stall-after")
    check_traces(given)
    if reload:
        return _run_reloading(graph, drain_timeout, dry_run)
    undo = ExitStack()
    if processes == 1 and not dry_run:
        begin_traces(undo, given)  # before the module makes producers
    try:
        loaded = load_graph(graph)
    except BaseException:
        undo.close()
        raise
    if dry_run:
        from streamactors.cli.graphs.preflight import preflight

        for line in preflight(loaded):
            click.echo(line)
        return 0
    if processes > 1:
        arguments = [graph, "--drain-timeout", f"{drain_timeout:g}", "--stall-after", f"{stall_after:g}"]
        arguments += [*trace_arguments(given), *log_arguments(log_level, log_format)]
        arguments += [] if redact is None else ["--redact", redact]
        if metrics_export is not None:
            arguments += ["--metrics-export", metrics_export]
        return _run_members(
            arguments, loaded, processes, restarts, endpoint, drain_timeout, dashboard, allow_changes, redact_of(redact)
        )
    with undo:
        hide = redact_of(redact)
        undo.enter_context(collecting_seldom())
        asked = undo.enter_context(_signals())
        running = undo.enter_context(SupervisedRun(loaded, member_number()))
        undo.enter_context(_watchdog(running.system, stall_after))
        served(undo, dashboard, running.system, graph, allow_changes, running.graph, hide)
        if metrics_export is not None:
            undo.enter_context(exported(metrics_export, running.system))
        _say(f"running {graph}{_reading(running.graph)}")
        if endpoint is not None:
            from streamactors.cli.graphs.run_metrics import live, readiness, serve_metrics
            from streamactors.metrics.registry import SystemCollector, registry_of

            registry = registry_of(SystemCollector(running.system))
            undo.enter_context(serve_metrics(endpoint, registry, lambda: live(running), lambda: readiness(running)))
            tell_token(endpoint)
        if member_name():
            from prometheus_client.exposition import generate_latest

            from streamactors.dashboard.serving import PageOnDemand
            from streamactors.metrics.registry import SystemCollector, registry_of

            registry = registry_of(SystemCollector(running.system))

            page = PageOnDemand(running.system, f"{graph}{member_name()}", hide)
            undo.callback(page.close)
            undo.enter_context(answering(lambda: generate_latest(registry), page.address))
        restores = undo.enter_context(Restores())
        while not asked.is_set() and not running.wait(0.1):
            restores.look()
        if asked.is_set():
            name = signal.Signals(asked.number).name
            _say(f"{name}: draining {graph} for at most {drain_timeout:g} s; a second signal ends it at once")
            running.stop()
            if not running.wait(drain_timeout):
                raise DidNotDrain(
                    f"{graph} did not end within {drain_timeout:g} s of being asked; raise --drain-timeout"
                )
        if running.error is not None:
            error = running.error
            raise RunFailed(
                "; ".join([f"{type(error).__name__}: {error}", *getattr(error, "__notes__", ())])
            ) from error
        how = (
            "was stopped before its sources had ended"
            if running.cut_short
            else "is drained"
            if asked.is_set()
            else "has ended"
        )
        _say(f"{graph} {how}{_committed(running.controls)}")
        cut_short = running.cut_short
    if asked.is_set() and asked.number == signal.SIGINT:
        return INTERRUPTED
    return TERMINATED if cut_short else 0


def _run_reloading(graph: str, drain_timeout: float, dry_run: bool) -> int:
    from streamactors.cli.graphs.reload import Reloading

    if dry_run:
        raise click.UsageError("--dry-run ends by itself; leave out --reload")
    arguments = click.get_current_context().meta[_GIVEN]
    with _signals() as asked:
        return Reloading(graph, arguments, drain_timeout, _say).run(asked)


def _watchdog(system: ActorSystem, stall_after: float) -> Watchdog:
    from streamactors.engine.stalls.watchdog import Watchdog

    return Watchdog(system, stall_after, lambda stall: _say(f"nothing has moved for {stall_after:g} s: {stall}"))


def _run_members(
    arguments: list[str],
    loaded: RunnableGraph[Any],
    processes: int,
    restarts: int,
    endpoint: MetricsEndpoint | None,
    drain_timeout: float,
    dashboard: int | None,
    allow_changes: bool = False,
    redact: Callable[[Any], Any] | None = None,
) -> int:
    """Run the graph in several processes; return the exit code."""
    from streamactors.cli.graphs.members import Members, MembersFailed, check_shared

    graph = arguments[0]
    check_shared(loaded, processes)
    with ExitStack() as undo:
        asked = undo.enter_context(_signals())
        members = undo.enter_context(Members(arguments, processes, restarts, _say))
        _say(f"running {graph} in {processes} processes")
        if dashboard is not None:
            from streamactors.dashboard.combining import Combiner
            from streamactors.dashboard.serving import Dashboard

            page = undo.enter_context(
                Dashboard(
                    Combiner(members.pages()),
                    port=dashboard,
                    broker=cluster_of(loaded),
                    allow_changes=allow_changes,
                    redact=redact,
                )
            )
            _say(f"live page: {page.url}")
        if endpoint is not None:
            from streamactors.broker.http.endpoint import Status
            from streamactors.cli.graphs.run_metrics import serve_metrics
            from streamactors.metrics.registry import registry_of

            undo.enter_context(
                serve_metrics(endpoint, registry_of(members), lambda: Status(True, "live"), lambda: members.readiness())
            )
            tell_token(endpoint)
        while not asked.wait(0.1) and not members.look():
            pass
        if asked.is_set():
            _say(f"{signal.Signals(asked.number).name}: draining {processes} processes for at most {drain_timeout:g} s")
            members.stop()
            deadline = time.monotonic() + drain_timeout + 5.0
            while not members.look():
                if time.monotonic() > deadline:
                    raise DidNotDrain(
                        f"{graph} did not end within {drain_timeout:g} s of being asked; raise --drain-timeout"
                    )
                time.sleep(0.05)
        if members.failed:
            raise MembersFailed(f"{graph}: {', '.join(members.failed)}; its own lines above say why")
        cut_short = TERMINATED in members.codes
        how = (
            "was stopped before its sources had ended" if cut_short else "is drained" if asked.is_set() else "has ended"
        )
        _say(f"{graph} {how} in {processes} processes")
    if asked.is_set() and asked.number == signal.SIGINT:
        return INTERRUPTED
    return TERMINATED if cut_short else 0


def _say(line: str) -> None:
    """Print a line of the command on stderr; stdout belongs to the graph."""
    if not say_as_json("streamactors.run", line):
        print(f"streamactors{member_name()}: {line}", file=sys.stderr, flush=True)


def _reading(graph: RunnableGraph[Any]) -> str:
    from streamactors.cli.graphs.preflight import kafka_clients
    from streamactors.kafka.settings import ConsumerSettings

    reading = [
        f"{label} reads {subscription} in group {settings.group_id or 'none'} at {settings.bootstrap_servers}"
        for label, settings, subscription in kafka_clients(graph)
        if isinstance(settings, ConsumerSettings)
    ]
    return f": {'; '.join(reading)}" if reading else ""


def _committed(controls: Sequence[Control]) -> str:
    """Return the offsets that the consumers of the run have committed, as the end of a sentence; "" without a consumer."""
    if not controls:
        return ""
    found = [f"{key}@{place}" for control in controls for key, place in control.snapshot().get("committed", {}).items()]
    return f"; committed {', '.join(found)}" if found else "; no offsets were committed"


class _Asked(threading.Event):
    """Set by the first signal; `number` is that signal's."""

    number = 0


@contextmanager
def _signals() -> Iterator[_Asked]:
    """The first SIGTERM or SIGINT begins the drain; the second ends the process."""
    asked = _Asked()

    def ask(number: int, _: FrameType | None) -> None:
        if asked.is_set():
            _say("asked twice: ending without draining")
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
