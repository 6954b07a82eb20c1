"""Share groups in `streamactors groups list | describe`: read with Kafka's protocol itself, because librdkafka does not know them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from streamactors.broker.errors import ErrorCode
from streamactors.cli.tables import print_json, print_table
from streamactors.cli.texts import counted
from streamactors.kafka.client.admin_values import ListedGroup

if TYPE_CHECKING:
    from streamactors.kafka.client.cluster_requests import ClusterRequests

LIST_GROUPS, DESCRIBE, DESCRIBE_OFFSETS = 16, 77, 90
WITH_TYPES: Final = 5
"""The version of ListGroups from which on it knows the types of groups."""
SHARE: Final = "share"
PARTITIONS: Final = ("topic", "partition", "start", "lag")
MEMBERS: Final = ("client", "host", "member", "partitions")
_NO_LAG: Final = -1


class SharePlace(NamedTuple):
    """A partition of a share group. `start`: everything before it is done. None: not known, or nothing was fetched yet."""

    topic: str
    partition: int
    start: int | None
    lag: int | None


class ShareGroup(NamedTuple):
    """A share group as it is now."""

    group: str
    state: str
    members: Sequence[Any]
    rows: Sequence[SharePlace]

    @property
    def behind(self) -> int:
        """The number of records that are not done, in partitions where that is known."""
        return sum(row.lag or 0 for row in self.rows)


def listed_share_groups(wire: ClusterRequests) -> list[ListedGroup]:
    """Return the share groups by name; none if the cluster is too old to have them. Raises Refused."""
    from streamactors.kafka.client.cluster_requests import Refused

    if wire.versions().get(LIST_GROUPS, 0) < WITH_TYPES:
        return []
    found = []
    asked = {"states_filter": [], "types_filter": [SHARE]}
    for broker in wire.brokers():
        answer = wire.retried(
            partial(wire.call, broker, LIST_GROUPS, WITH_TYPES, asked), lambda listed: listed.error_code
        )
        if answer.error_code:
            raise Refused("the list of share groups", answer.error_code)
        found += [ListedGroup(each.group_id, each.group_state, SHARE) for each in answer.groups]
    return sorted(found)


def share_group(wire: ClusterRequests, group: str) -> ShareGroup | None:
    """Return a share group, None if there is no such group, or if it is of another kind. Raises Refused."""
    from streamactors.kafka.client.cluster_requests import GROUP, Refused

    versions = wire.versions()
    if DESCRIBE not in versions or DESCRIBE_OFFSETS not in versions:
        return None
    asked: dict[str, Any] = {"group_ids": [group], "include_authorized_operations": False}
    answer = wire.retried(
        lambda: wire.call_coordinator(GROUP, group, DESCRIBE, 1, asked), lambda found: found.groups[0].error_code
    )
    (found,) = answer.groups
    if found.error_code in (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION):
        return None
    if found.error_code:
        raise Refused(f"group {group!r}", found.error_code)
    wanted = {"groups": [{"group_id": group, "topics": None}]}
    version = min(versions[DESCRIBE_OFFSETS], 1)
    (offsets,) = wire.call_coordinator(GROUP, group, DESCRIBE_OFFSETS, version, wanted).groups
    if offsets.error_code:
        raise Refused(f"the offsets of group {group!r}", offsets.error_code)
    rows = [
        SharePlace(
            topic.topic_name,
            each.partition_index,
            None if each.start_offset < 0 else each.start_offset,
            None if (lag := getattr(each, "lag", _NO_LAG)) == _NO_LAG else lag,
        )
        for topic in offsets.topics
        for each in topic.partitions
    ]
    return ShareGroup(group, found.group_state, found.members, sorted(rows))


def print_share_group(found: ShareGroup, as_json: bool) -> None:
    """Print a share group for people, or an object for each partition."""
    if as_json:
        print_json(_objects(found))
        return
    members, records = counted(len(found.members), "member"), counted(found.behind, "record")
    click.echo(f"{found.group}: {found.state}, a share group, {members}, {records} not done")
    if found.rows:
        print_table(PARTITIONS, found.rows)
    if found.members:
        click.echo("")
        print_table(
            MEMBERS,
            [(each.client_id, each.client_host, each.member_id, _partitions_of(each)) for each in found.members],
        )


def _partitions_of(member: Any) -> int:
    return sum(len(topic.partitions) for topic in member.assignment.topic_partitions)


def _objects(found: ShareGroup) -> Iterator[dict[str, Any]]:
    for row in found.rows:
        yield {"group": found.group, "type": SHARE, "state": found.state, **row._asdict()}
