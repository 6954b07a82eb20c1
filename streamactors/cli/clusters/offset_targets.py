"""The offsets that the text of `streamactors groups reset-offsets --to` means."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

import click

from streamactors.cli.texts import time_ms
from streamactors.kafka.client.admin import EARLIEST, LATEST, Admin
from streamactors.kafka.errors import KafkaError
from streamactors.kafka.subscriptions import TopicPartition

_NUMBER: Final = re.compile(r"[+-]?\d{1,19}")


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
    admin: Admin, places: Sequence[TopicPartition], before: Mapping[TopicPartition, int], target: str
) -> dict[TopicPartition, int]:
    """Return the offset in each partition: earliest, latest, an offset, +N or -N records from `before`, or a time.

    An offset outside the partition is moved to its nearest end, and a line on stderr says so. Raises KafkaError or UsageError."""
    first, end = (admin.offsets(dict.fromkeys(places, at)) for at in (EARLIEST, LATEST))
    if target in ("earliest", "latest"):
        return first if target == "earliest" else end
    if _NUMBER.fullmatch(target):
        shift = int(target)
        absolute = target[0] not in "+-"
        missing = [place for place in places if place not in before]
        if not absolute and missing:
            raise KafkaError(f"{missing[0]} has no committed offset to count {target} from; name an offset")
        wanted = {place: shift if absolute else before[place] + shift for place in places}
        inside = {place: min(max(offset, first[place]), end[place]) for place, offset in wanted.items()}
        for place, offset in inside.items():
            if offset != wanted[place]:
                click.echo(
                    f"streamactors: {place} has offsets {first[place]} to {end[place]}: {wanted[place]} becomes {offset}",
                    err=True,
                )
        return inside
    found = admin.offsets(dict.fromkeys(places, _time_ms(target)))
    return {place: end[place] if offset < 0 else offset for place, offset in found.items()}


def _time_ms(text: str) -> int:
    try:
        return time_ms(text)
    except ValueError:
        raise click.UsageError(
            f"--to {text}: it is earliest, latest, an offset, +N, -N, or a time such as 2013-01-01T06:00"
        ) from None
