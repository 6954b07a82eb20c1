"""`streamactors groups`: list, describe, reset the offsets of, and delete consumer groups."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from streamactors.cli.bootstrap import bootstrap_option
from streamactors.cli.tables import json_option, print_json, print_table
from streamactors.kafka.errors import KafkaError

if TYPE_CHECKING:
    from streamactors.cli.group_admin import GroupAdmin


@contextmanager
def _admin(bootstrap: str) -> Iterator[GroupAdmin]:
    from streamactors.cli.group_admin import GroupAdmin  # the codec: only when a broker is talked to
    from streamactors.cli.wire import Wire

    with Wire(bootstrap) as wire:
        yield GroupAdmin(wire)


@click.group("groups")
def command() -> None:
    """List, describe, reset and delete consumer groups.

    \b
    Examples:
      streamactors groups list
      streamactors groups describe hours-to-spark
    """


@command.command("list")
@bootstrap_option
@json_option
def list_groups(bootstrap: str, as_json: bool) -> None:
    """List the groups and their states.

    \b
    Example:
      streamactors groups list --json
    """
    with _admin(bootstrap) as admin:
        groups = admin.groups()
    if as_json:
        print_json(group._asdict() for group in groups)
    elif groups:
        print_table(("group", "state", "protocol"), groups)
    else:
        click.echo(f"no groups at {bootstrap}")


@command.command("describe")
@bootstrap_option
@click.argument("group")
@json_option
def describe(bootstrap: str, group: str, as_json: bool) -> None:
    """Show a group's members, what each partition has committed, where it ends, and the lag between.

    \b
    Example:
      streamactors groups describe flights-to-store
    """
    with _admin(bootstrap) as admin:
        found = admin.describe(group)
        lag = admin.lag(found)
    if as_json:
        print_json(row._asdict() for row in lag)
        return
    members = f"{len(found.members)} member{'' if len(found.members) == 1 else 's'}"
    behind = sum(row.lag or 0 for row in lag)
    click.echo(f"{group}: {found.state}, {members}, assignor {found.assignor or '-'}, {behind} records behind")
    if lag:
        cells = [tuple("-" if cell is None else cell for cell in row) for row in lag]
        print_table(("topic", "partition", "committed", "end", "lag", "client", "host"), cells)
    idle = [member for member in found.members if not member.partitions]
    for member in idle:
        click.echo(f"{member.client_id} ({member.member_id}, {member.host}) owns no partition")


@command.command("reset-offsets")
@bootstrap_option
@click.argument("group")
@click.option("--topic", "-t", required=True, metavar="TOPIC[:PARTITION]", help="Which offsets to set.")
@click.option("--to", "target", required=True, metavar="WHERE", help="earliest, latest, an offset, +N, -N, or a time.")
@click.option("--dry-run", is_flag=True, help="Only show what would be set.")
@json_option
def reset_offsets(bootstrap: str, group: str, topic: str, target: str, dry_run: bool, as_json: bool) -> None:
    """Set where a group without members goes on.

    WHERE is `earliest`, `latest`, an offset, a number of records to go on (+N) or back (-N) from the committed
    offset, or a time such as 2013-01-01T06:00 (UTC unless it says otherwise): the first record at or after it.

    \b
    Example:
      streamactors groups reset-offsets flights-to-store --topic flights --to earliest
    """
    from streamactors.cli.offset_targets import places_of, targets

    with _admin(bootstrap) as admin:
        places = places_of(admin, topic)
        before = admin.committed(group)
        after = targets(admin, places, before, target)
        if not dry_run:
            found = _state(admin, group)
            if found not in (None, "Empty"):
                raise KafkaError(f"group {group!r} is {found}; stop its members before its offsets are set")
            admin.commit(group, after)
    columns = ("topic", "partition", "before", "after")
    rows = [(*place, before.get(place), offset) for place, offset in sorted(after.items())]
    if as_json:
        print_json(dict(zip(columns, row, strict=True)) for row in rows)
    else:
        print_table(columns, [tuple("-" if cell is None else cell for cell in row) for row in rows])
        if dry_run:
            click.echo("nothing was set (--dry-run)")


def _state(admin: GroupAdmin, group: str) -> str | None:
    listed = {each.group: each.state for each in admin.groups()}
    return listed.get(group)


@command.command("delete")
@bootstrap_option
@click.argument("groups", nargs=-1, required=True, metavar="GROUP...")
def delete(bootstrap: str, groups: tuple[str, ...]) -> None:
    """Delete groups that have no members, and their committed offsets.

    \b
    Example:
      streamactors groups delete flights-to-store
    """
    with _admin(bootstrap) as admin:
        for group in groups:
            admin.delete(group)
            click.echo(f"group {group} deleted")
