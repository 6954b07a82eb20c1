"""The requests of the share coordinator between brokers, as bodies of Kafka's messages: keys 83 to 87, one share partition each.

Owner: the broker that asks. The fields are those of the requests that `apis/` serves."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from streamactors.broker.errors import ErrorCode
from streamactors.broker.share.partition.in_flight import RecordState, StateBatch
from streamactors.broker.share.state.share_asks import (
    Ask,
    DeleteState,
    InitializeState,
    ReadState,
    ReadSummary,
    StateAnswer,
    WriteState,
)
from streamactors.broker.share.state.share_state import NO_COUNT, ShareKey


class Sent(NamedTuple):
    """A request: its API key, version and body."""

    api_key: int
    version: int
    body: dict[str, Any]


_APIS: Final[dict[type, tuple[int, int]]] = {
    InitializeState: (83, 0),
    ReadState: (84, 0),
    WriteState: (85, 1),
    DeleteState: (86, 0),
    ReadSummary: (87, 1),
}


def request_of(key: ShareKey, ask: Ask) -> Sent:
    """Return the request for one share partition."""
    partition: dict[str, Any] = {"partition": key.partition}
    match ask:
        case InitializeState():
            partition |= {"state_epoch": ask.state_epoch, "start_offset": ask.start_offset}
        case ReadState() | ReadSummary():
            partition["leader_epoch"] = ask.leader_epoch
        case WriteState():
            partition |= {
                "state_epoch": ask.state_epoch,
                "leader_epoch": ask.leader_epoch,
                "start_offset": ask.start_offset,
                "delivery_complete_count": ask.complete_count,
                "state_batches": batch_bodies(ask.batches),
            }
    body = {"group_id": key.group_id, "topics": [{"topic_id": key.topic_id, "partitions": [partition]}]}
    return Sent(*_APIS[type(ask)], body)


def batch_bodies(batches: tuple[StateBatch, ...]) -> list[dict[str, Any]]:
    """Return the bodies of states."""
    return [
        {"first_offset": first, "last_offset": last, "delivery_state": state, "delivery_count": deliveries}
        for first, last, state, deliveries in batches
    ]


def batches_of(bodies: Any) -> tuple[StateBatch, ...]:
    """Return the states of decoded bodies. Raises ValueError for a state that does not exist."""
    return tuple(
        StateBatch(each.first_offset, each.last_offset, RecordState(each.delivery_state), each.delivery_count)
        for each in bodies
    )


def answer_of(message: Any) -> StateAnswer:
    """Return the answer about the one share partition that was asked for. An empty answer is an error: the request was refused."""
    partitions = [each for result in message.results for each in result.partitions]
    if len(partitions) != 1:
        return StateAnswer(ErrorCode.UNKNOWN_SERVER_ERROR, "the share coordinator did not answer for the partition")
    found = partitions[0]
    return StateAnswer(
        ErrorCode(found.error_code),
        found.error_message,
        getattr(found, "state_epoch", 0),
        getattr(found, "leader_epoch", 0),
        getattr(found, "start_offset", 0),
        getattr(found, "delivery_complete_count", NO_COUNT),
        batches_of(getattr(found, "state_batches", ())),
    )
