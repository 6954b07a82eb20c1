"""The options of the commands that serve a live page."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from streamactors.actors.system import ActorSystem
    from streamactors.dsl.runnable import RunnableGraph

Fn = TypeVar("Fn", bound=Callable[..., Any])


def dashboard_option(fn: Fn) -> Fn:
    """Give a command `--dashboard [PORT]`; it arrives as `dashboard`: None without it, 0 for a free port."""
    return click.option(
        "--dashboard",
        type=click.IntRange(0, 65535),
        is_flag=False,
        flag_value=0,
        metavar="[PORT]",
        help="Serve a live page on this machine, and print its address: what flows, who holds whom back, how late it is.",
    )(fn)


def allow_changes_option(fn: Fn) -> Fn:
    """Give a command `--allow-changes`; it arrives as `allow_changes`."""
    return click.option(
        "--allow-changes", is_flag=True, help="Let the live page change something: send dead letters again."
    )(fn)


def redact_option(fn: Fn) -> Fn:
    """Give a command `--redact MODULE:FUNCTION`; it arrives as `redact`: the text, which `redact_of` turns into the function."""
    return click.option(
        "--redact",
        metavar="MODULE:FUNCTION",
        help="Let the live page show FUNCTION(element) instead of elements, values and keys.",
    )(fn)


def check_page(port: int | None, allow_changes: bool, redact: str | None) -> None:
    """Raise a usage error for options of a page without a page."""
    for name, given in (("--allow-changes", allow_changes), ("--redact", redact is not None)):
        if given and port is None:
            raise click.UsageError(f"{name} is about the live page: give --dashboard, too")


def redact_of(text: str | None) -> Callable[[Any], Any] | None:
    """Return the function that MODULE:FUNCTION names; None for None. Raises GraphNotFound, GraphFailed or a usage error."""
    if text is None:
        return None
    from types import FunctionType

    from streamactors.dsl.named import load_named

    form = "MODULE:FUNCTION, as in my_streams:hide_cards"
    if ":" not in text:
        raise click.BadParameter(f"{text!r}: its form is {form}", param_hint="--redact")
    found = load_named(text, FunctionType, form)
    if not isinstance(found, FunctionType):
        raise click.BadParameter(f"{text!r} is a {type(found).__name__}, not a function", param_hint="--redact")
    return found


def cluster_of(graph: RunnableGraph[Any]) -> Mapping[str, Any] | None:
    """Return how to reach the cluster that a graph uses, as its first consumer or producer does; None if it uses none."""
    from streamactors.cli.graphs.preflight import kafka_clients

    return next((settings.address() for _, settings, _ in kafka_clients(graph)), None)


def served(
    undo: ExitStack,
    port: int | None,
    system: ActorSystem | None,
    name: str,
    allow_changes: bool,
    graph: RunnableGraph[Any] | None = None,
    redact: Callable[[Any], Any] | None = None,
) -> None:
    """Serve the page until `undo` ends, and print its address on stderr. Nothing without a port. `graph`: the page shows its cluster, too."""
    if port is None:
        return
    from streamactors.dashboard.serving import serve

    broker = None if graph is None else cluster_of(graph)
    page = undo.enter_context(
        serve(system, port=port, name=name, allow_changes=allow_changes, redact=redact, broker=broker)
    )
    click.echo(f"live page: {page.url}", err=True)
