"""The option that says where the broker is."""

from __future__ import annotations

import click


def _given(_: click.Context, __: click.Parameter, bootstrap: str) -> str:
    if not bootstrap.strip():
        raise click.BadParameter("no address; its form is host:port, as in localhost:9092")
    return bootstrap


bootstrap_option = click.option(
    "--bootstrap",
    "-b",
    default="localhost:9092",
    show_default=True,
    metavar="HOST:PORT",
    envvar="STREAMACTORS_BOOTSTRAP",
    show_envvar=True,
    callback=_given,
    help="Where the broker is.",
)
