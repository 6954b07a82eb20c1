"""The option that says where the broker is."""

from __future__ import annotations

import click

bootstrap_option = click.option(
    "--bootstrap",
    "-b",
    default="localhost:9092",
    show_default=True,
    metavar="HOST:PORT",
    envvar="STREAMACTORS_BOOTSTRAP",
    show_envvar=True,
    help="Where the broker is.",
)
