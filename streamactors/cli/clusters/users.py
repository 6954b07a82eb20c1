"""`streamactors users`: list, set and remove the SCRAM credentials of a cluster's users."""

from __future__ import annotations

import sys

import click

from streamactors.cli.bootstrap import admin_client, bootstrap_option
from streamactors.cli.tables import json_option, print_json, print_table

MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")


@click.group("users")
def command() -> None:
    """List, set and remove users of SCRAM.

    \b
    Examples:
      streamactors users set ann < password.txt
      streamactors users list
    """


@command.command("list")
@bootstrap_option
@json_option
def list_users(bootstrap: str, as_json: bool) -> None:
    """List the users and their mechanisms. Passwords cannot be read.

    \b
    Example:
      streamactors users list --json
    """
    users = admin_client(bootstrap).users()
    if as_json:
        print_json(user._asdict() for user in users)
    elif users:
        print_table(("user", "mechanism", "iterations"), users)
    else:
        click.echo(f"no users at {bootstrap}")


@command.command("set")
@bootstrap_option
@click.argument("user")
@click.option("--mechanism", type=click.Choice(MECHANISMS), default="SCRAM-SHA-512", show_default=True)
@click.option("--iterations", type=click.IntRange(4096, 16384), default=4096, show_default=True)
def set_user(bootstrap: str, user: str, mechanism: str, iterations: int) -> None:
    """Set a user's password. It is asked for, or read from standard input: arguments are seen by every user of the machine.

    \b
    Example:
      streamactors users set ann < password.txt
    """
    if sys.stdin.isatty():
        password = click.prompt("password", hide_input=True, confirmation_prompt=True)
    else:
        password = sys.stdin.readline().rstrip("\r\n")
    if not password:
        raise click.UsageError("the password is empty")
    admin_client(bootstrap).set_user(user, password, mechanism, iterations)
    click.echo(f"{user} logs in by {mechanism}")


@command.command("remove")
@bootstrap_option
@click.argument("user")
@click.option("--mechanism", type=click.Choice(MECHANISMS), default="SCRAM-SHA-512", show_default=True)
def remove_user(bootstrap: str, user: str, mechanism: str) -> None:
    """Remove a user's credential. Open connections stay.

    \b
    Example:
      streamactors users remove ann
    """
    admin_client(bootstrap).remove_user(user, mechanism)
    click.echo(f"{user} can no longer log in by {mechanism}")
