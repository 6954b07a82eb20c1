"""The offsets that the place of `streamactors groups reset-offsets --to` means."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import click

from streamactors.cli.places import Kind, Place, offsets_at
from streamactors.kafka.client.admin import EARLIEST, LATEST, Admin
from streamactors.kafka.errors import KafkaError
from streamactors.kafka.subscriptions import TopicPartition


def places_of(admin: Admin, text: str) -> list[TopicPartition]:
    """Return the partitions of TOPIC, or the one of TOPIC:PARTITION. Raises TopicNotFound or UsageError."""
    topic, colon, number = text.partition(":")
    places = admin.partitions_of(topic)
    if not colon:
        return places
    if not number.isdecimal() or (topic, int(number)) not in places:
        raise click.UsageError(f"--topic {text}: {topic} has partitions 0 to {len(places) - 1}")
    return [TopicPartition(topic, int(number))]


def targets(
    admin: Admin, places: Sequence[TopicPartition], before: Mapping[TopicPartition, int], target: Place
) -> dict[TopicPartition, int]:
    """Return the offset in each partition that a place means; a number of records counts from `before`.

    An offset outside the partition is moved to its nearest end, and a line on stderr says so. Raises KafkaError."""
    first, end = (admin.offsets(dict.fromkeys(places, at)) for at in (EARLIEST, LATEST))
    missing = [place for place in places if place not in before]
    if target.kind is Kind.SHIFT and missing:
        raise KafkaError(f"{missing[0]} has no committed offset to count {target.text} from; name an offset")
    wanted = offsets_at(target, admin, first, end, before)
    inside = {place: min(max(offset, first[place]), end[place]) for place, offset in wanted.items()}
    for place, offset in inside.items():
        if offset != wanted[place]:
            click.echo(
                f"streamactors: {place} has offsets {first[place]} to {end[place]}: {wanted[place]} becomes {offset}",
                err=True,
            )
    return inside
