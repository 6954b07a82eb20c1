"""kafka-consumer-groups.sh and kafka-transactions.sh, with the columns that Apache Kafka's scripts print.

Owner: `kafka_scripts.py`, which finds them by name. Compared with Apache Kafka's tools in tests/differential."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from streamactors.cli.clusters.group_lag import lag_of
from streamactors.kafka.errors import KafkaError
from streamactors.kafka.subscriptions import TopicPartition
from tests.compat.kafka_shims.script_options import Unknown, client_options

if TYPE_CHECKING:
    from streamactors.kafka.client.admin import Admin
    from streamactors.kafka.client.admin_values import Group

OFFSET_DELETE: Final = 47
_VERBS: Final = ("list", "describe", "delete", "reset-offsets", "delete-offsets")
_GROUP_WIDTH, _NAME_WIDTH = 15, 30


def groups(arguments: Sequence[str]) -> int:
    """kafka-consumer-groups.sh: --list, --describe, --delete, --reset-offsets, --delete-offsets."""
    options = client_options("kafka-consumer-groups.sh")
    for verb in _VERBS:
        options.add_argument(f"--{verb}", action="store_const", const=verb, dest="verb")
    options.add_argument("--group", action="append", default=[])
    for flag in ("all-groups", "members", "offsets", "verbose", "all-topics", "execute", "dry-run"):
        options.add_argument(f"--{flag}", action="store_true")
    options.add_argument("--state", nargs="?", const="")
    options.add_argument("--topic", action="append", default=[])
    options.add_argument("--to-earliest", action="store_const", const="earliest", dest="target")
    options.add_argument("--to-latest", action="store_const", const="latest", dest="target")
    options.add_argument("--to-current", action="store_const", const="+0", dest="target")
    for where in ("to-offset", "to-datetime", "shift-by"):
        options.add_argument(f"--{where}")
    asked = options.parse_args(arguments)
    if asked.verb is None or (asked.verb != "list" and not asked.group and not asked.all_groups):
        raise Unknown(f"kafka-consumer-groups.sh: one of --{', --'.join(_VERBS)}, the last four with a --group")
    from streamactors.kafka.client.admin import Admin
    from streamactors.kafka.settings import ClientSettings

    admin = Admin(ClientSettings(asked.bootstrap_server))
    if asked.all_groups:
        asked.group = [listed.group for listed in admin.groups()]
    return _DO[asked.verb](admin, asked)


def _list(admin: Admin, asked: argparse.Namespace) -> int:
    listed = admin.groups()
    if asked.state is None:
        for group in listed:
            print(group.group)
        return 0
    states = {state.strip().lower() for state in asked.state.split(",") if state}
    rows = [(group.group, group.state) for group in listed if not states or group.state.lower() in states]
    width = max(25, *(len(name) for name, _ in rows)) if rows else 25
    for row in (("GROUP", "STATE"), *rows):
        print(f"{row[0]:{width}} {row[1]:20}")
    return 0


def _describe(admin: Admin, asked: argparse.Namespace) -> int:
    for name in asked.group:
        group = admin.describe_group(name)
        if not group.members:
            print(f"\nConsumer group '{name}' has no active members.")
        if asked.state is not None:
            _print_state(admin, group)
        elif asked.members:
            _print_members(group, verbose=asked.verbose)
        else:
            _print_offsets(admin, group)
    return 0


def _print_offsets(admin: Admin, group: Group) -> None:
    owners = {place: member for member in group.members for place in member.partitions}
    rows: list[tuple[object, ...]] = []
    for lag in lag_of(admin, group):
        owner = owners.get((lag.topic, lag.partition))
        if lag.committed is None and owner is None:
            continue  # Apache Kafka's script lists what is committed or owned, and knows no lag without a commit
        member = (owner.member_id, owner.host, owner.client_id) if owner else (None, None, None)
        left = None if lag.committed is None or lag.lag is None else lag.lag + lag.deleted
        rows.append((group.group, lag.topic, lag.partition, lag.committed, lag.end, left, *member))
    if rows:
        header = "GROUP TOPIC PARTITION CURRENT-OFFSET LOG-END-OFFSET LAG CONSUMER-ID HOST CLIENT-ID"
        _print_columns(header, (_GROUP_WIDTH, 15, 10, 15, 15, 15, 15, 15, 0), rows)


def _print_state(admin: Admin, group: Group) -> None:
    host, port, node = group.coordinator
    row = (group.group, f"{host}:{port}  ({node})", group.assignor or None, group.state, len(group.members))
    header = ("GROUP", "COORDINATOR (ID)", "ASSIGNMENT-STRATEGY", "STATE", "#MEMBERS")
    _print_columns(header, (_GROUP_WIDTH, 25, 20, 20, 0), [row])


def _print_members(group: Group, *, verbose: bool) -> None:
    header = "GROUP CONSUMER-ID HOST CLIENT-ID #PARTITIONS"
    rows: list[tuple[object, ...]] = []
    for member in group.members:
        topics: dict[str, list[int]] = {}
        for topic, partition in member.partitions:
            topics.setdefault(topic, []).append(partition)
        owned = ";".join(f"{topic}:{','.join(map(str, numbers))}" for topic, numbers in topics.items())
        row = (group.group, member.member_id, member.host, member.client_id, len(member.partitions))
        rows.append((*row, None, owned or None, None, None) if verbose else row)
    if verbose:
        header += " CURRENT-EPOCH CURRENT-ASSIGNMENT TARGET-EPOCH TARGET-ASSIGNMENT"
    _print_columns(header, (15,) * len(header.split()), rows)


def _delete(admin: Admin, asked: argparse.Namespace) -> int:
    for name in asked.group:
        admin.delete_group(name)
    named = ", ".join(f"'{name}'" for name in asked.group)
    print(f"Deletion of requested consumer groups ({named}) was successful.")
    return 0


def _reset(admin: Admin, asked: argparse.Namespace) -> int:
    from streamactors.cli.clusters.offset_targets import places_of, targets

    shift = asked.shift_by
    if shift is not None and not shift.startswith(("+", "-")):
        shift = f"+{shift}"
    target = asked.target or asked.to_offset or asked.to_datetime or shift
    if target is None or not (asked.topic or asked.all_topics):
        raise Unknown("kafka-consumer-groups.sh --reset-offsets: --topic or --all-topics, and a --to-… or --shift-by")
    rows = []
    for name in asked.group:
        before = admin.committed(name)
        if asked.execute:
            _refuse_if_used(admin, name)
        wanted = {place for topic in asked.topic for place in places_of(admin, topic)} if asked.topic else {*before}
        after = targets(admin, sorted(wanted), before, target)
        if asked.execute and not asked.dry_run:
            admin.commit(name, after)
        rows += [(name, *place, offset) for place, offset in sorted(after.items())]
    print()
    for row in (("GROUP", "TOPIC", "PARTITION", "NEW-OFFSET"), *rows):
        print(f"{row[0]:{_NAME_WIDTH}} {row[1]:{_NAME_WIDTH}} {row[2]!s:10} {row[3]!s:15}")
    return 0


def _refuse_if_used(admin: Admin, name: str) -> None:
    state = {each.group: each.state for each in admin.groups()}.get(name, "Empty")
    if state != "Empty":
        raise KafkaError(
            f"Assignments can only be reset if the group '{name}' is inactive, but the current state is {state}."
        )


def _delete_offsets(admin: Admin, asked: argparse.Namespace) -> int:
    from streamactors.cli.clusters.offset_targets import places_of

    for name in asked.group:
        places = [place for topic in asked.topic for place in places_of(admin, topic)]
        _delete_committed(asked.bootstrap_server, name, places)
        print(f"Request succeeded for deleting offsets from group {name}.")
        rows: list[tuple[object, ...]] = [(topic, partition, "Successful") for topic, partition in places]
        _print_columns("TOPIC PARTITION STATUS", (30, 15, 15), rows)
    return 0


def _delete_committed(bootstrap: str, group: str, places: Iterable[TopicPartition]) -> None:
    """Send OffsetDelete, which librdkafka's Python client does not have."""
    from streamactors.kafka.client.cluster_requests import GROUP, ClusterRequests, Refused

    topics = [{"name": topic, "partitions": [{"partition_index": number}]} for topic, number in places]
    with ClusterRequests(bootstrap) as wire:
        answer = wire.call_coordinator(GROUP, group, OFFSET_DELETE, 0, {"group_id": group, "topics": topics})
    for code in (answer.error_code, *(p.error_code for topic in answer.topics for p in topic.partitions)):
        if code:
            raise Refused(f"group {group!r}", code)


