"""Records that are late, or that nobody expects: what a topic really holds. Owner: the plan."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from streamactors.kafka.producer_record import ProducerRecord

if TYPE_CHECKING:
    from streamactors.simulation.faults.chances import Chances
    from streamactors.simulation.faults.faults import Faults
    from streamactors.simulation.world.face import World

POISON: Final = b"\xff\xfe{not: any format"
HUGE: Final = 900_000
"""Bytes of a huge record: below the 1 MB that a broker takes."""


class Records:
    """The records of a run's topics."""

    def __init__(self, faults: Faults, chances: Chances) -> None:
        self._faults = faults
        self._chances = chances
        self._late_ms = faults.span_ms("lateness")

    def prepared(self, world: World, topic: str, records: list[ProducerRecord]) -> list[ProducerRecord]:
        """Return the records in their order; late ones with another timestamp, and others beside them."""
        return [each for record in records for each in self._around(world, topic, record)]

    def _around(self, world: World, topic: str, record: ProducerRecord) -> Iterator[ProducerRecord]:
        faults, strikes_at = self._faults, self._chances.strikes_at
        late = strikes_at("late", topic, faults.late, world, f"a record of {topic} has an earlier timestamp")
        if late is not None:
            at = record.timestamp if record.timestamp else world.wall_ms()
            record = record._replace(timestamp=max(0, int(at - late.dice().uniform(*self._late_ms))))
        yield record
        if strikes_at("poisoned", topic, faults.poisoned, world, f"a record of {topic} cannot be decoded"):
            yield record._replace(value=POISON)
        if strikes_at("huge", topic, faults.huge, world, f"a record of {topic} has {HUGE:,} bytes"):
            yield record._replace(value=b"x" * HUGE)
        if strikes_at("null", topic, faults.null, world, f"a record of {topic} has no value"):
            yield record._replace(value=None)
