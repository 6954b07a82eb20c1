"""`streamactors query`: read a store of a running graph."""

from __future__ import annotations

import click

from streamactors.cli.places import MOMENT
from streamactors.cli.tables import json_option, print_json, print_table
from streamactors.errors import BuildError
from streamactors.kafka.property_rules import addresses_of
from streamactors.kafka.state.queries.query_peers import ask_with_lag
from streamactors.kafka.state.queries.query_server import as_json as entry_as_json
from streamactors.kafka.state.queries.query_server import request_of
from streamactors.kafka.state.queries.query_wire import BadRequest


@click.command("query")
@click.argument("store")
@click.argument("key", required=False)
@click.option(
    "--at", "address", required=True, metavar="HOST:PORT", help="An instance: the address of its State(advertise=…)."
)
@click.option(
    "--token", envvar="STREAMACTORS_QUERY_TOKEN", required=True, help="Its token; or STREAMACTORS_QUERY_TOKEN."
)
@click.option("--prefix", help="Keys that begin so.")
@click.option("--from", "first", help="The first key of a range.")
@click.option("--to", "last", help="The last key of a range, inclusive.")
@click.option("--windows", is_flag=True, help="The windows of KEY.")
@click.option(
    "--since",
    type=MOMENT,
    metavar="WHEN",
    help="Windows that begin at this time or later: ms since 1970, -1h, or 2026-01-31T12:00 (UTC).",
)
@click.option("--until", type=MOMENT, metavar="WHEN", help="Windows that begin at this time or earlier; as --since.")
@click.option("--int", "number", is_flag=True, help="Keys are numbers.")
@click.option("--dirty", is_flag=True, help="Include results that are not committed yet.")
@click.option(
    "--stale", is_flag=True, help="Only the instance at --at answers, also from its standby copies of the others."
)
@json_option
def command(
    store: str,
    key: str | None,
    address: str,
    token: str,
    prefix: str | None,
    first: str | None,
    last: str | None,
    windows: bool,
    since: int | None,
    until: int | None,
    number: bool,
    dirty: bool,
    stale: bool,
    as_json: bool,
) -> None:
    """Read a store of a running graph: one key, a range, a prefix, the windows of a key, or everything.

    The instance at --at answers, and asks the other instances of its group for what it does not have.

    \b
    Examples:
      streamactors query people ada --at 127.0.0.1:8080
      streamactors query counts JFK --windows --since 0 --at 127.0.0.1:8080 --json
    """
    try:
        at = addresses_of(address)
    except BuildError as error:
        raise click.BadParameter(str(error), param_hint="--at") from None
    if len(at) > 1:
        raise click.BadParameter("name one instance", param_hint="--at")
    if windows and key is None:
        raise click.UsageError("--windows needs a KEY")
    if not windows and (since is not None or until is not None):
        raise click.UsageError("--since and --until choose windows of a KEY; give --windows, too")
    asked = {
        "windows" if windows else "key": key,
        "prefix": prefix,
        "from": first,
        "to": last,
        "since": None if since is None else str(since),
        "until": None if until is None else str(until),
        "type": "int" if number else None,
    }
    try:
        request = request_of({name: text for name, text in asked.items() if text is not None})
    except BadRequest as error:
        raise click.UsageError(str(error)) from error
    found, lag = ask_with_lag(address, token, store, request, dirty=dirty, local=False, stale=stale)
    if as_json:
        print_json(entry_as_json(entry) for entry in found)
    elif found:
        rows = [tuple("" if field is None else str(field) for field in entry) for entry in found]
        print_table(("key", "value", "timestamp", "start", "end"), rows)
    else:
        click.echo(f"store {store} has no entry for this")
    if lag:
        click.echo(f"the standby copies at {address} are up to {lag} changelog entries behind", err=True)
