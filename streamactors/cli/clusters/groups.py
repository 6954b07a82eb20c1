"""`streamactors groups`: list, describe, reset the offsets of, and delete consumer groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from streamactors.cli.bootstrap import admin_client, bootstrap_option, client_settings, consumer_settings
from streamactors.cli.completing import complete_groups
from streamactors.cli.durations import Seconds
from streamactors.cli.places import PLACE, Place
from streamactors.cli.progress import progress
from streamactors.cli.tables import json_option, print_json, print_table
from streamactors.kafka.errors import KafkaError

if TYPE_CHECKING:
    from streamactors.cli.clusters.group_lag import GroupLag, GroupLags
    from streamactors.cli.clusters.share_groups import ShareGroup


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
    """List the groups and their states, share groups included.

    \b
    Example:
      streamactors groups list --json
    """
    from streamactors.cli.clusters.share_groups import listed_share_groups
    from streamactors.kafka.client.cluster_requests import ClusterRequests

    groups = admin_client(bootstrap).groups()
    with ClusterRequests(bootstrap, client_settings(bootstrap).security()) as wire:
        groups = sorted({*groups, *listed_share_groups(wire)})
    if as_json:
        print_json(group._asdict() for group in groups)
    elif groups:
        print_table(("group", "state", "protocol"), groups)
    else:
        click.echo(f"no groups at {bootstrap}")


@command.command("describe")
@bootstrap_option
@click.argument("group", shell_complete=complete_groups)
@click.option("--follow", "-f", is_flag=True, help="Look again and again, until Ctrl-C.")
@click.option(
    "--every",
    type=Seconds(0.1),
    default="2s",
    show_default=True,
    metavar="TIME",
    help="The time between two looks with --follow, at least 0.1 s. A number is seconds.",
)
@json_option
def describe(bootstrap: str, group: str, follow: bool, every: float, as_json: bool) -> None:
    """Show a group's state and members, and how far it is behind in each partition.

    Each partition that the group has committed or owns is shown, and the other partitions of those topics. The lag is the number of records that are
    left to read; without a committed offset it is the whole partition. The lag in seconds is the age of the first of them by its timestamp, and 0 when
    none is left. To read that timestamp, this command needs the right to READ the topic.

    Of a share group each partition is shown with its start, before which all records are done, and with the number of records that are not done. A
    lag that only another broker knows is left out. --follow is for consumer groups.

    \b
    Examples:
      streamactors groups describe flights-to-store
      streamactors groups describe flights-to-store --follow
      streamactors groups describe flights-to-store --json
    """
    from streamactors.cli.clusters.group_follow import follow_group, print_once
    from streamactors.cli.clusters.group_lag import GroupLags
    from streamactors.cli.clusters.share_groups import ShareGroup as Shared
    from streamactors.cli.clusters.share_groups import print_share_group

    with GroupLags(admin_client(bootstrap), consumer_settings(bootstrap)) as lags:
        if follow:
            follow_group(lags, group, every, as_json)
        else:
            with progress(f"look at {group}", quiet=as_json):
                found = _look(lags, bootstrap, group)
            if isinstance(found, Shared):
                print_share_group(found, as_json)
            else:
                print_once(found, as_json)


def _look(lags: GroupLags, bootstrap: str, group: str) -> GroupLag | ShareGroup:
    from streamactors.cli.clusters.share_groups import share_group
    from streamactors.kafka.client.cluster_requests import ClusterRequests
    from streamactors.kafka.errors import GroupNotFound

    try:
        return lags.look(group)
    except GroupNotFound:
        with ClusterRequests(bootstrap, client_settings(bootstrap).security()) as wire:
            found = share_group(wire, group)
        if found is None:
            raise
        return found


@command.command("reset-offsets")
@bootstrap_option
@click.argument("group", shell_complete=complete_groups)
@click.option("--topic", "-t", required=True, metavar="TOPIC[:PARTITION]", help="Which offsets to set.")
@click.option(
    "--to",
    "target",
    type=PLACE,
    required=True,
    metavar="WHERE",
    help="beginning or earliest, end or latest, an offset, +N, -N, a time ago such as -1h, or a time.",
)
@click.option("--dry-run", is_flag=True, help="Only show what would be set.")
@json_option
def reset_offsets(bootstrap: str, group: str, topic: str, target: Place, dry_run: bool, as_json: bool) -> None:
    """Set where a group without members continues.

    WHERE is `beginning` or `earliest`, `end` or `latest`, an offset (17 or @17), a number of records to move forward (+N) or back (-N) from
    the committed offset, a time ago such as -1h, or a time such as 2013-01-01T06:00 (UTC unless it says otherwise): the first record at or after it.

    \b
    Examples:
      streamactors groups reset-offsets flights-to-store --topic flights --to earliest
      streamactors groups reset-offsets flights-to-store --topic flights --to -1h --dry-run
    """
    from streamactors.cli.clusters.offset_targets import places_of, targets

    if not group:
        raise click.UsageError("GROUP is empty; see: streamactors groups list")
    with progress(f"reset {group}", quiet=as_json):
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


@command.command("delete")
@bootstrap_option
@click.argument("groups", nargs=-1, required=True, metavar="GROUP...", shell_complete=complete_groups)
def delete(bootstrap: str, groups: tuple[str, ...]) -> None:
    """Delete groups that have no members, and their committed offsets.

    \b
    Example:
      streamactors groups delete flights-to-store
    """
    admin = admin_client(bootstrap)
    with progress("delete groups", len(groups), "groups") as bar:
        for group in groups:
            admin.delete_group(group)
            bar.add()
            click.echo(f"group {group} deleted")
