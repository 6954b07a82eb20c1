"""Asks the brokers what the options of `streamactors-kafka` name: partitions, and the offsets of their bounds."""

from __future__ import annotations

from collections.abc import Mapping

from streamactors.errors import BuildError
from streamactors.kafka.client import admin
from streamactors.kafka.client.admin import Admin
from streamactors.kafka.errors import RecordsGone, TopicNotFound
from streamactors.kafka.subscriptions import TopicPartition
from streamactors.spark.executors.planner import matching
from streamactors.spark.format_options import TO_SKIP
from streamactors.spark.kafka_format.bounds import EARLIEST, FORMAT, LATEST, STRATEGY, Bound, Times
from streamactors.spark.kafka_format.options import ReadOptions


def partitions_of(client: Admin, what: ReadOptions) -> list[TopicPartition]:
    """Return the partitions to read. Raises TopicNotFound, BuildError; a pattern may match no topic."""
    there = {topic.name: topic.partitions for topic in client.topics()}
    topics = matching(what.pattern, there) if what.pattern else sorted(what.topics)
    for topic in topics or sorted({key.topic for key in what.partitions}):
        if topic not in there:
            raise TopicNotFound(
                f"no topic {topic} at {what.settings.bootstrap_servers}; create it with: streamactors topics create {topic}"
            )
    for key in what.partitions:
        if key.partition not in range(there[key.topic]):
            raise BuildError(
                f"{FORMAT}: option assign names {key}, and the partitions of topic {key.topic} are 0 to {there[key.topic] - 1}"
            )
    if what.partitions:
        return list(what.partitions)
    return [TopicPartition(topic, number) for topic in topics for number in range(there[topic])]


def offsets_at(
    client: Admin, keys: list[TopicPartition], wanted: Bound, option: str, *, skip_lost: bool
) -> dict[TopicPartition, int]:
    """Return an offset for each partition. `option`: the name of the option that gives offsets.

    Raises BuildError, RecordsGone for an offset that the partition does not have."""
    if isinstance(wanted, Times):
        return _at_times(client, keys, wanted)
    if isinstance(wanted, str):
        return client.offsets(
            dict.fromkeys(keys, admin.EARLIEST if wanted == "earliest" else admin.LATEST), committed=True
        )
    _check_partitions(keys, wanted, option)
    ends = {LATEST: admin.LATEST, EARLIEST: admin.EARLIEST}
    asked = client.offsets({key: ends[place] for key, place in wanted.items() if place in ends}, committed=True)
    given = {key: place for key, place in wanted.items() if place not in ends}
    return {**asked, **_existing(client, given, option, skip_lost=skip_lost)}


def is_given(wanted: Bound, key: TopicPartition) -> bool:
    """True if a user has given the offset of a partition by its number, or by a time."""
    if isinstance(wanted, str):
        return False
    return isinstance(wanted, Times) or wanted[key] not in (EARLIEST, LATEST)


def _check_partitions(keys: list[TopicPartition], wanted: Mapping[TopicPartition, int], option: str) -> None:
    if set(wanted) != set(keys):
        missing, foreign = sorted(set(keys) - set(wanted)), sorted(set(wanted) - set(keys))
        said = [f"lacks {', '.join(map(str, missing))}"] * bool(missing) + [
            f"names {', '.join(map(str, foreign))}, which is not read"
        ] * bool(foreign)
        raise BuildError(f"{FORMAT}: option {option} {' and '.join(said)}")


def _at_times(client: Admin, keys: list[TopicPartition], wanted: Times) -> dict[TopicPartition, int]:
    times = dict.fromkeys(keys, wanted.at_ms) if isinstance(wanted.at_ms, int) else wanted.at_ms
    _check_partitions(keys, times, wanted.option)
    found = client.offsets(times, committed=True)
    without = sorted(key for key, place in found.items() if place < 0)
    if without and not wanted.or_latest:
        raise BuildError(
            f"{FORMAT}: option {wanted.option}: no record at or after the time in "
            f"{', '.join(f'{key} ({times[key]})' for key in without)}; {STRATEGY}=latest begins there at the end"
        )
    return {**found, **client.offsets(dict.fromkeys(without, admin.LATEST), committed=True)}


def _existing(
    client: Admin, given: Mapping[TopicPartition, int], option: str, *, skip_lost: bool
) -> dict[TopicPartition, int]:
    """Return offsets that a user has given; with `skip_lost` the nearest ones that exist. Raises RecordsGone naming an offset that does not."""
    lows = client.offsets(dict.fromkeys(given, admin.EARLIEST))
    highs = client.offsets(dict.fromkeys(given, admin.LATEST))
    found = {key: min(max(place, lows[key]), highs[key]) for key, place in given.items()}
    lost = [
        f"{place} for {key}, which {'ends' if place > highs[key] else 'begins'} at {found[key]}"
        for key, place in sorted(given.items())
        if found[key] != place
    ]
    if lost and not skip_lost:
        raise RecordsGone(
            f"{FORMAT}: option {option} has {' and '.join(lost)}; give offsets that exist, or {TO_SKIP}, which reads what is there"
        )
    return found
