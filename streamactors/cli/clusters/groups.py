"""`streamactors groups`: list, describe, reset the offsets of, and delete consumer groups."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import click

from streamactors.cli.bootstrap import admin_client, bootstrap_option
from streamactors.cli.tables import json_option, print_json, print_table
from streamactors.kafka.errors import KafkaError

if TYPE_CHECKING:
    from streamactors.kafka.client.admin import Admin, Group


class Lag(NamedTuple):
    """A partition of a group; None where nothing is committed, the partition has no leader, or no member owns it."""

    topic: str
    partition: int
    committed: int | None
    end: int | None
    lag: int | None
    member: str | None
    host: str | None


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
    groups = admin_client(bootstrap).groups()
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
    """Show a group's members, and the committed offset, the end and the lag of each partition.

    \b
    Example:
      streamactors groups describe flights-to-store
    """
    admin = admin_client(bootstrap)
    found = admin.describe_group(group)
    lag = lag_of(admin, found)
    if as_json:
        print_json(row._asdict() for row in lag)
        return
    members = f"{len(found.members)} member{'' if len(found.members) == 1 else 's'}"
    behind = sum(row.lag or 0 for row in lag)
    begun = [row for row in lag if row.committed is None and row.lag]
    of_them = (
        f", {sum(row.lag or 0 for row in begun)} of them in partitions without a committed offset" if begun else ""
    )
    click.echo(f"{group}: {found.state}, {members}, assignor {found.assignor or '-'}, {behind} records behind{of_them}")
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
    """Set where a group without members continues.

    WHERE is `earliest`, `latest`, an offset, a number of records to go on (+N) or back (-N) from the committed
    offset, or a time such as 2013-01-01T06:00 (UTC unless it says otherwise): the first record at or after it.

    \b
    Example:
      streamactors groups reset-offsets flights-to-store --topic flights --to earliest
    """
    from streamactors.cli.clusters.offset_targets import places_of, targets

    if not group:
        raise click.UsageError("GROUP is empty; see: streamactors groups list")
    admin = admin_client(bootstrap)
    places = places_of(admin, topic)
    before = admin.committed(group)
    after = targets(admin, places, before, target)
    if not dry_run:
        state = {each.group: each.state for each in admin.groups()}.get(group, "Empty")
        if state != "Empty":
            raise KafkaError(f"group {group!r} is {state}; stop its members before its offsets are set")
        admin.commit(group, after)
    columns = ("topic", "partition", "before", "after")
    rows = [(*place, before.get(place), offset) for place, offset in sorted(after.items())]
    if as_json:
        print_json(dict(zip(columns, row, strict=True)) for row in rows)
    else:
        print_table(columns, [tuple("-" if cell is None else cell for cell in row) for row in rows])
        if dry_run:
            click.echo("nothing was set (--dry-run)")


def lag_of(admin: Admin, group: Group) -> list[Lag]:
    """Return every partition of the topics that the group has committed or owns, with the number of records left to read.

    All records of a partition without a committed offset are left; `auto_offset_reset` decides whether they are read."""
    from streamactors.kafka.client.admin import EARLIEST, LATEST
    from streamactors.kafka.subscriptions import TopicPartition

    committed = admin.committed(group.group)
    owners = {key: member for member in group.members for key in member.partitions}
    topics = {key.topic for key in (*committed, *owners)}
    counted = {
        TopicPartition(topic.name, number)
        for topic in admin.topics()
        if topic.name in topics
        for number in range(topic.partitions)
    }
    keys = sorted({*committed, *owners, *counted})
    ends = admin.offsets(dict.fromkeys(keys, LATEST), unknown_ok=True)
    begins = admin.offsets(dict.fromkeys((key for key in keys if key not in committed), EARLIEST), unknown_ok=True)
    rows = []
    for key in keys:
        at, end, owner = committed.get(key), ends.get(key), owners.get(key)
        begin = begins.get(key) if at is None else at
        left = None if begin is None or end is None else max(end - begin, 0)
        rows.append(Lag(*key, at, end, left, owner and owner.client_id, owner and owner.host))
    return rows


@command.command("delete")
@bootstrap_option
@click.argument("groups", nargs=-1, required=True, metavar="GROUP...")
def delete(bootstrap: str, groups: tuple[str, ...]) -> None:
    """Delete groups that have no members, and their committed offsets.

    \b
    Example:
      streamactors groups delete flights-to-store
    """
    admin = admin_client(bootstrap)
    for group in groups:
        admin.delete_group(group)
        click.echo(f"group {group} deleted")
