"""`streamactors quotas`: list, set and remove the quotas of users, client ids and addresses."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from streamactors.cli.bootstrap import bootstrap_option, client_settings
from streamactors.cli.tables import json_option, print_json, print_table

if TYPE_CHECKING:
    from streamactors.kafka.client.cluster_requests import ClusterRequests

DESCRIBE, ALTER = 48, 49
KINDS = ("user", "client-id", "ip")
DEFAULT = "<default>"
KEYS = ("producer_byte_rate", "consumer_byte_rate", "request_percentage", "connection_creation_rate")


def _entity_options(fn: Callable[..., Any]) -> Callable[..., Any]:
    for kind, text in (("ip", "addresses"), ("client-id", "client ids"), ("user", "users")):
        name = kind.replace("-", "_")
        fn = click.option(
            f"--all-{kind}s", f"all_{name}", is_flag=True, help=f"All {text} without a quota of their own."
        )(fn)
        fn = click.option(f"--{kind}", name, metavar="NAME")(fn)
    return bootstrap_option(fn)


def _entity(named: dict[str, Any]) -> list[dict[str, Any]]:
    entity = []
    for kind in KINDS:
        name = kind.replace("-", "_")
        one, everyone = named[name], named[f"all_{name}"]
        if one is not None and everyone:
            raise click.UsageError(f"give --{kind} or --all-{kind}s, not both")
        if one is not None or everyone:
            entity.append({"entity_type": kind, "entity_name": one})
    if not entity:
        raise click.UsageError(
            "whose quota? name --user, --client-id or --ip, or one of --all-users, --all-client-ids, --all-ips"
        )
    return entity


@click.group("quotas")
def command() -> None:
    """List, set and remove quotas: how much users and client ids may produce, fetch and ask for, and how fast addresses may connect.

    \b
    Examples:
      streamactors quotas set producer_byte_rate=1000000 --user ann
      streamactors quotas set request_percentage=50 --all-users --client-id batch
      streamactors quotas list
    """


@command.command("list")
@bootstrap_option
@json_option
def list_quotas(bootstrap: str, as_json: bool) -> None:
    """List the quotas.

    \b
    Example:
      streamactors quotas list --json
    """
    with _wire(bootstrap) as wire:
        answer = wire.call(wire.brokers()[0], DESCRIBE, 1, {"components": [], "strict": False})
    _check("the quotas", answer.error_code, answer.error_message)
    rows = []
    for entry in answer.entries:
        of = {part.entity_type: DEFAULT if part.entity_name is None else part.entity_name for part in entry.entity}
        rows += [(*(of.get(kind, "") for kind in KINDS), each.key, each.value) for each in entry.values]
    rows.sort()
    columns = (*KINDS, "quota", "value")
    if as_json:
        print_json(dict(zip(columns, row, strict=True)) for row in rows)
    elif rows:
        print_table(columns, rows)
    else:
        click.echo(f"no quotas at {bootstrap}")


@command.command("set")
@_entity_options
@click.argument("quotas", nargs=-1, required=True, metavar="QUOTA=VALUE...")
def set_quotas(bootstrap: str, quotas: tuple[str, ...], **named: Any) -> None:
    """Set quotas of a user, a client id, both together, or an address.

    producer_byte_rate and consumer_byte_rate are bytes in a second, request_percentage is percent of one thread of the broker,
    connection_creation_rate is connections in a second.

    \b
    Example:
      streamactors quotas set producer_byte_rate=1000000 consumer_byte_rate=2000000 --user ann
    """
    entity = _entity(named)
    ops = []
    for each in quotas:
        key, sign, value = each.partition("=")
        try:
            number = float(value)
        except ValueError:
            raise click.UsageError(
                f"{each!r} is not a quota; its form is QUOTA=NUMBER, as in producer_byte_rate=1000000"
            ) from None
        if not sign or key not in KEYS:
            raise click.UsageError(f"{key!r} is not a quota; there are {', '.join(KEYS)}")
        ops.append({"key": key, "value": number, "remove": False})
    _alter(bootstrap, entity, ops)


@command.command("remove")
@_entity_options
@click.argument("quotas", nargs=-1, required=True, metavar="QUOTA...", type=click.Choice(KEYS))
def remove_quotas(bootstrap: str, quotas: tuple[str, ...], **named: Any) -> None:
    """Remove quotas; a less specific quota may hold then.

    \b
    Example:
      streamactors quotas remove producer_byte_rate --user ann
    """
    _alter(bootstrap, _entity(named), [{"key": key, "value": 0.0, "remove": True} for key in quotas])


def _alter(bootstrap: str, entity: list[dict[str, Any]], ops: list[dict[str, Any]]) -> None:
    with _wire(bootstrap) as wire:
        body = {"entries": [{"entity": entity, "ops": ops}], "validate_only": False}
        answer = wire.call(wire.brokers()[0], ALTER, 1, body)
    whose = ", ".join(f"{each['entity_type']} {each['entity_name'] or DEFAULT}" for each in entity)
    for entry in answer.entries:
        _check(f"the quota of {whose}", entry.error_code, entry.error_message)
    for op in ops:
        click.echo(f"{whose}: {op['key']} {'removed' if op['remove'] else format(op['value'], 'g')}")


def _wire(bootstrap: str) -> ClusterRequests:
    from streamactors.kafka.client.cluster_requests import ClusterRequests

    return ClusterRequests(bootstrap, client_settings(bootstrap).security())


def _check(what: str, code: int, message: str | None) -> None:
    from streamactors.kafka.client.cluster_requests import Refused
    from streamactors.kafka.errors import KafkaError

    if code:
        refused = Refused(what, code)
        raise KafkaError(f"{refused}: {message}") if message else refused
