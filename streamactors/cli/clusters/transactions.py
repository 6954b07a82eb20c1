"""`streamactors transactions`: list and describe transactional ids."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from streamactors.cli.bootstrap import bootstrap_option, client_settings
from streamactors.cli.tables import json_option, print_json, print_table
from streamactors.kafka.errors import KafkaError

if TYPE_CHECKING:
    from streamactors.kafka.client.cluster_requests import ClusterRequests

DESCRIBE_TRANSACTIONS: Final = 65
LIST_TRANSACTIONS: Final = 66


@click.group("transactions")
def command() -> None:
    """List and describe transactions.

    \b
    Examples:
      streamactors transactions list --state Ongoing
      streamactors transactions describe my-transactional-id
    """


@command.command("list")
@bootstrap_option
@click.option(
    "--state",
    "states",
    multiple=True,
    help="Only transactional ids in this state, such as Ongoing; may be given several times.",
)
@json_option
def list_transactions(bootstrap: str, states: tuple[str, ...], as_json: bool) -> None:
    """List the transactional ids and their states.

    \b
    Example:
      streamactors transactions list --json
    """
    from streamactors.kafka.client.cluster_requests import ClusterRequests

    with ClusterRequests(bootstrap, client_settings(bootstrap).security()) as wire:
        rows = [(t.transactional_id, t.transaction_state, t.producer_id) for _, t in listed(wire, states)]
    columns = ("transactional id", "state", "producer id")
    if as_json:
        print_json(dict(zip(("transactional_id", "state", "producer_id"), row, strict=True)) for row in sorted(rows))
    elif rows:
        print_table(columns, sorted(rows))
    else:
        click.echo(f"no transactions at {bootstrap}")


@command.command("describe")
@bootstrap_option
@click.argument("transactional_id")
@json_option
def describe(bootstrap: str, transactional_id: str, as_json: bool) -> None:
    """Show a transactional id: its producer, how far its transaction has come, and which partitions take part.

    \b
    Example:
      streamactors transactions describe my-transactional-id
    """
    from streamactors.kafka.client.cluster_requests import ClusterRequests

    with ClusterRequests(bootstrap, client_settings(bootstrap).security()) as wire:
        _, found = described(wire, transactional_id)
    row = _row(found)
    if as_json:
        print_json([row])
        return
    for name, value in row.items():
        click.echo(f"{name.replace('_', ' ')}: {value if value is not None else '-'}")


def listed(wire: ClusterRequests, states: Sequence[str] = ()) -> list[tuple[int, Any]]:
    """Return (broker that coordinates it, answer) for every transactional id. Raises KafkaError or UsageError."""
    from streamactors.kafka.client.cluster_requests import Refused

    rows: list[tuple[int, Any]] = []
    for broker in wire.brokers():
        body = {"state_filters": list(states)}
        answer = wire.retried(
            lambda broker=broker, body=body: wire.call(broker, LIST_TRANSACTIONS, 0, body),
            lambda found: found.error_code,
        )
        if answer.error_code:
            raise Refused("the list of transactions", answer.error_code)
        if answer.unknown_state_filters:
            raise click.UsageError(f"--state {answer.unknown_state_filters[0]}: there is no such state")
        rows += [(broker, found) for found in answer.transaction_states]
    return rows


def described(wire: ClusterRequests, transactional_id: str) -> tuple[int, Any]:
    """Return the coordinator's id and what it knows. Raises KafkaError if there is no such transactional id."""
    from streamactors.broker.errors import ErrorCode
    from streamactors.kafka.client.cluster_requests import TRANSACTION, Refused

    body = {"transactional_ids": [transactional_id]}
    (found,) = wire.retried(
        lambda: wire.call_coordinator(TRANSACTION, transactional_id, DESCRIBE_TRANSACTIONS, 0, body),
        lambda answer: answer.transaction_states[0].error_code,
    ).transaction_states
    if found.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
        raise KafkaError(f"there is no transactional id {transactional_id!r}; see: streamactors transactions list")
    if found.error_code:
        raise Refused(f"transactional id {transactional_id!r}", found.error_code)
    return wire.coordinator(TRANSACTION, transactional_id)[2], found


def _row(found: Any) -> dict[str, Any]:
    began_ms = found.transaction_start_time_ms
    began = datetime.datetime.fromtimestamp(began_ms / 1000, datetime.UTC) if began_ms >= 0 else None
    return {
        "transactional_id": found.transactional_id,
        "state": found.transaction_state,
        "producer_id": found.producer_id,
        "producer_epoch": found.producer_epoch,
        "timeout_ms": found.transaction_timeout_ms,
        "began": began.isoformat(timespec="milliseconds") if began else None,
        "partitions": ", ".join(f"{t.topic}-{p}" for t in found.topics for p in t.partitions) or None,
    }
