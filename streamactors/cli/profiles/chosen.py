"""Which profile a command uses.

What is nearer wins: --bootstrap, then --profile or STREAMACTORS_PROFILE, then STREAMACTORS_BOOTSTRAP, then the default of the file. The
properties of a profile, passwords among them, go only to its own brokers, or to those of --bootstrap beside --profile."""

from __future__ import annotations

from typing import Final

import click
from click.core import ParameterSource

from streamactors.cli.profiles.profile_file import Profile, read_profiles

_NAME: Final = "streamactors.profile_name"
_USED: Final = "streamactors.profile"


def _remember(ctx: click.Context, param: click.Parameter, name: str | None) -> str | None:
    if name and param.name is not None:
        ctx.meta[_NAME] = (name, ctx.get_parameter_source(param.name) is ParameterSource.COMMANDLINE)
    return name


def _complete(_: click.Context, __: click.Parameter, incomplete: str) -> list[str]:
    try:
        return [name for name in read_profiles().profiles if name.startswith(incomplete)]
    except Exception:  # noqa: BLE001  # a prompt shows no errors
        return []


profile_option = click.option(
    "--profile",
    metavar="NAME",
    envvar="STREAMACTORS_PROFILE",
    show_envvar=True,
    expose_value=False,
    is_eager=True,
    callback=_remember,
    shell_complete=_complete,
    help="The cluster of this name in streamactors.toml; see: streamactors profiles.",
)


def bootstrap_of(ctx: click.Context, given: str, source: ParameterSource | None) -> str:
    """Return the address that a command uses, and remember its profile. Raises ProfileError."""
    name, on_command_line = ctx.meta.get(_NAME, (None, False))
    by_hand = source is ParameterSource.COMMANDLINE
    if name is not None and (on_command_line or not by_hand):
        profile = read_profiles().named(name)
    elif by_hand or source is ParameterSource.ENVIRONMENT:
        return given
    else:
        found = read_profiles()
        if found.default is None:
            return given
        profile = found.profiles[found.default]
    ctx.meta[_USED] = profile
    _warn(profile)
    return given if by_hand else profile.bootstrap


def used_profile() -> Profile | None:
    """Return the profile of the running command, None without one."""
    ctx = click.get_current_context(silent=True)
    return None if ctx is None else ctx.meta.get(_USED)


def _warn(profile: Profile) -> None:
    for name in profile.open_secrets:
        click.echo(
            f"streamactors: other users may read {name} in {profile.file}; chmod 600 it, or give {{ file = … }} or {{ env = … }}",
            err=True,
        )
