"""`consume --until`: where reading ends."""

from __future__ import annotations

import re
import time
from typing import Any, Final, NamedTuple

import click

from streamactors.cli.places import CHOICES, PLACE, Kind, Place, PlaceParam

_RECORDS: Final = re.compile(r"([\d_,]{1,19}) *records?")


class Until(NamedTuple):
    """Where reading ends: at a place, after a number of records, or at a time that is still to come. The others are None."""

    place: Place | None = None
    records: int | None = None
    deadline_ms: int | None = None
    """ms since 1970."""


class _UntilType(PlaceParam):
    name = "place"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, Until):
            return value
        records = _RECORDS.fullmatch(value)
        if records is not None:
            count = int(re.sub("[_,]", "", records[1]) or 0)
            return Until(records=count) if count else self.fail("give at least 1 record", param, ctx)
        try:
            place = PLACE.convert(value, param, ctx)
        except click.BadParameter:
            self.fail(f"{value!r} is no end of reading; {CHOICES}, or a number such as '10 records'", param, ctx)
        if place.kind is Kind.TIME and place.number > time.time() * 1_000:
            return Until(deadline_ms=place.number)
        return Until(place)


UNTIL: Final = _UntilType()
