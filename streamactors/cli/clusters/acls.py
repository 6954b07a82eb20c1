"""`streamactors acls`: list, add and remove access control entries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from streamactors.cli.bootstrap import admin_client, bootstrap_option
from streamactors.cli.tables import json_option, print_json, print_table

CLUSTER = "kafka-cluster"
RESOURCES = ("topic", "group", "cluster", "transactional_id")
OPERATIONS = (
    "all",
    "read",
    "write",
    "create",
    "delete",
    "alter",
    "describe",
    "cluster_action",
    "describe_configs",
    "alter_configs",
    "idempotent_write",
)


def _entry_options(fn: Callable[..., Any]) -> Callable[..., Any]:
    for option in (
        click.option("--host", default="*", show_default=True, help="The client's address."),
        click.option("--deny", is_flag=True, help="Deny instead of allow."),
        click.option("--prefix", is_flag=True, help="NAME is a prefix: the entry is for all names that begin with it."),
        click.argument("name", default=CLUSTER),
        click.argument("resource", type=click.Choice(RESOURCES, case_sensitive=False)),
        click.argument("operation", type=click.Choice(OPERATIONS, case_sensitive=False)),
        click.argument("principal"),
        bootstrap_option,
    ):
        fn = option(fn)
    return fn


@click.group("acls")
def command() -> None:
    """List, add and remove access control entries: who may do what on which topic, group or cluster.

    \b
    Examples:
      streamactors acls add ann read topic orders
      streamactors acls add ann read group orders- --prefix
      streamactors acls list
    """


@command.command("list")
@bootstrap_option
@json_option
def list_acls(bootstrap: str, as_json: bool) -> None:
    """List the entries.

    \b
    Example:
      streamactors acls list --json
    """
    entries = admin_client(bootstrap).acls()
    if as_json:
        print_json(entry._asdict() for entry in entries)
    elif entries:
        print_table(("principal", "permission", "operation", "resource", "name", "pattern", "host"), entries)
    else:
        click.echo(f"no access control entries at {bootstrap}; a broker without an authoriser has none")


@command.command("add")
@_entry_options
def add(
    bootstrap: str, principal: str, operation: str, resource: str, name: str, prefix: bool, deny: bool, host: str
) -> None:
    """Allow PRINCIPAL (a user's name) an operation on a resource. `*` is every name.

    \b
    Example:
      streamactors acls add ann write topic orders
    """
    entry = _entry(principal, operation, resource, name, prefix, deny, host)
    admin_client(bootstrap).add_acls([entry])
    click.echo(
        f"{entry.principal} is {'denied' if deny else 'allowed'} {entry.operation} on {entry.resource} {entry.name}"
    )


@command.command("remove")
@_entry_options
def remove(
    bootstrap: str, principal: str, operation: str, resource: str, name: str, prefix: bool, deny: bool, host: str
) -> None:
    """Remove an entry, named as it was added.

    \b
    Example:
      streamactors acls remove ann write topic orders
    """
    removed = admin_client(bootstrap).remove_acls(_entry(principal, operation, resource, name, prefix, deny, host))
    if not removed:
        raise click.ClickException("there is no such entry; see: streamactors acls list")
    click.echo(f"{removed} removed")


def _entry(principal: str, operation: str, resource: str, name: str, prefix: bool, deny: bool, host: str) -> Any:
    from streamactors.kafka.client.admin_security import AclEntry

    if not principal or not name:
        raise click.UsageError("PRINCIPAL and NAME must not be empty; '*' means every name")
    if name == CLUSTER and resource.upper() != "CLUSTER":
        raise click.UsageError(
            f"name the {resource.lower()}, as in: streamactors acls add ann read topic orders; '*' means every one"
        )
    return AclEntry(
        principal if ":" in principal else f"User:{principal}",
        "DENY" if deny else "ALLOW",
        operation.upper(),
        resource.upper(),
        name,
        "PREFIXED" if prefix else "LITERAL",
        host,
    )
