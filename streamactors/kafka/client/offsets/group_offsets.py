"""The committed offsets of a group, for a client that is not a member of it.

librdkafka 2.16 has requests for this in its admin client, and both can end the process silently. When the broker that is asked for offsets does
not coordinate the group any more, the handler looks for the coordinator by the client's own group, and an admin client has none (its pull request
5318). When a request to a coordinator has timed out and is answered later, an assertion about the request fails. So a consumer with the group's id asks
and commits. It never subscribes, and so it never joins the group."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from streamactors.kafka.client.connection import REQUEST_TIMEOUT_MS, ClientConnection, ck
from streamactors.kafka.client.error_codes import MOVING_COORDINATOR
from streamactors.kafka.settings import ClientSettings

AGAIN_S: Final = 0.1
"""The time between two requests to a coordinator that moves."""
_LAST_S: Final = 0.5
"""With less time left there is no further attempt."""


def is_moving(error: ck.KafkaException) -> bool:
    """True for an answer of a broker that does not coordinate the group, or not yet."""
    return error.args[0].code() in MOVING_COORDINATOR


def group_offsets(
    connection: ClientConnection, settings: ClientSettings, group: str, wanted: Sequence[Any]
) -> list[Any]:
    """Return the partitions with the offsets and notes that the group has committed; OFFSET_INVALID without one. Raises KafkaException."""
    return _asked(connection, settings, group, lambda client, left_s: client.committed(list(wanted), timeout=left_s))


def commit_offsets(
    connection: ClientConnection, settings: ClientSettings, group: str, wanted: Sequence[Any]
) -> list[Any]:
    """Commit the offsets and notes of these partitions; return the partitions, with the error of each. Raises KafkaException."""
    return _asked(
        connection, settings, group, lambda client, _: client.commit(offsets=list(wanted), asynchronous=False)
    )


def _asked(
    connection: ClientConnection, settings: ClientSettings, group: str, ask: Callable[[Any, float], list[Any]]
) -> list[Any]:
    properties = {
        **settings.address(),
        "group.id": group,
        "enable.auto.commit": False,
        "isolation.level": "read_uncommitted",  # an open transaction does not delay the answer
        "session.timeout.ms": REQUEST_TIMEOUT_MS,  # so long a commit waits for a coordinator
        "socket.timeout.ms": REQUEST_TIMEOUT_MS,
        "log_level": 4,
    }
    client = connection.make(ck.Consumer, properties)
    give_up = time.monotonic() + REQUEST_TIMEOUT_MS / 1_000
    try:
        while True:
            left_s = give_up - time.monotonic()
            try:
                return ask(client, left_s)
            except ck.KafkaException as error:
                code = error.args[0].code()
                if code == ck.KafkaError._WAIT_COORD:  # a commit waits for the coordinator by itself
                    raise ck.KafkaException(ck.KafkaError(ck.KafkaError._TIMED_OUT)) from None
                if not is_moving(error) or left_s < _LAST_S:
                    raise
                time.sleep(AGAIN_S)
    finally:
        client.close()
