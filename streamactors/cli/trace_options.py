"""The options of the commands that trace records."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, TypeVar

import click

Fn = TypeVar("Fn", bound=Callable[..., Any])


def trace_options(fn: Fn) -> Fn:
    """Give a command `--trace`, `--trace-ratio` and `--trace-stages`; they arrive as `trace`, `trace_ratio` and `trace_stages`."""
    for option in (
        click.option("--trace-stages", is_flag=True, help="With --trace: a span for each stage of a traced record."),
        click.option(
            "--trace-ratio",
            type=click.FloatRange(0, 1),
            metavar="SHARE",
            help="With --trace: the share of records that begin a trace, 0 to 1; by default all, or what OTEL_TRACES_SAMPLER says.",
        ),
        click.option(
            "--trace",
            metavar="console|otlp[:URL]",
            help="Export OpenTelemetry spans of records: to stderr, or over OTLP/HTTP to URL (default: OTEL_EXPORTER_OTLP_ENDPOINT).",
        ),
    ):
        fn = option(fn)
    return fn


def check_traces(given: dict[str, Any]) -> None:
    """Raise a usage error for options about traces without traces."""
    if given["trace"] is None and (given["trace_stages"] or given["trace_ratio"] is not None):
        raise click.UsageError("--trace-ratio and --trace-stages are about traces: give --trace, too")


def begin_traces(undo: ExitStack, given: dict[str, Any]) -> None:
    """Install traces as the options say; `undo` exports what is left. Raises BuildError for a wrong destination."""
    if given["trace"] is None:
        return
    from streamactors import tracing

    undo.enter_context(tracing.install(given["trace"], ratio=given["trace_ratio"], stages=given["trace_stages"]))


def trace_arguments(given: dict[str, Any]) -> list[str]:
    """Return the options as arguments of another process."""
    arguments = [] if given["trace"] is None else ["--trace", given["trace"]]
    if given["trace_ratio"] is not None:
        arguments += ["--trace-ratio", f"{given['trace_ratio']:g}"]
    return arguments + ["--trace-stages"] * bool(given["trace_stages"])