_DO: Final[dict[str, Callable[[Admin, argparse.Namespace], int]]] = {
    "list": _list,
    "describe": _describe,
    "delete": _delete,
    "reset-offsets": _reset,
    "delete-offsets": _delete_offsets,
}


def _print_columns(
    header: str | tuple[str, ...], least: Sequence[int], rows: Iterable[tuple[object, ...]], *, apart: str = " "
) -> None:
    """Print a table, a dash for what is not known; a column is at least so wide."""
    titles = tuple(header.split()) if isinstance(header, str) else header
    table = [titles, *(tuple("-" if cell is None else str(cell) for cell in row) for row in rows)]
    widths = [max(width, *(len(row[at]) for row in table)) for at, width in enumerate(least)]
    if apart == " ":
        print()
    for row in table:
        print(apart.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip(" "))


# -- transactions --------------------------------------------------------------------------------------------------


def transactions(arguments: Sequence[str]) -> int:
    """kafka-transactions.sh: list, describe."""
    options = client_options("kafka-transactions.sh")
    verbs = options.add_subparsers(dest="verb", required=True)
    verbs.add_parser("list", prog="kafka-transactions.sh list")
    describe = verbs.add_parser("describe", prog="kafka-transactions.sh describe")
    describe.add_argument("--transactional-id", required=True)
    asked = options.parse_args(arguments)
    from streamactors.cli.clusters.transactions import described, listed
    from streamactors.kafka.client.cluster_requests import ClusterRequests

    with ClusterRequests(asked.bootstrap_server) as wire:
        if asked.verb == "list":
            header = "TransactionalId Coordinator ProducerId TransactionState"
            rows = [(t.transactional_id, broker, t.producer_id, t.transaction_state) for broker, t in listed(wire)]
            _print_columns(header, (0,) * 4, rows, apart="\t")
        else:
            node, found = described(wire, asked.transactional_id)
            _print_transaction(node, found)
    return 0


def _print_transaction(node: int, found: Any) -> None:
    header = (
        "CoordinatorId TransactionalId ProducerId ProducerEpoch TransactionState TransactionTimeoutMs "
        "CurrentTransactionStartTimeMs TransactionDurationMs TopicPartitions"
    )
    began_ms = found.transaction_start_time_ms
    places = ",".join(f"{topic.topic}-{number}" for topic in found.topics for number in topic.partitions)
    producer = (found.transactional_id, found.producer_id, found.producer_epoch, found.transaction_state)
    since = (began_ms, round(time.time() * 1000) - began_ms) if began_ms >= 0 else ("None", "None")
    _print_columns(header, (0,) * 9, [(node, *producer, found.transaction_timeout_ms, *since, places)], apart="\t")
