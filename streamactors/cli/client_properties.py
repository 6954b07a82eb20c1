"""`-X NAME=VALUE` and `--config FILE`: librdkafka's properties for the clients of a command, as kcat and Kafka's tools take them.

Later sources win: the profile, the file, then `-X`, then STREAMACTORS_KAFKA_… variables."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import click

from streamactors.cli.profiles.chosen import used_profile
from streamactors.cli.property_file import properties_of

_META: Final = "streamactors.client_properties"


def _from_option(ctx: click.Context, _: click.Parameter, given: tuple[str, ...]) -> tuple[str, ...]:
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise click.BadParameter(f"{name!r}: its form is NAME=VALUE, as in security.protocol=SASL_SSL")
        ctx.meta.setdefault(_META, {})[name.strip()] = value
    return given


def _from_file(ctx: click.Context, _: click.Parameter, path: str | None) -> str | None:
    if path is not None:
        if "=" in path and not Path(path).exists():
            sets = any("--set" in param.opts for param in ctx.command.params)
            way = f"a setting is given by --set {path}" if sets else f"one property is given by -X {path}"
            raise click.BadParameter(f"{path} is no file; --config takes a file of client properties, and {way}")
        known = ctx.meta.setdefault(_META, {})
        for name, value in properties_of(Path(path)).items():
            known.setdefault(name, value)
    return path


x_option = click.option(
    "-X",
    "properties",
    multiple=True,
    metavar="NAME=VALUE",
    expose_value=False,
    is_eager=True,
    callback=_from_option,
    help="A property of librdkafka, as security.protocol=SASL_SSL; may be given several times.",
)
config_option = click.option(
    "--config",
    "client_config",
    metavar="FILE",
    expose_value=False,
    callback=_from_file,
    help="A file of client properties, with librdkafka's or Apache Kafka's names.",
)


def given_properties() -> dict[str, Any]:
    """Return what the profile, `--config` and `-X` of the running command have given; the later ones win. Raises ProfileError."""
    ctx = click.get_current_context(silent=True)
    found: dict[str, Any] = {} if ctx is None else ctx.meta.get(_META, {})
    profile = used_profile()
    return {**({} if profile is None else profile.resolved()), **found}
