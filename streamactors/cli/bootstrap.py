"""The option with the broker's address, and the settings of the clients of a command."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from streamactors.cli.client_properties import config_option, given_properties, x_option

if TYPE_CHECKING:
    from streamactors.kafka.client.admin import Admin
    from streamactors.kafka.settings import ClientSettings

Fn = TypeVar("Fn", bound=Callable[..., Any])

CONNECT_TIMEOUT_MS = 2_000
"""How long a broker may refuse connections before a command ends with an error."""


def _given(_: click.Context, __: click.Parameter, bootstrap: str) -> str:
    if not bootstrap.strip():
        raise click.BadParameter("no address; its form is host:port, as in localhost:9092")
    return bootstrap


_address_option = click.option(
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


def bootstrap_option(fn: Fn) -> Fn:
    """Give a command the options of its clients: the address, `--config` and `-X`."""
    return _address_option(x_option(config_option(fn)))


def client_settings(bootstrap: str) -> ClientSettings:
    """Return the settings of a command's clients, with the properties of `--config`, `-X` and STREAMACTORS_KAFKA_… variables."""
    from streamactors.kafka.settings import ClientSettings

    return ClientSettings(bootstrap, preflight_timeout_ms=CONNECT_TIMEOUT_MS, properties=given_properties())


def admin_client(bootstrap: str) -> Admin:
    """Return an admin client."""
    from streamactors.kafka.client.admin import Admin  # librdkafka: only when a command talks to a broker

    return Admin(client_settings(bootstrap))
