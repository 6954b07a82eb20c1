"""The committed offsets of a group, for one who is no member of it.

librdkafka 2.16 has a request for this in its admin client, which ends the process without a word when the broker that it asks does not coordinate the
group any more: the handler looks for the coordinator by the client's own group, and an admin client has none (its pull request 5318). So a consumer with
the group's id asks. It never subscribes, and so it never joins the group."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Final

from streamactors.kafka.client.connection import REQUEST_TIMEOUT_MS, Connection, ck
from streamactors.kafka.settings import ClientSettings

_AGAIN_S: Final = 0.1
_LAST_S: Final = 0.5
"""With less time left there is no further attempt."""
_MOVES: Final = (
    ck.KafkaError.NOT_COORDINATOR,
    ck.KafkaError.COORDINATOR_NOT_AVAILABLE,
    ck.KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
)


def group_offsets(connection: Connection, settings: ClientSettings, group: str, wanted: Sequence[Any]) -> list[Any]:
    """Return the partitions with the offsets and notes that the group has committed; OFFSET_INVALID without one. Raises KafkaException."""
    properties = {
        **settings.address(),
        "group.id": group,
        "enable.auto.commit": False,
        "isolation.level": "read_uncommitted",  # an open transaction does not delay the answer
        "log_level": 4,
    }
    asks = connection.make(ck.Consumer, properties)
    give_up = time.monotonic() + REQUEST_TIMEOUT_MS / 1_000
    try:
        while True:
            left_s = give_up - time.monotonic()
            try:
                found: list[Any] = asks.committed(list(wanted), timeout=left_s)
            except ck.KafkaException as error:
                if error.args[0].code() not in _MOVES or left_s < _LAST_S:
                    raise
                time.sleep(_AGAIN_S)
            else:
                return found
    finally:
        asks.close()
