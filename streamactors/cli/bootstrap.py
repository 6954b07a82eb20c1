"""The option with the broker's address, and the settings of the clients of a command."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import click

from streamactors.cli.client_properties import config_option, given_properties, x_option
from streamactors.cli.profiles.chosen import bootstrap_of, profile_option
from streamactors.errors import BuildError
from streamactors.kafka.property_rules import FORM, addresses_of

if TYPE_CHECKING:
    from streamactors.kafka.client.admin import Admin
    from streamactors.kafka.settings import ClientSettings, ConsumerSettings, ProducerSettings

Fn = TypeVar("Fn", bound=Callable[..., Any])

CONNECT_TIMEOUT_MS = 2_000
"""How long a broker may refuse connections before a command ends with an error."""


def _given(ctx: click.Context, param: click.Parameter, bootstrap: str) -> str:
    bootstrap = bootstrap_of(ctx, bootstrap, ctx.get_parameter_source(str(param.name)))
    if not bootstrap.strip():
        raise click.BadParameter(f"no address; {FORM}")
    try:
        addresses_of(bootstrap)
    except BuildError as error:
        raise click.BadParameter(str(error)) from None
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
    """Give a command the options of its clients: the address, `--profile`, `--config` and `-X`."""
    return _address_option(profile_option(x_option(config_option(fn))))


def client_settings(bootstrap: str) -> ClientSettings:
    """Return the settings of a command's clients, with the properties of `--config`, `-X` and STREAMACTORS_KAFKA_… variables."""
    from streamactors.kafka.settings import ClientSettings

    return ClientSettings(bootstrap, preflight_timeout_ms=CONNECT_TIMEOUT_MS, properties=given_properties())


def consumer_settings(bootstrap: str) -> ConsumerSettings:
    """Return the settings of a command's consumer: without a group, with all properties that were given."""
    from streamactors.kafka.property_rules import CONSUMER_RULES

    return client_settings(bootstrap).as_consumer().with_properties(_usable(CONSUMER_RULES))


def producer_settings(bootstrap: str) -> ProducerSettings:
    """Return the settings of a command's producer, with all properties that were given."""
    from streamactors.kafka.property_rules import PRODUCER_RULES

    return client_settings(bootstrap).as_producer().with_properties(_usable(PRODUCER_RULES))


def _usable(refused: Mapping[str, object]) -> dict[str, Any]:
    """Return the given properties but those that a command sets itself; a line on stderr names these."""
    given = given_properties()
    for name in given.keys() & refused.keys():
        click.echo(f"streamactors: the property {name} has no effect on this command", err=True)
        del given[name]
    return given


def admin_client(bootstrap: str) -> Admin:
    """Return an admin client."""
    from streamactors.kafka.client.admin import Admin  # librdkafka: only when a command talks to a broker

    return Admin(client_settings(bootstrap))
