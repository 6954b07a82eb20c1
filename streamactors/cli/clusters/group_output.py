"""What `streamactors groups describe` shows of a group: lines and tables for people, objects for programs."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from streamactors.cli.colours import has_colours, in_colour
from streamactors.cli.tables import NONE, folded_table, print_table
from streamactors.cli.texts import counted

if TYPE_CHECKING:
    from rich.console import RenderableType

    from streamactors.cli.clusters.group_lag import GroupLag
    from streamactors.kafka.client.admin_values import Member

PARTITIONS: Final = ("topic", "partition", "committed", "end", "lag", "lag s", "client", "host")
MEMBERS: Final = ("client", "host", "member", "instance", "partitions")
MOST_NAMED: Final = 5
_STATES: Final = {"Stable": "green", "Empty": "dim", "Dead": "red"}
"""The colour of a state; others pass and are yellow."""


def print_group(found: GroupLag) -> None:
    """Print a group as a sentence, its partitions, its members, and what is to be noted; what could not be found out goes to stderr."""
    state = found.group.state
    colour = in_colour(state, _STATES.get(state, "yellow"), on=has_colours(sys.stdout))
    click.echo(summary(found).replace(state, colour, 1) if colour != state else summary(found))
    for number, (columns, rows) in enumerate(tables(found)):
        if number:
            click.echo("")
        print_table(columns, rows)
    for note in notes(found):
        click.echo(note)


def live(found: GroupLag, trouble: str) -> RenderableType:
    """Return a group for rich; `trouble`: why this is not the newest state."""
    from rich.console import Group
    from rich.text import Text

    parts: list[RenderableType] = [Text(summary(found), style="bold")]
    parts += [folded_table(columns, rows) for columns, rows in tables(found)]
    parts += [Text(note) for note in (*notes(found), *unknown(found))]
    if trouble:
        parts.append(Text(trouble, style="bold red"))
    return Group(*parts)


def summary(found: GroupLag) -> str:
    """Return the group's state and its whole lag as a sentence."""
    group, behind = found.group, found.behind
    begun = sum(row.lag or 0 for row in found.rows if row.committed is None)
    of_them = f", {begun} of them in partitions without a committed offset" if begun else ""
    age = found.seconds_behind
    old = f"; the oldest is {age:,.1f} s old" if behind and age else ""
    members = counted(len(group.members), "member")
    records = counted(behind, "record")
    return f"{group.group}: {group.state}, {members}, assignor {group.assignor or NONE}, {records} behind{of_them}{old}"


def tables(found: GroupLag) -> Iterator[tuple[Sequence[str], list[Sequence[Any]]]]:
    """Yield the tables of partitions and of members, those that have rows."""
    if found.rows:
        yield PARTITIONS, [_partition(found, number) for number in range(len(found.rows))]
    if found.group.members:
        yield (
            MEMBERS,
            [
                (each.client_id, each.host, each.member_id, each.instance_id or NONE, len(each.partitions))
                for each in found.group.members
            ],
        )


def _partition(found: GroupLag, number: int) -> Sequence[Any]:
    row = found.rows[number]
    seconds = found.seconds.get(row.key)
    owner = row.owner
    cells = (
        *(row.topic, row.partition, row.committed, row.end, row.lag),
        None if seconds is None else round(seconds, 1),
        *((owner.client_id, owner.host) if owner else (None, None)),
    )
    return [NONE if cell is None else cell for cell in cells]


def notes(found: GroupLag) -> Iterator[str]:
    """Yield what the numbers do not say by themselves."""
    for row in found.rows:
        if row.deleted:
            were = "record was" if row.deleted == 1 else "records were"
            yield f"{row.key}: {row.deleted} {were} deleted before they were read (committed {row.committed}, the first is {row.start})"
        if row.committed is not None and row.end is not None and row.committed > row.end:
            yield f"{row.key}: the committed offset {row.committed} is after the end {row.end}: the topic was created anew, or its end was lost"
    if found.only_offsets:
        yield f"{_named(found.only_offsets)}: the offsets that are left have no records: they end transactions, or were compacted"


def unknown(found: GroupLag) -> Iterator[str]:
    """Yield whose lag in seconds is not known, and why."""
    for topic in sorted(found.unreadable):
        yield f"the lag in seconds of {topic} is not known: this user may not READ the topic"
    if found.unknown:
        why = found.trouble or "no answer in time, or records without timestamps; try again"
        yield f"the lag in seconds of {_named(found.unknown)} is not known: {why}"


def objects(found: GroupLag) -> Iterator[dict[str, Any]]:
    """Yield an object for each partition, and for each member without one; one without both if the group has neither."""
    group = found.group
    about = {"group": group.group, "state": group.state, "assignor": group.assignor or None}
    nobody = not found.rows and not group.members
    for row in found.rows:
        place = {name: getattr(row, name) for name in ("topic", "partition", "committed", "start", "end", "lag")}
        seconds = {"lag_seconds": found.seconds.get(row.key), "deleted": row.deleted}
        yield {**about, **place, **seconds, **_member(row.owner)}
    for member in (*(each for each in group.members if not each.partitions), *((None,) if nobody else ())):
        nothing = dict.fromkeys(("topic", "partition", "committed", "start", "end", "lag", "lag_seconds"))
        yield {**about, **nothing, "deleted": 0, **_member(member)}


def _member(member: Member | None) -> dict[str, Any]:
    names = ("client_id", "host", "member_id", "instance_id")
    return dict.fromkeys(names) if member is None else {name: getattr(member, name) for name in names}


def _named(keys: Any) -> str:
    """Return the names of the first few partitions."""
    ordered = [str(key) for key in sorted(keys)]
    more = f" and {len(ordered) - MOST_NAMED} more" if len(ordered) > MOST_NAMED else ""
    return ", ".join(ordered[:MOST_NAMED]) + more
