"""Where a read begins and where it ends, as the options of `streamactors-kafka` give it: words, offsets, or times. Pure.

    startingOffsets, endingOffsets                           earliest | latest | {"t": {"0": 5, "1": -2}}
    startingOffsetsByTimestamp, endingOffsetsByTimestamp     {"t": {"0": 1700000000000}}, in ms since 1970
    startingTimestamp, endingTimestamp                       1700000000000, for every partition
    startingOffsetsByTimestampStrategy                       error | latest: for a partition without a record at or after the time

If several are given, the later line of this table counts, as with Spark's own Kafka source."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from streamactors.errors import BuildError
from streamactors.kafka.subscriptions import TopicPartition

FORMAT: Final = "streamactors-kafka"
EARLIEST: Final = -2
LATEST: Final = -1
STRATEGY: Final = "startingOffsetsByTimestampStrategy"
NAMES: Final = (
    "startingOffsets",
    "startingTimestamp",
    "startingOffsetsByTimestamp",
    STRATEGY,
    "endingOffsets",
    "endingTimestamp",
    "endingOffsetsByTimestamp",
)


class Times(NamedTuple):
    """The first record at or after a time, in ms since 1970: one time, or one for each partition. `option`: the name of the option.

    `or_latest`: a partition without such a record begins or ends at its end; else it is an error."""

    option: str
    at_ms: int | Mapping[TopicPartition, int]
    or_latest: bool


Bound = str | Mapping[TopicPartition, int] | Times
"""Where to begin or to end: "earliest", "latest", an offset for each partition, or times."""


def starting(options: Mapping[str, str]) -> Bound | None:
    """Return where a read begins; None if no option says it. Raises BuildError naming the option."""
    strategy = options.get(STRATEGY.lower(), "error").lower()
    if strategy not in ("error", "latest"):
        raise BuildError(f"{FORMAT}: option {STRATEGY} must be error or latest, got {options[STRATEGY.lower()]!r}")
    times = _times(options, "starting", or_latest=strategy == "latest")
    if times is not None:
        return times
    given = options.get("startingoffsets")
    return None if given is None else _offsets("startingOffsets", given)


def ending(options: Mapping[str, str]) -> Bound:
    """Return where a read ends; "latest" if no option says it. Raises BuildError naming the option."""
    times = _times(options, "ending", or_latest=True)
    if times is not None:
        return times
    given = options.get("endingoffsets", "latest")
    found = _offsets("endingOffsets", given)
    if found == "earliest" or (not isinstance(found, str) and EARLIEST in found.values()):
        raise BuildError(
            f"{FORMAT}: option endingOffsets cannot be the earliest, for that is before any record, got {given!r}"
        )
    return found


def ends_with(options: Mapping[str, str]) -> str | None:
    """Return the name of an option that says where a read ends; None if there is none."""
    return next((name for name in NAMES if name.startswith("ending") and name.lower() in options), None)


def as_json(name: str, text: str, example: str) -> dict[str, Any]:
    """Return the object of an option's value. Raises BuildError showing the form."""
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise BuildError(f"{FORMAT}: option {name} has the form {example}, got {text!r}")
    return found


def _times(options: Mapping[str, str], side: str, *, or_latest: bool) -> Times | None:
    single, each = f"{side}Timestamp", f"{side}OffsetsByTimestamp"
    given = options.get(single.lower())
    if given is not None:
        if not given.strip().isdigit():
            raise BuildError(f"{FORMAT}: option {single} must be a time in ms since 1970, got {given!r}")
        return Times(single, int(given), or_latest)
    given = options.get(each.lower())
    if given is None:
        return None
    times = _by_partition(each, given, '{"topic": {"0": 1700000000000}}')
    for key, time in times.items():
        if time < 0:
            raise BuildError(f"{FORMAT}: option {each} has {time} for {key}; give a time in ms since 1970")
    return Times(each, times, or_latest)


def _offsets(name: str, text: str) -> str | Mapping[TopicPartition, int]:
    if text.lower() in ("earliest", "latest"):
        return text.lower()
    places = _by_partition(name, text, '"earliest", "latest" or {"topic": {"0": 5}}')
    for key, place in places.items():
        if place < EARLIEST:
            raise BuildError(
                f"{FORMAT}: option {name} has {place} for {key}; give an offset, {EARLIEST} (the earliest) or {LATEST} (the latest)"
            )
    return places


def _by_partition(name: str, text: str, example: str) -> dict[TopicPartition, int]:
    try:
        return {
            TopicPartition(topic, int(number)): int(place)
            for topic, numbers in as_json(name, text, example).items()
            for number, place in numbers.items()
        }
    except (AttributeError, TypeError, ValueError):
        raise BuildError(f"{FORMAT}: option {name} has the form {example}, got {text!r}") from None
