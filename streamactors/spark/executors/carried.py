"""Carried state: the state of windows moves between changelog topics, where one process keeps it, and the states of a checkpoint.

    one process ──► changelogs, offsets of the group ──► first run on executors with a new checkpoint
    executors ──► states, Spark's commits ──► carry_back ──► changelogs, offsets of the group ──► one process

A partition is carried back in one transaction: the entries that differ, tombstones for those that are gone, and the position.

A graph without windows moves by its positions alone. Results in Spark: SparkSink and executors continue one checkpoint. Results in a topic: one
process continues at the offsets of the group, and executors at those of a new checkpoint, which begins at the offsets of the group."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from streamactors.kafka.client.admin import Admin
from streamactors.kafka.client.range_writer import RangeWriter
from streamactors.kafka.producer_record import ProducerRecord
from streamactors.kafka.settings import ConsumerSettings, ProducerSettings
from streamactors.kafka.state.changelogs.changelog_topics import ON_EXECUTORS, ChangelogTopics
from streamactors.kafka.subscriptions import TopicPartition
from streamactors.spark.errors import CheckpointError
from streamactors.spark.executors import offsets as places
from streamactors.spark.executors.program import Windows
from streamactors.spark.executors.ranges import At
from streamactors.spark.executors.states import States, fresh
from streamactors.spark.files import Files
from streamactors.spark.query.checkpoint import OURS


def carry_in(
    windows: Windows, settings: ConsumerSettings, first: Mapping[str, int], states: States, output_group: str | None
) -> bool:
    """Write the state that changelogs hold as the states of places where a query begins; return whether there are changelogs.

    `output_group`: the group of the positions that are committed with the output. If an earlier query has left older ones there, they are
    set to the places, because a process has written since. Raises RestoreError, CheckpointError, KafkaError."""
    topics = windows.factory.changelog_topics(windows.application)
    admin = Admin(settings)
    if not {topic.name for topic in admin.topics()} & set(topics.values()):
        return False
    keys = [places.key_of(name) for name in first]
    for key, (position, note) in admin.committed_with_metadata(str(settings.group_id), keys).items():
        if note.startswith(ON_EXECUTORS):
            raise CheckpointError(
                f"group {settings.group_id} has reached {position} of {key} in a query on executors, whose windows are in checkpoint "
                f"{note.removeprefix(ON_EXECUTORS)} and not in the changelogs; run the graph with that checkpoint, or carry its state back "
                "first, by SparkExecutors(…).carry_back(graph); without that checkpoint, delete the changelogs to begin without their state"
            )
    if len({key.topic for key in keys}) > 1:
        raise CheckpointError(
            f"the changelogs {', '.join(topics.values())} have a state of windows over several topics, which cannot be carried to executors; "
            "give the run on executors another group_id, or delete the changelogs to begin without their state"
        )
    partitions, found = ChangelogTopics(settings, topics, created_with=windows.factory.changelog_settings).read(keys)
    windows = replace(windows, partitions=partitions)
    for name, position in first.items():
        key, at = places.key_of(name), At(position)
        changes = found[key.partition]
        due_ms = windows.task(key.partition, changes).idle_due_ms()
        states.write(str(key), at, at, changes, fresh(), due_ms)
        states.begin_with(str(key), at)
    if output_group is not None:
        catch_up(settings, output_group, first)
    return True


def catch_up(
    settings: ConsumerSettings, group: str, positions: Mapping[str, int], begun_at: Mapping[str, int] | None = None
) -> None:
    """Raise the group's written positions of the output to `positions`: a run in one process has written up to there.

    `begun_at`: where the query has begun, which is the position of a partition without a written one; without `begun_at` such a partition is left alone.
    Raises KafkaError."""
    begins = positions if begun_at is None else begun_at
    with Admin(settings) as admin:
        before = admin.committed(group, map(places.key_of, positions))
        behind = {
            key: position
            for name, position in positions.items()
            if before.get(key := places.key_of(name), begins.get(name, 0)) < position
        }
        if behind:
            admin.commit(group, behind)


def written(files: Files, first: Mapping[str, int]) -> tuple[dict[str, int], bool]:
    """Return the positions before which a checkpoint has everything, and whether no batch after them was begun."""
    begun, done = _batches(files)
    if not done:
        return dict(first), not begun
    return places.positions(_offsets(files, max(done))), max(begun) == max(done)


def has_all_states(files: Files, states: States, batch: int, first: Mapping[str, int]) -> bool:
    """Return whether every task of a batch with windows has reached its end, where it writes its state. `first`: where the query has begun."""
    start = _offsets(files, batch - 1) if batch else places.initial(first, windows=True)
    found = places.ranges(start, _offsets(files, batch), first)
    return all(states.has(str(each.key), each.end) for each in found)


def check_not_overtaken(settings: ConsumerSettings, files: Files, positions: Mapping[str, int]) -> None:
    """Check that the group is not ahead of the checkpoint of a graph that ends in a topic, given the checkpoint's positions.

    A query on executors commits for the group what its checkpoint has, so another run has written what lies between. Raises CheckpointError."""
    group = str(settings.group_id)
    with Admin(settings) as admin:
        committed = admin.committed(group, map(places.key_of, positions))
    for name, position in positions.items():
        key = places.key_of(name)
        if committed.get(key, position) > position:
            raise CheckpointError(
                f"group {group} has reached {committed[key]} of {key}, and checkpoint {files.root} ends at {position}: another run has "
                "continued since; a run on executors needs a new checkpoint, which begins where the group is"
            )


def carry_back(
    windows: Windows, settings: ConsumerSettings, files: Files, states: States, producer: ProducerSettings
) -> dict[TopicPartition, int]:
    """Write the states at the end of a checkpoint to the changelogs, and their positions to the group; return the positions.

    The checkpoint must be open. Raises CheckpointError, RestoreError, KafkaError."""
    found = _last_offsets(files)
    first = json.loads(files.read(OURS))["initial"]
    topics = windows.factory.changelog_topics(windows.application)
    names = list(places.positions(found))
    if len({places.key_of(name).topic for name in names}) > 1:
        raise CheckpointError(
            f"checkpoint {files.root} has windows over several topics, whose state cannot be carried back"
        )
    check_not_overtaken(settings, files, places.positions(found))
    keys = [places.key_of(name) for name in names]
    _, there = ChangelogTopics(settings, topics, created_with=windows.factory.changelog_settings).read(keys)
    for name, key in zip(names, keys, strict=True):
        at = places.at(found, name, {})
        state = states.load(str(key), at)
        if state is None and at == At(first[name]):
            continue  # nothing was read of it
        if state is None:
            raise CheckpointError(f"the state of {key} at {at} is missing; run the graph once more on executors")
        old = {(change.store, change.key): change.value for change in there[key.partition]}
        entries: dict[tuple[str, bytes], bytes | None] = {
            **dict.fromkeys(old.keys() - state.entries.keys()),
            **{each: value for each, value in state.entries.items() if old.get(each) != value},
        }
        records = [
            ProducerRecord(topics[store], value, entry, key.partition) for (store, entry), value in entries.items()
        ]
        _write(producer, str(settings.group_id), key, records, at.position)
    return {key: found[name] for name, key in zip(names, keys, strict=True)}


def carry_back_positions(settings: ConsumerSettings, files: Files) -> dict[TopicPartition, int]:
    """Commit the positions at the end of a checkpoint for the group, for a graph without windows; return them.

    Raises CheckpointError, KafkaError."""
    positions = places.positions(_last_offsets(files))
    check_not_overtaken(settings, files, positions)
    found = {places.key_of(name): position for name, position in positions.items()}
    with Admin(settings) as admin:
        admin.commit(str(settings.group_id), found)
    return found


def _write(
    producer: ProducerSettings, group: str, key: TopicPartition, records: Sequence[ProducerRecord], position: int
) -> None:
    writer = RangeWriter(producer.with_transactional_id(f"{group}-carried-{key}"), group, key)
    try:
        writer.open()
        writer.write(records)
        writer.commit(position, "")
    finally:
        writer.close()


def _last_offsets(files: Files) -> dict[str, Any]:
    """Return the offsets of the last batch of a checkpoint, which must be written. Raises CheckpointError."""
    begun, done = _batches(files)
    if not done:
        raise CheckpointError(f"checkpoint {files.root} has no batch; there is nothing to carry back")
    if max(begun) != max(done):
        raise CheckpointError(
            f"batch {max(begun)} of checkpoint {files.root} was begun and is not written; run the graph on executors until it is, by "
            'SparkExecutors(spark, trigger="available_now"), and carry its state back then'
        )
    return _offsets(files, max(begun))


def _batches(files: Files) -> tuple[set[int], set[int]]:
    """Return the numbers of the batches that were begun, and of those that were written."""
    begun, done = ({int(name) for name in files.names(folder) if name.isdigit()} for folder in ("offsets", "commits"))
    return begun, done


def _offsets(files: Files, batch: int) -> places.Offsets:
    return dict(json.loads(files.read(f"offsets/{batch}").splitlines()[-1]))
