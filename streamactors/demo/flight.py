"""Flight: the value of a record of topic `flights`, as JSON there and as a row in Spark."""

from __future__ import annotations

import json
from typing import Any, Final, NamedTuple

ORIGINS: Final = ("EWR", "JFK", "LGA")
PARTITION_OF: Final = {origin: partition for partition, origin in enumerate(ORIGINS)}

SPARK_SCHEMA: Final = (
    "origin string, dest string, carrier string, flight int, month int, scheduled_at_ms long, "
    "dep_delay int, arr_delay int, distance int"
)


class BadFlight(ValueError):
    """A record that is not a flight; the message says why."""


class Flight(NamedTuple):
    """One scheduled departure from New York in 2013. Delays are in minutes, None where there was no departure or arrival."""

    origin: str
    dest: str
    carrier: str
    flight: int
    month: int
    scheduled_at_ms: int
    dep_delay: int | None
    arr_delay: int | None
    distance: int

    @property
    def cancelled(self) -> bool:
        return self.dep_delay is None

    def to_json(self) -> bytes:
        """Return the flight as a record's value."""
        return json.dumps(self._asdict(), separators=(",", ":")).encode()

    @classmethod
    def from_json(cls, raw: bytes | None) -> Flight:
        """Return the flight in a record's value. Raises BadFlight if there is none in it."""
        try:
            fields: Any = json.loads(raw or b"")
        except ValueError as error:
            raise BadFlight(f"no JSON: {error}") from None
        try:
            flight = cls(**fields)
        except TypeError as error:
            raise BadFlight(f"not the fields of a flight: {error}") from None
        for name, value in zip(cls._fields, flight, strict=True):
            if type(value) not in _KINDS[name]:
                raise BadFlight(f"{name} is {value!r}")
        return flight


_TEXT, _NUMBER, _MINUTES = (str,), (int,), (int, type(None))
_KINDS: Final[dict[str, tuple[type, ...]]] = {
    "origin": _TEXT,
    "dest": _TEXT,
    "carrier": _TEXT,
    "flight": _NUMBER,
    "month": _NUMBER,
    "scheduled_at_ms": _NUMBER,
    "dep_delay": _MINUTES,
    "arr_delay": _MINUTES,
    "distance": _NUMBER,
}
