"""The offsets from which the stores on disk read their changelogs. A store whose offset the changelog no longer has is emptied and read again.

A store at offset 40 lacks the entries of the changelog from 40 on. If retention or a new topic has removed some of them, deletions may be among
them, and the deleted keys would stay for ever. Kafka Streams empties a store, too, when the broker answers that its offset is out of range.

Owner: the thread that restores, and that of the standby copies."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

from streamactors.kafka.client.admin import EARLIEST, Admin
from streamactors.kafka.client.connection import BEGINNING
from streamactors.kafka.settings import ConsumerSettings
from streamactors.kafka.subscriptions import TopicPartition
from streamactors.windows.state.disk.task_disk import TaskDisk

REFUSES_LOST_OFFSETS: Final = "error"
"""The `auto_offset_reset` of a reader that writes to disk: from the beginning it would write over the old entries."""
_log = logging.getLogger("streamactors.kafka")


def places_of(
    settings: ConsumerSettings,
    disks: Mapping[int, TaskDisk],
    stores: Mapping[str, str],
    ends: Mapping[TopicPartition, int],
) -> dict[TopicPartition, int]:
    """Return from where to read each changelog partition of `ends`, its high watermarks. `stores`: store by topic. Raises KafkaError, StateError."""
    places = {key: disks[key.partition].offset(stores[key.topic]) for key in ends}
    kept = {key: EARLIEST for key, at in places.items() if at}
    begins = Admin(settings).offsets(kept) if kept else {}
    for key, at in places.items():
        begin = begins.get(key, 0)
        if at > ends[key]:
            why = f"ends at {ends[key]}, and the state on disk is at {at}: the topic was made again; so is the state"
        elif at < begin and at < ends[key] - 1:
            why = f"begins at {begin}, and the state on disk is at {at}: it lacks what was deleted between; it is made again"
        elif at:
            places[key] = max(at, begin)  # between them was the marker of the last transaction, if anything
            continue
        else:
            why = None  # entries without an offset: the run ended before the first offset was known
        if why is not None:
            _log.warning("%s %s", key, why)
        disks[key.partition].clear(stores[key.topic])
        places[key] = BEGINNING
    return places
