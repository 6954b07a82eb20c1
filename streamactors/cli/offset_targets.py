"""Where a group is to go on: what people write for it, and the offsets that it means.

Owner: `streamactors groups reset-offsets` and the script that stands in for kafka-consumer-groups.sh."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

import click

from streamactors.cli.group_admin import EARLIEST, LATEST, GroupAdmin, Place
from streamactors.cli.texts import time_ms
from streamactors.kafka.errors import KafkaError

_NUMBER: Final = re.compile(r"[+-]?\d{1,19}")


def places_of(admin: GroupAdmin, text: str) -> list[Place]:
    """Return the partitions of TOPIC, or the one of TOPIC:PARTITION. Raises TopicNotFound or UsageError."""
    topic, colon, number = text.partition(":")
    places = admin.partitions(topic)
    if not colon:
        return places
    if not number.isdecimal() or (topic, int(number)) not in places:
        raise click.UsageError(f"--topic {text}: {topic} has partitions 0 to {len(places) - 1}")
    return [(topic, int(number))]


def targets(admin: GroupAdmin, places: Sequence[Place], before: Mapping[Place, int], target: str) -> dict[Place, int]:
    """Return the offset in each partition: earliest, latest, an offset, +N or -N records from `before`, or a time.

    An offset outside the partition is moved to its nearest end. Raises KafkaError or UsageError."""
    first, end = admin.offsets(places, EARLIEST), admin.offsets(places, LATEST)
    for topic, number in places:
        if (topic, number) not in first or (topic, number) not in end:
            raise KafkaError(f"{topic}-{number} has no leader just now, so its offsets are not known; try again")
    if target in ("earliest", "latest"):
        return first if target == "earliest" else end
    if _NUMBER.fullmatch(target):
        shift = int(target)
        absolute = target[0] not in "+-"
        missing = [place for place in places if place not in before]
        if not absolute and missing:
            topic, number = missing[0]
            raise KafkaError(f"{topic}-{number} has no committed offset to count {target} from; name an offset")
        wanted = {place: shift if absolute else before[place] + shift for place in places}
        return {place: min(max(offset, first[place]), end[place]) for place, offset in wanted.items()}
    found = admin.offsets(places, _time_ms(target))
    return {place: end[place] if offset < 0 else offset for place, offset in found.items()}


def _time_ms(text: str) -> int:
    try:
        return time_ms(text)
    except ValueError:
        raise click.UsageError(
            f"--to {text}: it is earliest, latest, an offset, +N, -N, or a time such as 2013-01-01T06:00"
        ) from None
