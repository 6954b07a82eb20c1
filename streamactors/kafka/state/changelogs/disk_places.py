"""The offsets from which the stores on disk read their changelogs. A store whose offset the changelog no longer has is emptied and read again.

A store at offset 40 lacks the entries of the changelog from 40 on. If retention or a new topic has removed some of them, deletions may be among
them, and the deleted keys would stay forever. Kafka Streams empties a store, too, when the broker answers that its offset is out of range.

A broker that is cut off names an old end, as if the changelog had lost records. Its answer must not cost the state. So the topic id on disk tells a
topic that was made again from the same one, the leader epoch on disk an old answer from a new one, and a store is emptied for an end below its
offset only if every broker with the partition has been asked.

Owner: the thread that restores, and that of the standby copies."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

from streamactors.kafka.client.admin import EARLIEST, Admin
from streamactors.kafka.client.connection import BEGINNING
from streamactors.kafka.client.offsets.newest_ends import PartitionEnd
from streamactors.kafka.errors import StaleAnswer
from streamactors.kafka.settings import ConsumerSettings
from streamactors.kafka.subscriptions import TopicPartition
from streamactors.windows.state.disk.task_disk import Origin, TaskDisk

REFUSES_LOST_OFFSETS: Final = "error"
"""The `auto_offset_reset` of a reader that writes to disk: from the beginning it would write over the old entries."""
_log = logging.getLogger("streamactors.kafka")


def places_of(
    settings: ConsumerSettings,
    disks: Mapping[int, TaskDisk],
    stores: Mapping[str, str],
    ends: Mapping[TopicPartition, PartitionEnd],
) -> dict[TopicPartition, int]:
    """Return from where to read each changelog partition of `ends`, its high watermarks. `stores`: store by topic.

    Raises StaleAnswer if an end says less than the disk knows, and nothing proves that the changelog has lost it; KafkaError, StateError."""
    places = {key: disks[key.partition].offset(stores[key.topic]) for key in ends}
    kept = {key: EARLIEST for key, at in places.items() if at}
    begins = Admin(settings).offsets(kept) if kept else {}
    lost = {
        key: _why_not_from(key, at, begins.get(key, 0), ends[key], disks[key.partition].origin(stores[key.topic]))
        for key, at in places.items()
        if at
    }
    for key, at in places.items():  # after every answer has been judged: a stale one clears nothing
        disk, store = disks[key.partition], stores[key.topic]
        why = lost.get(key)
        if at and why is None:
            places[key] = max(
                at, begins.get(key, 0)
            )  # between them was the marker of the last transaction, if anything
        else:
            if why is not None:
                _log.warning("%s %s", key, why)
            disk.clear(store)  # entries without an offset: the run ended before the first offset was known
            places[key] = BEGINNING
        end = ends[key]
        if end.topic_id is not None:
            disk.set_origin(store, Origin(end.topic_id, end.leader_epoch))
    return places


def _why_not_from(key: TopicPartition, at: int, begin: int, end: PartitionEnd, origin: Origin | None) -> str | None:
    """Return why the state on disk cannot be continued at its offset, None if it can. Raises StaleAnswer."""
    if origin is not None and end.topic_id is not None and end.topic_id != origin.topic_id:
        if not end.is_sure:  # a broker that is cut off may know an earlier topic of this name
            raise StaleAnswer(
                f"{key} has the topic id {end.topic_id}, and the state on disk is of {origin.topic_id}; a broker with the partition has not answered"
            )
        return f"has the topic id {end.topic_id}, and the state on disk is of {origin.topic_id}: the topic was created again; the state is restored"
    if origin is not None and 0 <= end.leader_epoch < origin.leader_epoch:
        raise StaleAnswer(
            f"{key}: the leader of epoch {end.leader_epoch} names the end {end.offset}, and the state on disk knows epoch {origin.leader_epoch}"
        )
    if at > end.offset:
        if not end.is_sure:
            raise StaleAnswer(
                f"{key} ends at {end.offset}, and the state on disk is at {at}; a broker with the partition has not answered, and may know more"
            )
        cause = "the topic was created again" if origin is None else "it has lost records, as in an unclean election"
        return f"ends at {end.offset}, and the state on disk is at {at}: {cause}; the state is restored"
    if at < begin and at < end.offset - 1:
        return f"begins at {begin}, and the state on disk is at {at}: the records between were deleted; the state is restored"
    return None
