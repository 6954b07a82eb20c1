"""Places in a topic and moments in time, as options of all commands take them: `--from`, `--until`, `--to`, `--since`, `--timestamp`.

This is their one parser. Nothing here asks a broker before `offsets_at`."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

import click

from streamactors.durations import duration_s

if TYPE_CHECKING:
    from streamactors.kafka.client.admin import Admin
    from streamactors.kafka.subscriptions import TopicPartition

    PlaceParam = click.ParamType["Place"]
    MomentParam = click.ParamType[int]
else:
    PlaceParam = MomentParam = click.ParamType  # not generic in every version that the package accepts

WORDS: Final = {"beginning": "beginning", "earliest": "beginning", "end": "end", "latest": "end"}
TIMES: Final = "a time ago such as -1h, or a time such as 2026-01-31T12:00"
CHOICES: Final = (
    f"give beginning (earliest), end (latest), an offset such as 17 or @17, -N or +N for a number of records, {TIMES}"
)
_NUMBER: Final = re.compile(r"([@+-]?)(\d{1,19})")
_MOST_MS: Final = (1 << 63) - 1


class Kind(Enum):
    """What a place is."""

    BEGINNING = "beginning"
    END = "end"
    OFFSET = "offset"
    SHIFT = "shift"
    """So many records after (+) or before (-) something."""
    TIME = "time"
    """The first record at or after a time."""


@dataclass(frozen=True)
class Place:
    """A place in each partition of a topic. `number`: an offset, a number of records, or ms since 1970."""

    kind: Kind
    number: int = 0
    text: str = ""
    """What the user wrote."""


def place_of(text: str, now_ms: int | None = None) -> Place:
    """Return the place that a string names. Raises ValueError, whose message lists the choices."""
    word = WORDS.get(text.lower())
    if word is not None:
        return Place(Kind(word), text=text)
    number = _NUMBER.fullmatch(text)
    if number is not None:
        sign, digits = number.groups()
        kind = Kind.SHIFT if sign in ("+", "-") else Kind.OFFSET
        return Place(kind, -int(digits) if sign == "-" else int(digits), text)
    try:
        return Place(Kind.TIME, moment_ms(text, now_ms), text)
    except ValueError:
        raise ValueError(f"{text!r} is no place in a topic; {CHOICES}") from None


def moment_ms(text: str, now_ms: int | None = None) -> int:
    """Return ms since 1970 of `now`, of a time ago (`-1h`) or ahead (`+10s`), or of a time such as 2026-01-31T12:00.

    A time is in UTC unless it has an offset. An earlier time counts as 1970, because negative times have special meanings for a
    broker. Raises ValueError."""
    now_ms = int(time.time() * 1_000) if now_ms is None else now_ms
    if text == "now":
        return now_ms
    if text[:1] in ("+", "-"):
        span_ms = min(duration_s(text[1:], "time") * 1_000, _MOST_MS)
        return max(0, min(_MOST_MS, int(now_ms + span_ms if text[0] == "+" else now_ms - span_ms)))
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0, int(moment.timestamp() * 1_000))


class _PlaceType(PlaceParam):
    name = "place"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Place:
        if isinstance(value, Place):
            return value
        try:
            return place_of(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


class _MomentType(MomentParam):
    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return ms since 1970; a bare number is ms since 1970, too."""
        if isinstance(value, int):
            return value
        if value.removeprefix("-").isdecimal():
            return int(value)
        try:
            return moment_ms(value)
        except ValueError:
            self.fail(f"{value!r} is no time; give now, ms since 1970, {TIMES} (UTC)", param, ctx)


PLACE: Final = _PlaceType()
MOMENT: Final = _MomentType()


def offsets_at(
    place: Place,
    admin: Admin,
    starts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    around: Mapping[TopicPartition, int] | None = None,
) -> dict[TopicPartition, int]:
    """Return the offset of a place in each partition of `starts` and `ends`: the first offset that exists, and the one after the last record.

    A number of records counts from `around`; without it, +N counts from the start and -N from the end. The result may lie outside
    the partition. Raises KafkaError."""
    if place.kind is Kind.BEGINNING:
        return dict(starts)
    if place.kind is Kind.END:
        return dict(ends)
    if place.kind is Kind.OFFSET:
        return dict.fromkeys(starts, place.number)
    if place.kind is Kind.SHIFT:
        base = around if around is not None else ends if place.text.startswith("-") else starts
        return {key: base[key] + place.number for key in starts}
    found = admin.offsets(dict.fromkeys(starts, place.number))
    return {key: ends[key] if offset < 0 else offset for key, offset in found.items()}
